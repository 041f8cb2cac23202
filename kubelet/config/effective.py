"""The effective configuration: every field and flag with its value and who set it.

The supervisor computes it once and hands it to the other processes as JSON. Reading that needs
neither the file nor a YAML library.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from kubelet import durations
from kubelet.config import gates
from kubelet.config.errors import ConfigError, Problem, shown
from kubelet.config.table import (
    API_VERSION,
    DEFAULT,
    FIELD_BY_PATH,
    FIELDS,
    FLAG_BY_NAME,
    FLAGS,
    KIND,
    defaults,
)

_SCHEMA: Final = 1
_MASK: Final = "<masked>"
_SECRET: Final = "staticPodURLHeader"  # noqa: S105 - the name of the field, not a secret

_T = TypeVar("_T", bool, int, str)
# The getters below are named after these types, so the types need other names there.
_Bool = bool
_Int = int
_Str = str


class Unimplemented(NamedTuple):
    """A field or flag that is accepted, but that no process acts on yet."""

    name: str
    value: Any
    set_by: str


@dataclass(frozen=True, slots=True)
class Effective:
    """The configuration in force.

    Names are field paths ("authentication.webhook.enabled") or flags ("--run-dir"). A flag that
    mirrors a field stands for that field. An unknown name is a KeyError: it is a bug.
    """

    values: Mapping[_Str, Any]  # by field path
    flags: Mapping[_Str, Any]  # by flag name, of the flags that mirror no field
    origins: Mapping[_Str, _Str]  # who set it, by name, of what the user set

    def _raw(self, name: _Str) -> Any:
        known = _canonical(name)
        return self.flags[known[2:]] if known.startswith("--") else self.values[known]

    def get(self, name: _Str) -> Any:
        """Return a value in its JSON form; maps and lists are copies."""
        found = self._raw(name)
        return copy.deepcopy(found) if isinstance(found, dict | list) else found

    def flag(self, name: _Str) -> Any:
        """Return the value of a flag, by its name without dashes."""
        return self.get(f"--{name}")

    def bool(self, name: _Str) -> _Bool:
        """Return a boolean."""
        return _typed(name, self._raw(name), _Bool)

    def int(self, name: _Str) -> _Int:
        """Return an integer."""
        return _typed(name, self._raw(name), _Int)

    def str(self, name: _Str) -> _Str:
        """Return a string."""
        return _typed(name, self._raw(name), _Str)

    def duration(self, name: _Str) -> float:
        """Return a duration in seconds."""
        return durations.seconds(_typed(name, self._raw(name), _Str))

    def gate(self, name: _Str) -> _Bool:
        """Tell whether a feature gate is on."""
        return gates.enabled(name, self.values["featureGates"])

    @property
    def changed(self) -> tuple[_Str, ...]:
        """The fields and flags that the user set, sorted."""
        return tuple(sorted(self.origins))

    def origin(self, name: _Str) -> _Str:
        """Return who set a value: "flag --x", "file path" or "default"."""
        return self.origins.get(_canonical(name), DEFAULT)

    @property
    def kubelet(self) -> dict[_Str, Any]:
        """The configuration as a KubeletConfiguration document."""
        root: dict[_Str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
        for path, value in self.values.items():
            if value is None:
                continue
            *parents, leaf = path.split(".")
            place = root
            for name in parents:
                place = place.setdefault(name, {})
            place[leaf] = copy.deepcopy(value)
        return root

    def masked(self) -> dict[_Str, Any]:
        """Return the document with secret header values hidden (C-6)."""
        document = self.kubelet
        headers = document.get(_SECRET, {})
        document[_SECRET] = {name: [_MASK] * len(values) for name, values in headers.items()}
        return document

    def unimplemented(self, only_set: _Bool = False) -> list[Unimplemented]:
        """List what is accepted but not acted on; ``only_set`` leaves out what nobody set."""
        names = [row.path for row in FIELDS if row.acted_on_by is None]
        names += [f"--{row.name}" for row in FLAGS if row.field is None and not row.acted_on_by]
        return [
            Unimplemented(name, self._visible(name), self.origin(name))
            for name in names
            if not only_set or name in self.origins
        ]

    def _visible(self, name: _Str) -> Any:
        return self.masked()[_SECRET] if name == _SECRET else self.get(name)

    def to_json(self) -> bytes:
        """Encode everything, so that from_json gives an equal configuration."""
        whole = {
            "schema": _SCHEMA,
            "values": dict(self.values),
            "flags": dict(self.flags),
            "origins": dict(self.origins),
        }
        return json.dumps(whole, sort_keys=True, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Effective:
        """Decode what to_json wrote; ValueError if it is anything else."""
        try:
            whole = json.loads(data)
            if whole["schema"] != _SCHEMA:
                raise ValueError(f"unknown schema {whole['schema']!r}, expected {_SCHEMA}")
            parts = [_section(whole, name) for name in ("values", "flags", "origins")]
        except (KeyError, TypeError, RecursionError) as err:
            raise ValueError(f"not an effective configuration: {err!r}") from None
        values, flags, origins = parts
        if values.keys() != FIELD_BY_PATH.keys() or flags.keys() != defaults().keys():
            raise ValueError("the configuration is of another version of the kubelet")
        return cls(values, flags, origins)


def _section(whole: dict[str, Any], name: str) -> dict[str, Any]:
    part = whole[name]
    if not isinstance(part, dict):
        raise TypeError(name)
    return part


def _canonical(name: str) -> str:
    """Return the name under which a value is kept; KeyError if there is none."""
    if not name.startswith("--"):
        return FIELD_BY_PATH[name].path
    row = FLAG_BY_NAME[name[2:]]
    return row.field or name


def _typed(name: str, value: Any, kind: type[_T]) -> _T:
    if type(value) is not kind:
        raise TypeError(f"{name} is {type(value).__name__}, not {kind.__name__}")
    return value


def node_name(effective: Effective) -> str:
    """Return this node's name (C-19): the override or the host's, trimmed, in lower case."""
    override = effective.str("--hostname-override")
    name = (override or os.uname().nodename).strip().lower()
    if not name:
        where = "--hostname-override" if override else "host name"
        raise ConfigError((str(Problem(where, "node name", shown(""), "must not be empty")),))
    return name
