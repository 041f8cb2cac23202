"""Names of objects of the cluster. Pure."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 253
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def noted(name: str) -> bool:
    """Whether there is a row for a name, if only one that says that there is nothing."""
    try:
        return 0 < len(name.encode()) <= LONGEST
    except UnicodeEncodeError:  # JSON can hold what is no text
        return False


def possible(name: str) -> bool:
    """Whether an object can have this name.

    A pod may refer to any text. What cannot be a name is never asked for: there is no such object,
    and the text must not become part of a request.
    """
    return len(name) <= LONGEST and _SUBDOMAIN.fullmatch(name) is not None
