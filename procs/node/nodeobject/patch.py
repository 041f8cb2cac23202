"""From two states of the node to the strategic merge patch between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from procs.node.apiserver.types import Json
from procs.node.nodeobject import conditions, odd

_REPLACE: Final = {"$patch": "replace"}


@dataclass(frozen=True, slots=True)
class Difference:
    """What is to be sent, and whether it says more than that we live."""

    changed: bool
    body: Json  # with all conditions of ours: a heartbeat is in each
    news: Json  # the same without heartbeats: {} if nothing changed


def between(before: Json, after: Json) -> Difference:
    """Return what turns one state into the other; both have the node's shape."""
    news: Json = {}
    metadata: Json = {}
    for name in ("labels", "annotations"):
        old, new = odd.part(before, "metadata", name), odd.part(after, "metadata", name)
        metadata |= _named(name, merge(old, new))
    news |= _named("metadata", metadata)
    news |= _named("status", _status(before, after))
    ours = [c for c in odd.maps(after, "status", "conditions") if c["type"] in conditions.OURS]
    body = {**news, "status": {**news.get("status", {}), "conditions": ours}}
    return Difference(bool(news), body, news)


def _status(before: Json, after: Json) -> Json:
    old, new = dict(odd.part(before, "status")), dict(odd.part(after, "status"))
    was = odd.maps(before, "status", "conditions")
    now = odd.maps(after, "status", "conditions")
    addresses = new.get("addresses")
    moved = old.get("addresses") != addresses
    for status in (old, new):
        for name in ("conditions", "addresses"):
            status.pop(name, None)
    found = merge(old, new)
    if moved and isinstance(addresses, list):
        # By its key, the type, the list could hold only one address of each.
        found["addresses"] = [*addresses, _REPLACE]
    found |= _named("conditions", _changed_conditions(was, now))
    return found


def _changed_conditions(was: list[Json], now: list[Json]) -> list[Json]:
    known = {one.get("type"): _timeless(one) for one in was}
    return [_timeless(one) for one in now if known.get(one.get("type")) != _timeless(one)]


def _timeless(condition: Json) -> Json:
    return {k: v for k, v in condition.items() if k != conditions.HEARTBEAT}


def merge(old: Json, new: Json) -> Json:
    """Return what a merge takes to turn one map into the other; what is gone is None."""
    found: Json = dict.fromkeys(name for name in old if name not in new)
    for name, value in new.items():
        there = old.get(name)
        if isinstance(value, dict) and isinstance(there, dict):
            found |= _named(name, merge(there, value))
        elif name not in old or there != value:
            found[name] = value
    return found


def _named(name: str, value: Any) -> Json:
    return {name: value} if value else {}
