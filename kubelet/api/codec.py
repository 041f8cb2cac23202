"""JSON documents to the API's dataclasses and back; what does not fit is said by its path.

Unknown fields are no error: they are reported as warnings and dropped, as the API server does it
for a client that asks for warnings. ``null`` is a field that is not set.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

_QUANTITY: Final = "quantity"
# A quantity as it is written; a document may have a bare number there.
QuantityText = Annotated[str, _QUANTITY]

T = TypeVar("T")

_UNSET: Final[tuple[Any, ...]] = ("", (), {})

_CAMEL: Final = {
    "host_ip": "hostIP",
    "downward_api": "downwardAPI",
    "scale_io": "scaleIO",
    "container_id": "containerID",
    "resource_id": "resourceID",
    "image_id": "imageID",
    "host_ips": "hostIPs",
    "pod_ip": "podIP",
    "pod_ips": "podIPs",
    "host_ipc": "hostIPC",
    "host_pid": "hostPID",
    "set_hostname_as_fqdn": "setHostnameAsFQDN",
}


class DecodeError(ValueError):
    """A document is not of its type; ``problems`` has a line for each misfit, with its path."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(slots=True)
class Notes:
    """What was found on the way through a document."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)  # unknown fields

    def misfit(self, path: str, wanted: str, value: object) -> None:
        """Note a value of a wrong type."""
        if value is None:
            shown = "null"
        elif isinstance(value, (str, int, float)):
            shown = repr(value)
        else:
            shown = "a list" if isinstance(value, list) else "an object"
        self.problems.append(f"{path or 'document'}: must be {wanted}, not {shown[:80]}")


# Takes a path, a value and the notes; returns the typed value.
_Decode = Callable[[str, Any, Notes], Any]


def decode(cls: type[T], document: object, path: str = "") -> tuple[T, list[str]]:
    """Return the object in a document and the warnings; DecodeError names all that misfits."""
    notes = Notes()
    kind: Any = cls
    found: T = _decoder(kind)(path, document, notes)
    if notes.problems:
        raise DecodeError(notes.problems)
    return found, notes.warnings


def read(cls: type[T], document: object) -> T:
    """Return the object in a document that was written by ``encode``."""
    return decode(cls, document)[0]


def camel(name: str) -> str:
    """Return a field's name in documents."""
    if name in _CAMEL:
        return _CAMEL[name]
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def encode(value: Any) -> Any:
    """Return the document of an object, without what is not set."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        document = {}
        for name, key in _names(type(value)):
            part = getattr(value, name)
            if part is None or part in _UNSET:
                continue
            document[key] = part if isinstance(part, (str, int)) else encode(part)
        return document
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    return value


@cache
def _names(cls: type[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((f.name, camel(f.name)) for f in dataclasses.fields(cls))


@cache
def _decoder(kind: Any) -> _Decode:
    if dataclasses.is_dataclass(kind):
        return _object(kind)
    plain = {str: _text, int: _integer, bool: _boolean, Any: _anything}
    if kind in plain:
        return plain[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _quantity
    if origin is tuple:
        return _list(_decoder(arguments[0]))
    if origin is dict:
        return _map(_decoder(arguments[1]))
    if origin in (Union, types.UnionType):
        return _union(tuple(a for a in arguments if a is not type(None)))
    raise TypeError(f"{kind!r} is not a type of the API")


def _object(cls: Any) -> _Decode:
    hints = get_type_hints(cls, include_extras=True)
    plan: dict[str, tuple[str, Any]] = {key: (name, hints[name]) for name, key in _names(cls)}

    def read_object(path: str, value: Any, notes: Notes) -> Any:
        if not isinstance(value, dict):
            notes.misfit(path, "an object", value)
            return cls()
        found = {}
        for key, item in value.items():
            where = f"{path}.{key}" if path else str(key)
            if key not in plan:
                notes.warnings.append(f'unknown field "{where}"')
            elif item is not None:
                name, kind = plan[key]
                found[name] = _decoder(kind)(where, item, notes)
        return cls(**found)

    return read_object


def _list(item: _Decode) -> _Decode:
    def read_list(path: str, value: Any, notes: Notes) -> Any:
        if not isinstance(value, list):
            notes.misfit(path, "a list", value)
            return ()
        return tuple(item(f"{path}[{i}]", v, notes) for i, v in enumerate(value))

    return read_list


def _map(item: _Decode) -> _Decode:
    def read_map(path: str, value: Any, notes: Notes) -> Any:
        if not isinstance(value, dict):
            notes.misfit(path, "an object", value)
            return {}
        found = {}
        for key, one in value.items():
            if not isinstance(key, str):
                notes.problems.append(f"{path}: key {key!r} must be a string")
            elif one is not None:
                found[key] = item(f"{path}[{key}]", one, notes)
        return found

    return read_map


def _union(kinds: tuple[Any, ...]) -> _Decode:
    if len(kinds) == 1:
        return _decoder(kinds[0])

    def read_int_or_text(path: str, value: Any, notes: Notes) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            notes.misfit(path, "an integer or a string", value)
            return None
        return value

    return read_int_or_text


def _text(path: str, value: Any, notes: Notes) -> str:
    if isinstance(value, str):
        return value
    notes.misfit(path, "a string", value)
    return ""


def _integer(path: str, value: Any, notes: Notes) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    notes.misfit(path, "an integer", value)
    return None


def _boolean(path: str, value: Any, notes: Notes) -> bool | None:
    if isinstance(value, bool):
        return value
    notes.misfit(path, "true or false", value)
    return None


def _quantity(path: str, value: Any, notes: Notes) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    notes.misfit(path, "a quantity", value)
    return ""


def _anything(_path: str, value: Any, _notes: Notes) -> Any:
    return value
