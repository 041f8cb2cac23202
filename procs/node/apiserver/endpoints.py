"""An Endpoint as plain values, for a pipe and for the ledger."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, Final

from procs.node.apiserver.types import Endpoint

_TUPLES: Final = ("exec_command", "impersonate_groups")


def to_plain(endpoint: Endpoint) -> dict[str, Any]:
    """Return an endpoint as values that JSON and MessagePack can hold."""
    return asdict(endpoint)


def from_plain(value: dict[str, Any]) -> Endpoint:
    """Return the endpoint that values stand for; TypeError or AttributeError if they do not."""
    known = {field.name for field in fields(Endpoint)}
    found = {name: value[name] for name in value if name in known}
    for name in _TUPLES:
        found[name] = tuple(found.get(name, ()))
    extra = found.get("impersonate_extra", {})
    found["impersonate_extra"] = {name: tuple(extra[name]) for name in extra}
    return Endpoint(**found)
