"""The value types of fields and flags.

Each type reads a value from a decoded document (``decode``) and from the text of a flag
(``parse``); both return the value in its JSON form, which is the only form the configuration is
kept in. Both raise BadValueError or BadValuesError, which say what is allowed.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubelet import durations, quantities
from kubelet.config.errors import BadValueError, BadValuesError

INT32: Final = (-(1 << 31), (1 << 31) - 1)
INT64: Final = (-(1 << 63), (1 << 63) - 1)
UINT32: Final = (0, (1 << 32) - 1)

# A map value that a document sets to null: the key is removed by a merge.
REMOVED: Final = None


class Repeat(enum.Enum):
    """What a flag given more than once does."""

    REPLACE = "the last one counts"
    EXTEND = "each adds to the list"
    UPDATE = "each adds to the map"


@dataclass(frozen=True, slots=True)
class Type:
    """One type of value: its name for people, and how it is read."""

    name: str
    decode: Callable[[Any], Any]
    parse: Callable[[str], Any]
    repeat: Repeat = Repeat.REPLACE
    is_map: bool = False
    choices: tuple[str, ...] = ()  # the only strings allowed; empty: not a fixed set


def described(text: str, kind: Type) -> str:
    """Add the choices, if there are any, to a text about a value."""
    words = [word for word in kind.choices if word]
    return f"{text} One of: {', '.join(words)}." if words else text


def _reject(allowed: str, value: Any) -> BadValueError:
    return BadValueError(allowed, value)


# --- scalars ---------------------------------------------------------------------------------

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_BOOL: Final = "must be true or false"


def parse_bool(text: str) -> bool:
    """Read a boolean flag with the spellings that Go knows."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _reject(_BOOL, text)


def _decode_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _reject(_BOOL, value)


BOOL: Final = Type("boolean", _decode_bool, parse_bool)


def _decode_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _reject("must be a string", value)


STRING: Final = Type("string", _decode_string, str)


_INTEGER: Final = re.compile(r"([+-]?)(0[xX]|0[oO]|0[bB]|0(?=[0-9_]))?([0-9a-fA-F_]{1,64})")


def _go_int(text: str) -> int:
    """Read an integer as Go's base 0 does: 0x1f, 0o17, 017 and 1_000 are numbers."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise ValueError(text)
    sign, prefix, digits = match.groups("")
    base = {"0x": 16, "0o": 8, "0b": 2, "0": 8, "": 10}[prefix.lower()]
    return int(sign + digits.removeprefix("_" if prefix else ""), base)


def integer(name: str, bounds: tuple[int, int]) -> Type:
    """Make the type of integers within the bounds of a machine word."""
    low, high = bounds
    allowed = f"must be an integer from {low} to {high}"

    def decode(value: Any) -> int:
        whole = isinstance(value, float) and math.isfinite(value) and value.is_integer()
        if isinstance(value, bool) or not (whole or isinstance(value, int)):
            raise _reject(allowed, value)
        if not low <= value <= high:
            raise _reject(allowed, value)
        return int(value)

    def parse(text: str) -> int:
        try:
            number = _go_int(text)
        except ValueError:
            raise _reject(allowed, text) from None
        return decode(number)

    return Type(name, decode, parse)


INTEGER32: Final = integer("int32", INT32)
INTEGER64: Final = integer("int64", INT64)
UNSIGNED32: Final = integer("uint32", UINT32)

_FLOAT: Final = "must be a number"


def _decode_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _reject(_FLOAT, value)
    try:
        number = float(value)
    except OverflowError:
        raise _reject(_FLOAT, value) from None
    if not math.isfinite(number):
        raise _reject(_FLOAT, str(value))
    return number


def _parse_float(text: str) -> float:
    try:
        return _decode_float(float(text))
    except ValueError:
        raise _reject(_FLOAT, text) from None


FLOAT: Final = Type("number", _decode_float, _parse_float)


def _parse_duration(text: str) -> str:
    try:
        return durations.render(durations.parse(text))
    except ValueError as err:
        raise _reject(str(err), text) from None


def _decode_duration(value: Any) -> str:
    if not isinstance(value, str):
        raise _reject(durations.ALLOWED, value)
    return _parse_duration(value)


DURATION: Final = Type("duration", _decode_duration, _parse_duration)


def _decode_flush(value: Any) -> str:
    """Read logging's flush frequency, which an old form gives as a number of nanoseconds."""
    if isinstance(value, int) and not isinstance(value, bool) and INT64[0] <= value <= INT64[1]:
        return durations.render(value)
    return _decode_duration(value)


FLUSH: Final = Type("duration", _decode_flush, _parse_duration)


def _decode_quantity(value: Any) -> str:
    try:
        return str(quantities.from_json(value))
    except ValueError as err:
        raise _reject(str(err), value) from None


QUANTITY: Final = Type("quantity", _decode_quantity, _decode_quantity)


def _quantity_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _reject(quantities.ALLOWED + ", in quotes", value)
    return _decode_quantity(value)


# A quantity that Go keeps in a string field: a bare number is the wrong type there.
QUANTITY_STRING: Final = Type("quantity", _quantity_text, _quantity_text)


def _parse_ip(value: Any) -> str:
    import ipaddress

    try:
        if not isinstance(value, str):
            raise _reject("must be an IP address in quotes", value)
        ipaddress.ip_address(value)
    except ValueError:
        raise _reject("must be an IPv4 or IPv6 address", value) from None
    return value


IP: Final = Type("IP address", _parse_ip, _parse_ip)


def one_of(*allowed: str) -> Type:
    """Make the type of strings out of a fixed set."""
    text = "must be one of " + ", ".join(f'"{word}"' for word in allowed)

    def decode(value: Any) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        raise _reject(text, value)

    return Type("string", decode, decode, choices=allowed)


# --- lists and maps --------------------------------------------------------------------------


def _each(items: Sequence[tuple[str, Any]], read: Callable[[Any], Any]) -> list[Any]:
    """Read every item, and raise all that is wrong with them at once."""
    out: list[Any] = []
    bad: list[BadValueError] = []
    for below, item in items:
        try:
            out.append(read(item))
        except BadValueError as err:
            bad.append(BadValueError(err.allowed, err.value, below + err.below))
        except BadValuesError as err:
            bad += [BadValueError(one.allowed, one.value, below + one.below) for one in err.items]
    if bad:
        raise BadValuesError(bad)
    return out


def split_commas(text: str) -> list[str]:
    """Split a list flag as Go does: one line of CSV, so that quotes may hold a comma."""
    if not text:
        return []
    if "\n" in text or "\r" in text or "\0" in text:
        raise _reject("must be one line of values with commas between them", text)
    import csv  # this and ipaddress below are not needed where values are only read back

    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error:
        raise _reject("must be values with commas between them", text) from None


def list_of(item: Type) -> Type:
    """Make the type of lists of ``item``."""

    def decode(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _reject("must be a list", value)
        return _each([(f"[{i}]", one) for i, one in enumerate(value)], item.decode)

    def parse(text: str) -> list[Any]:
        return _each([("", one) for one in split_commas(text)], item.parse)

    return Type(f"list of {item.name}", decode, parse, Repeat.EXTEND, choices=item.choices)


def _pairs(text: str, separator: str) -> dict[str, str]:
    """Split ``a=1,b=2``; spaces around keys and values are not part of them."""
    out: dict[str, str] = {}
    for pair in text.split(",") if text else []:
        key, found, value = pair.partition(separator)
        if not found or not key.strip():
            raise _reject(f"must be key{separator}value pairs with commas between them", pair)
        out[key.strip()] = value.strip()
    return out


def map_of(item: Type, separator: str = "=") -> Type:
    """Make the type of maps from strings to ``item``."""

    def decode(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _reject("must be a map", value)
        there = {key: one for key, one in value.items() if one is not None}
        read = _each([(f"[{key}]", one) for key, one in there.items()], item.decode)
        gone = {key: REMOVED for key, one in value.items() if one is None}
        return dict(zip(there, read, strict=True)) | gone

    def parse(text: str) -> dict[str, Any]:
        pairs = _pairs(text, separator)
        read = _each([(f"[{key}]", one) for key, one in pairs.items()], item.parse)
        return dict(zip(pairs, read, strict=True))

    return Type(f"map of string to {item.name}", decode, parse, Repeat.UPDATE, is_map=True)


def _parse_labels(text: str) -> dict[str, str]:
    """Split node labels, where a key alone stands for an empty value."""
    out: dict[str, str] = {}
    for pair in text.split(",") if text else []:
        key, _, value = pair.partition("=")
        out[key.strip()] = value.strip()
    return out


LABELS: Final = Type(
    "map of string to string", map_of(STRING).decode, _parse_labels, Repeat.UPDATE, is_map=True
)


def _parse_headers(text: str) -> dict[str, list[str]]:
    """Split ``Name:value`` pairs; a name may come more than once."""
    out: dict[str, list[str]] = {}
    for pair in text.split(",") if text else []:
        key, found, value = pair.partition(":")
        if not found or not key.strip():
            raise _reject("must be name:value pairs with commas between them", "<masked>")
        out.setdefault(key.strip(), []).append(value.strip())
    return out


HEADERS: Final = Type(
    "map of string to list of string",
    map_of(list_of(STRING)).decode,
    _parse_headers,
    Repeat.UPDATE,
    is_map=True,
)
