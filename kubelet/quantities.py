"""Kubernetes quantities: "100m", "1.5Gi", "2e3".

A quantity is a fixed-point number with nine decimal places and the notation it was written in.
Parsing rounds away from zero to the nano unit, so that whoever asks for a little gets a little.
Printing gives the canonical form: the largest suffix that leaves a whole number.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import Final

_NANO: Final = 10**9
_CAP: Final = (1 << 63) - 1  # binary notation is capped here, as its 64-bit consumers expect
_EXPONENT_LIMIT: Final = 999  # a number with a thousand zeros is an attack, not an amount
_TEXT_LIMIT: Final = 1000

_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {power: name for name, power in _DECIMAL.items()}
_BINARY_NAMES: Final = {power: name for name, power in _BINARY.items()}
_SHAPE: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[a-zA-Z]*)(?P<exponent>[+-]?[0-9]*)"
)

ALLOWED: Final = 'must be a quantity such as "500m", "1.5Gi" or "2e3"'


class Format(enum.Enum):
    """The notation in which a quantity was written, and in which it is printed."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount in billionths of a unit; two quantities are equal when their amounts are."""

    nano: int
    format: Format = field(default=Format.DECIMAL, compare=False)

    @classmethod
    def of(cls, units: int, form: Format = Format.DECIMAL) -> Quantity:
        """Make a quantity of so many whole units."""
        return cls(units * _NANO, form)

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return _away(self.nano, _NANO)

    @property
    def milli(self) -> int:
        """Thousandths of a unit, rounded away from zero."""
        return _away(self.nano, _NANO // 1000)

    def __add__(self, other: Quantity) -> Quantity:
        form = self.format if self.nano else other.format
        return Quantity(self.nano + other.nano, form)

    def __sub__(self, other: Quantity) -> Quantity:
        form = self.format if self.nano else other.format
        return Quantity(self.nano - other.nano, form)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.nano * factor, self.format)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __str__(self) -> str:
        if not self.nano:
            return "0"
        whole, below = divmod(self.nano, _NANO)
        # Below 1024, and with decimals, a binary suffix would lose or confuse: decimal is shown.
        if self.format is Format.BINARY and not below and abs(whole) >= 1024:
            return _binary(whole)
        return _decimal(self.nano, self.format)


def parse(text: str) -> Quantity:
    """Return the quantity that ``text`` stands for, or raise ValueError."""
    match = _SHAPE.fullmatch(text) if len(text) <= _TEXT_LIMIT else None
    if match is None or not (match["whole"] or match["fraction"]):
        raise ValueError(ALLOWED)
    base, power, form = _suffix(match["suffix"], match["exponent"])
    fraction = match["fraction"] or ""
    digits = int(match["whole"] + fraction)
    nano = _scaled(digits, base, power, len(fraction))
    if form is Format.BINARY:
        nano = min(nano, _CAP * _NANO)
        if 0 < nano < _NANO:
            form = Format.DECIMAL
    return Quantity(-nano if match["sign"] == "-" else nano, form)


def _suffix(letters: str, exponent: str) -> tuple[int, int, Format]:
    """Return the base, the power and the notation that a suffix stands for."""
    if exponent:
        if letters not in {"e", "E"} or not exponent.lstrip("+-"):
            raise ValueError(ALLOWED)
        if len(exponent) > 5 or abs(int(exponent)) > _EXPONENT_LIMIT:
            raise ValueError(
                f"must have an exponent between -{_EXPONENT_LIMIT} and {_EXPONENT_LIMIT}"
            )
        return 10, int(exponent), Format.EXPONENT
    if letters in _BINARY:
        return 2, _BINARY[letters], Format.BINARY
    if letters in _DECIMAL:
        return 10, _DECIMAL[letters], Format.DECIMAL
    raise ValueError(ALLOWED)


def _scaled(digits: int, base: int, power: int, places: int) -> int:
    """Return digits * base**power / 10**places in nano units, rounded up."""
    tens = 9 - places + (power if base == 10 else 0)
    amount = digits << power if base == 2 else digits
    return amount * 10**tens if tens >= 0 else _away(amount, 10**-tens)


def _away(amount: int, unit: int) -> int:
    """Divide, rounding away from zero."""
    return -(-amount // unit) if amount >= 0 else amount // unit


def _decimal(nano: int, form: Format) -> str:
    power = -9
    while nano % 1000 == 0 and (form is Format.EXPONENT or power < 18):
        nano //= 1000
        power += 3
    if form is Format.EXPONENT:
        return f"{nano}e{power}" if power else str(nano)
    return f"{nano}{_DECIMAL_NAMES[power]}"


def _binary(whole: int) -> str:
    power = 0
    while whole % 1024 == 0 and power < 60:
        whole //= 1024
        power += 10
    return f"{whole}{_BINARY_NAMES.get(power, '')}"


def from_json(value: object) -> Quantity:
    """Decode a quantity of the API: a string, or a bare number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(ALLOWED)  # noqa: TRY004 - one error type for bad input
    return parse(value if isinstance(value, str) else repr(value))
