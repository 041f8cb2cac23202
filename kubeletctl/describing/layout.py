"""Titles with their values below each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kubelet.times import to_ns
from kubeletctl.words import plain

NONE: Final = "<none>"
UNSET: Final = "<unset>"


def pairs(found: Iterable[tuple[str, str]], indent: int = 0) -> list[str]:
    """Return lines of title and value, the values in one column; "" leaves a title alone.

    A value of several lines goes on below its first one.
    """
    rows = [(plain(title), value.splitlines() or [""]) for title, value in found]
    width = max((len(title) for title, _ in rows), default=0) + 3
    lines = []
    for title, (first, *rest) in rows:
        lines.append(" " * indent + f"{title + ':':{width}}{plain(first)}".rstrip())
        lines += [" " * (indent + width) + plain(one) for one in rest]
    return lines


def many(title: str, values: Iterable[str], width: int) -> list[str]:
    """Return one title and values below each other from a column on; no values are "<none>"."""
    found = [plain(one) for one in values] or [NONE]
    head = f"{title + ':':{width}}"
    return [(head if i == 0 else " " * width) + one for i, one in enumerate(found)]


def assignments(values: Mapping[str, object]) -> list[str]:
    """Return labels and the like as key=value, by key."""
    return [f"{key}={value}" for key, value in sorted(values.items())]


def moment(text: str) -> str:
    """Print a time of the API as kubectl describes it, in UTC; what is no time is printed as is."""
    from datetime import UTC, datetime

    try:
        stamp = to_ns(text)
    except ValueError:
        return plain(text)
    if not stamp:
        return NONE
    return datetime.fromtimestamp(stamp // 10**9, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")


def truth(value: bool | None) -> str:
    """Print true and false as they stand in documents."""
    return "true" if value else "false"


def capital(value: bool) -> str:
    """Print True and False as kubectl does in columns."""
    return "True" if value else "False"
