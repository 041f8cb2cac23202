"""Moments of the wall clock in a sentence: since when, at what time, how long until then. Pure."""

from __future__ import annotations

from kubelet.times import to_ns
from kubeletctl.words import age, clock_time


def since(moment_ns: int, now_ns: int) -> str:
    """Say since when something is so."""
    return f"since {when(moment_ns, now_ns)}"


def at(moment_ns: int, now_ns: int) -> str:
    """Say when something was."""
    return f"at {when(moment_ns, now_ns)}"


def when(moment_ns: int, now_ns: int) -> str:
    """Return a moment of the past, and how long ago it is."""
    if not moment_ns:
        return "a moment that nobody noted"
    ago = age((now_ns - moment_ns) / 1e9)
    return f"{clock_time(moment_ns / 1e9, now_ns / 1e9)} ({ago} ago)"


def until(moment_ns: int, now_ns: int) -> str:
    """Say when something will be."""
    if moment_ns <= now_ns:
        return "at once"
    left = age((moment_ns - now_ns) / 1e9)
    return f"at {clock_time(moment_ns / 1e9, now_ns / 1e9)} (in {left})"


def parsed(moment: str) -> int:
    """Return the moment that the API writes so; 0 if it is none."""
    try:
        return to_ns(moment)
    except ValueError:
        return 0
