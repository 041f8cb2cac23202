"""Numbers and times as a person reads them. Pure."""

from __future__ import annotations

import time
from typing import Final

MIB: Final = 1 << 20


def age(seconds: float) -> str:
    """Print a length of time with two or three digits: 4.2s, 42s, 3m12s, 5h03m, 3d4h."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def short_age(milliseconds: float | None) -> str:
    """Print a short time, in milliseconds below a second; ``-`` for an unknown one."""
    if milliseconds is None:
        return "-"
    if milliseconds < 9.95:
        return f"{milliseconds:.1f}ms"
    return f"{milliseconds:.0f}ms" if milliseconds < 1000 else age(milliseconds / 1000)


def number(value: float | None, digits: int = 0) -> str:
    """Print a number, ``-`` for an unknown one."""
    return "-" if value is None else f"{value:.{digits}f}"


def local_time(unix: float) -> str:
    """Print a moment of the wall clock, in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix))


def plain(text: str) -> str:
    """Take out what a terminal would obey instead of show.

    Operations, pods and events come from processes that run without root and handle what
    strangers send; the terminal that they are shown on often belongs to root.
    """
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
