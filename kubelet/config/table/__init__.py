"""The one table of the configuration: every field and every flag, each in one row.

Parsing, defaults, validation, ``--help``, the reference page and the tests read these rows.
"""

from kubelet.config.table.flags import (
    ELSEWHERE,
    FIELD_BY_PATH,
    FIELDS,
    FLAG_BY_NAME,
    FLAG_BY_SHORTHAND,
    FLAGS,
    REMOVED,
    defaults,
)
from kubelet.config.table.row import API_VERSION, DEFAULT, KIND, Field, Flag

__all__ = [
    "API_VERSION",
    "DEFAULT",
    "ELSEWHERE",
    "FIELDS",
    "FIELD_BY_PATH",
    "FLAGS",
    "FLAG_BY_NAME",
    "FLAG_BY_SHORTHAND",
    "KIND",
    "REMOVED",
    "Field",
    "Flag",
    "defaults",
]
