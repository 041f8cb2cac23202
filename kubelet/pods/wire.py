"""Records of the tables as plain maps: what has its default is left out, what is odd is refused.

Another shape of a record is another schema number of its table, so nothing here is versioned.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from functools import cache
from typing import Any, Self, TypeVar

from kubelet.channels.schema import MismatchError, decode

T = TypeVar("T")


class BadRecordError(ValueError):
    """What was read from a table is no record of ours; its text names each misfit."""


class Record:
    """A row of a table: a frozen dataclass that is a plain map there."""

    __slots__ = ()

    def to_wire(self) -> dict[str, Any]:
        """Return the row as a plain map."""
        return to_map(self)

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Return the row in a map; BadRecordError says what does not fit."""
        return from_map(cls, value)


def to_map(record: Any) -> dict[str, Any]:
    """Return a dataclass as a map of plain values, without what has its default."""
    found: dict[str, Any] = {}
    for name, default, plain in _fields(record.__class__):
        value = getattr(record, name)
        if value != default:
            found[name] = value if plain else _plain(value)
    return found


def from_map(cls: type[T], value: object) -> T:
    """Return the record that ``to_map`` made a map of, or raise BadRecordError."""
    try:
        return decode(cls, value)
    except MismatchError as misfit:
        raise BadRecordError(str(misfit)) from None


@cache
def _fields(cls: type[Any]) -> tuple[tuple[str, Any, bool], ...]:
    """Return name, default and "holds only what MessagePack knows" of each field, once a class."""
    return tuple((f.name, _default(f), f.type in _PLAIN) for f in dataclasses.fields(cls))


# Annotations are text here, as the modules with records postpone their evaluation.
_PLAIN = frozenset({"str", "int", "bool", "float", "tuple[str, ...]", "dict[str, str]"})


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    factory: Callable[[], Any] | Any = field.default_factory
    return _NOTHING if factory is dataclasses.MISSING else factory()


_NOTHING = object()


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_map(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
