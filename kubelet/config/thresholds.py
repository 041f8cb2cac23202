"""Eviction thresholds: the signals, and the syntax of their values (E-2, E-3)."""

from __future__ import annotations

import math
from typing import Final

from kubelet import durations, quantities

SIGNALS: Final = (
    "memory.available",
    "allocatableMemory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
)
# Computed from the other file systems; what a user sets for them is not used.
DERIVED: Final = ("containerfs.available", "containerfs.inodesFree")

_ALLOWED: Final = "must be a percentage from 0% to 100%, or a quantity above 0"


def signal(name: str) -> str | None:
    """Return what is allowed if there is no such signal."""
    return None if name in SIGNALS else f"unknown signal; known are {', '.join(SIGNALS)}"


def percentage(text: str) -> float | None:
    """Return the number in front of a percent sign, or None if there is none."""
    number = text.removesuffix("%")
    if number == text or not number.isascii() or number != number.strip() or "_" in number:
        return None
    try:
        value = float(number)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def threshold(text: str) -> str | None:
    """Return what is allowed if the text is no threshold."""
    if text.endswith("%"):
        share = percentage(text)
        return None if share is not None and 0 <= share <= 100 else _ALLOWED
    try:
        return None if quantities.parse(text).nano > 0 else _ALLOWED
    except ValueError:
        return _ALLOWED


def reclaim(text: str) -> str | None:
    """Return what is allowed if the text is no amount to reclaim."""
    allowed = "must be a percentage above 0% up to 100%, or a quantity of 0 or more"
    if text.endswith("%"):
        share = percentage(text)
        return None if share is not None and 0 < share <= 100 else allowed
    try:
        return None if quantities.parse(text).nano >= 0 else allowed
    except ValueError:
        return allowed


def grace(text: str) -> str | None:
    """Return what is allowed if the text is no grace period."""
    try:
        return None if durations.parse(text) >= 0 else "must not be negative"
    except ValueError as err:
        return str(err)
