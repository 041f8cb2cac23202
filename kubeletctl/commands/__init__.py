"""One module per verb.

Each has a docstring, which is its help (the first line also stands in the list of verbs), a
``configure`` that adds its arguments to a parser, and a ``run`` that returns the exit code.
"""

from __future__ import annotations

from typing import Final

VERBS: Final = (
    "status",
    "pods",
    "get",
    "describe",
    "why",
    "probes",
    "orphans",
    "trace",
    "logs",
    "apply",
    "delete",
    "logs",
    "top",
    "events",
    "dump",
    "profile",
    "restart",
    "reload",
    "release",
    "config",
    "version",
)
