"""From a decoded MessagePack map to a typed dataclass, and what does not fit, by name.

Supported field types: ``str int float bool bytes``, ``Literal``, enums (by value), ``T | None``
and other unions, ``tuple[T, ...]``, ``dict[str, T]`` and dataclasses of these.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
# Takes where the value stands and the value; returns it, converted, or raises MismatchError.
Check = Callable[[str, object], Any]


class MismatchError(ValueError):
    """A value does not fit its type; ``problems`` has one sentence for each misfit."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def decode(cls: type[T], body: object) -> T:
    """Build ``cls`` from a map, or raise MismatchError with everything that is wrong with it."""
    kind: Any = cls
    value: T = _checker(kind)(cls.__name__, body)
    return value


def as_map(value: object) -> Any:
    """Turn what MessagePack does not know into what it does; meant as its ``default``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in _names(type(value))}
    if isinstance(value, enum.Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} cannot go over a channel")


@cache
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


@cache
def _checker(kind: Any) -> Check:
    """Build the check of a type once."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass_check(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum_check(kind)
    if kind in (str, int, float, bool, bytes, type(None)):
        return _plain_check(kind)
    return _generic_checker(kind, get_origin(kind), get_args(kind))


def _generic_checker(kind: Any, origin: Any, arguments: tuple[Any, ...]) -> Check:
    if origin is Literal:
        return _literal_check(arguments)
    if origin in (Union, types.UnionType):
        return _union_check([_checker(a) for a in arguments])
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return _tuple_check(_checker(arguments[0]))
    if origin is dict and arguments[0] is str:
        return _dict_check(_checker(arguments[1]))
    raise TypeError(f"{kind!r} is not a type that a message may hold")


def _mismatch(where: str, value: object, wanted: str) -> MismatchError:
    # Only scalars are shown: what is nested may be as deep as its sender likes.
    scalar = value is None or isinstance(value, (str, bytes, int, float))
    shown = repr(value) if scalar else f"a {type(value).__name__}"
    if len(shown) > 60:
        shown = shown[:57] + "..."
    return MismatchError([f"{where} is {shown}, not {wanted}"])


def _plain_check(kind: type) -> Check:
    wanted = "nil" if kind is type(None) else kind.__name__

    def check(where: str, value: object) -> Any:
        if type(value) is kind:  # exactly: a bool is no int here
            return value
        if kind is float and type(value) is int:
            return float(value)
        raise _mismatch(where, value, wanted)

    return check


def _literal_check(choices: tuple[Any, ...]) -> Check:
    wanted = "one of " + ", ".join(map(repr, choices))

    def check(where: str, value: object) -> Any:
        if any(type(value) is type(c) and value == c for c in choices):
            return value
        raise _mismatch(where, value, wanted)

    return check


def _enum_check(kind: type[enum.Enum]) -> Check:
    members = {(type(m.value), m.value): m for m in kind}
    wanted = "one of " + ", ".join(repr(m.value) for m in kind)

    def check(where: str, value: object) -> Any:
        if isinstance(value, (str, int)) and (type(value), value) in members:
            return members[type(value), value]
        raise _mismatch(where, value, wanted)

    return check


def _union_check(checks: list[Check]) -> Check:
    def check(where: str, value: object) -> Any:
        problems: list[str] = []
        for one in checks:
            try:
                return one(where, value)
            except MismatchError as misfit:
                problems += misfit.problems
        raise MismatchError([" and ".join(problems)])

    return check


def _tuple_check(item: Check) -> Check:
    def check(where: str, value: object) -> Any:
        if not isinstance(value, list):
            raise _mismatch(where, value, "a list")
        return tuple(_all(item, ((f"{where}[{i}]", v) for i, v in enumerate(value))))

    return check


def _dict_check(item: Check) -> Check:
    def check(where: str, value: object) -> Any:
        if not isinstance(value, dict) or not all(type(k) is str for k in value):
            raise _mismatch(where, value, "a map with text keys")
        values = _all(item, ((f"{where}[{k!r}]", v) for k, v in value.items()))
        return dict(zip(value, values, strict=True))

    return check


def _all(item: Check, pairs: Any) -> list[Any]:
    """Check each one, and report all that do not fit."""
    values: list[Any] = []
    problems: list[str] = []
    for where, value in pairs:
        try:
            values.append(item(where, value))
        except MismatchError as misfit:
            problems += misfit.problems
    if problems:
        raise MismatchError(problems)
    return values


def _dataclass_check(cls: type[Any]) -> Check:
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    checks = {name: _checker(hints[name]) for name in fields}
    required = [
        f.name
        for f in fields.values()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]

    def check(where: str, value: object) -> Any:
        if not isinstance(value, dict):
            raise _mismatch(where, value, "a map")
        problems: list[str] = []
        if value.keys() != fields.keys():
            problems += [f"{where}.{n} is missing" for n in required if n not in value]
            problems += [f"{where} has no field {k!r}" for k in value if k not in fields]
        arguments: dict[str, Any] = {}
        for name in fields.keys() & value.keys():
            if type(value[name]) is hints[name]:  # nearly every field of nearly every message
                arguments[name] = value[name]
                continue
            try:
                arguments[name] = checks[name](f"{where}.{name}", value[name])
            except MismatchError as misfit:
                problems += misfit.problems
        if problems:
            raise MismatchError(problems)
        return _construct(cls, where, arguments)

    return check


def _construct(cls: type[Any], where: str, arguments: dict[str, Any]) -> Any:
    try:
        return cls(**arguments)
    except ValueError as error:  # a range, checked in __post_init__
        raise MismatchError([f"{where}: {error}"]) from error
