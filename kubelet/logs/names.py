"""The names of log files: the current one, and those that were moved away (I-40, P-153). Pure.

``0.log`` is the log of a container's first instance, ``0.log.20260102-030405`` a part of it that
was moved away then, with ``.gz`` once it is compressed, with ``.tmp`` while it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

STAMP_FORM: Final = "%Y%m%d-%H%M%S"
COMPRESSED: Final = ".gz"
UNFINISHED: Final = ".tmp"

_ROTATED: Final = re.compile(r"\.(\d{8}-\d{6})(\.gz|\.tmp)?")


class Form(StrEnum):
    """In what form a part of a log is."""

    PLAIN = ""
    COMPRESSED = ".gz"
    UNFINISHED = ".tmp"


class Rotated(NamedTuple):
    """A part of a log that was moved away; in the order of time."""

    stamp: str
    form: Form
    name: str  # of the file


def rotated(name: str, current: str) -> Rotated | None:
    """Return what a file is to the log called ``current``; None if it is no part of it."""
    if not name.startswith(current):
        return None
    found = _ROTATED.fullmatch(name, len(current))
    return Rotated(found[1], Form(found[2] or ""), name) if found else None


def all_rotated(names: Iterable[str], current: str) -> list[Rotated]:
    """Return the parts of a log among some files, oldest first."""
    found = (rotated(name, current) for name in names)
    return sorted(one for one in found if one is not None)
