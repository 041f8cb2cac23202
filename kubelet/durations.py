"""Durations as Go writes and reads them ("1m30s"), because every duration a user gives is one.

A duration is a whole number of nanoseconds in a signed 64-bit word. Parsing and printing follow
Go's ``time`` package to the digit, so that what we print is what a Go kubelet would print.
"""

from __future__ import annotations

from typing import Final

NANOSECOND: Final = 1
MICROSECOND: Final = 1000 * NANOSECOND
MILLISECOND: Final = 1000 * MICROSECOND
SECOND: Final = 1000 * MILLISECOND
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

_MAX: Final = (1 << 63) - 1
_UNITS: Final = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "\u00b5s": MICROSECOND,  # the micro sign
    "\u03bcs": MICROSECOND,  # the Greek letter mu
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_DIGITS: Final = frozenset("0123456789")

ALLOWED: Final = 'must be a duration such as "300ms", "1m30s" or "2h"'


def parse(text: str) -> int:
    """Return the nanoseconds that ``text`` stands for, or raise ValueError."""
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(ALLOWED)
    total = 0
    while rest:
        amount, rest = _component(rest)
        total += amount
        if total > _MAX + 1:
            raise ValueError("is longer than a duration can be (about 292 years)")
    if text[0] == "-":
        return -total
    if total > _MAX:
        raise ValueError("is longer than a duration can be (about 292 years)")
    return total


def _component(text: str) -> tuple[int, str]:
    """Read one number with its unit from the front of ``text``."""
    whole, rest = _digits(text)
    fraction = ""
    if rest.startswith("."):
        fraction, rest = _digits(rest[1:])
    if not whole and not fraction:
        raise ValueError(ALLOWED)
    name, rest = _unit(rest)
    unit = _UNITS.get(name)
    if unit is None:
        raise ValueError(ALLOWED)
    if len(whole) > 20:
        raise ValueError("is longer than a duration can be (about 292 years)")
    return int(whole or "0") * unit + _fraction(fraction, unit), rest


def _digits(text: str) -> tuple[str, str]:
    end = 0
    while end < len(text) and text[end] in _DIGITS:
        end += 1
    return text[:end], text[end:]


def _unit(text: str) -> tuple[str, str]:
    end = 0
    while end < len(text) and text[end] != "." and text[end] not in _DIGITS:
        end += 1
    return text[:end], text[end:]


def _fraction(digits: str, unit: int) -> int:
    """Scale a decimal fraction as Go does: in floating point, digits past 63 bits dropped."""
    value, scale = 0, 1.0
    for digit in digits:
        if value * 10 + int(digit) > _MAX:
            break
        value = value * 10 + int(digit)
        scale *= 10
    return int(float(value) * (float(unit) / scale))


def render(nanoseconds: int) -> str:
    """Print a duration as Go does: 90000000000 is "1m30s", 0 is "0s"."""
    if nanoseconds == 0:
        return "0s"
    sign = "-" if nanoseconds < 0 else ""
    size = abs(nanoseconds)
    if size < SECOND:
        return sign + _small(size)
    seconds, below = divmod(size, SECOND)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = _decimal(seconds, below, 9) + "s"
    if minutes or hours:
        text = f"{minutes}m{text}"
    if hours:
        text = f"{hours}h{text}"
    return sign + text


def _small(size: int) -> str:
    """Print what is shorter than a second in the unit that leaves a leading digit."""
    if size < MICROSECOND:
        return f"{size}ns"
    if size < MILLISECOND:
        return _decimal(*divmod(size, MICROSECOND), 3) + "\u00b5s"
    return _decimal(*divmod(size, MILLISECOND), 6) + "ms"


def _decimal(whole: int, below: int, places: int) -> str:
    if not below:
        return str(whole)
    return f"{whole}.{below:0{places}d}".rstrip("0")


def seconds(text: str) -> float:
    """Return a duration's length in seconds."""
    return parse(text) / SECOND


def from_json(value: object) -> int:
    """Decode ``metav1.Duration``: a string, never a number."""
    if not isinstance(value, str):
        raise ValueError(ALLOWED)  # noqa: TRY004 - one error type for bad input
    return parse(value)
