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


def kube_age(seconds: float) -> str:
    """Print an age as kubectl does: 90s, 5m3s, 42m, 5h12m, 30h, 4d2h, 40d, 3y12d, 9y."""
    whole = int(max(0.0, seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    # Up to each limit: the unit, and what remains in the next smaller one, if that is still shown.
    for below, amount, unit, rest, small in (
        (10 * 60, minutes, "m", whole % 60, "s"),
        (180 * 60, minutes, "m", 0, ""),
        (8 * 3600, hours, "h", minutes % 60, "m"),
        (48 * 3600, hours, "h", 0, ""),
        (8 * 86400, days, "d", hours % 24, "h"),
        (2 * 365 * 86400, days, "d", 0, ""),
        (8 * 365 * 86400, days // 365, "y", days % 365, "d"),
    ):
        if whole < below:
            return f"{amount}{unit}" + (f"{rest}{small}" if rest else "")
    return f"{days // 365}y"


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


def clock_time(unix: float, now_unix: float) -> str:
    """Print a moment of the wall clock in local time: the date only where it is not near."""
    form = "%H:%M:%S" if abs(now_unix - unix) < 43200 else "%Y-%m-%d %H:%M:%S"
    return time.strftime(form, time.localtime(unix))


def count(amount: int, thing: str, things: str = "") -> str:
    """Print a number of things: 1 pod, 2 pods."""
    return f"{amount} {thing if amount == 1 else things or thing + 's'}"


def plain(text: str) -> str:
    """Take out what a terminal would obey instead of show.

    Operations, pods and events come from processes that run without root and handle what
    strangers send; the terminal that they are shown on often belongs to root.
    """
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
