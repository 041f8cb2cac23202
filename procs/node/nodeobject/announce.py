"""What is told of the node as events: each change once, whoever dies in between (N-14, N-23).

What was told last is in the ledger. A successor that finds the node as its predecessor left it
has nothing to tell; one that finds a change which nobody told of, tells it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from procs.node.apiserver.types import Json
from procs.node.nodeobject import odd
from procs.node.nodeobject.conditions import FALSE, OURS, READY, TRUE, UNKNOWN
from procs.node.nodeobject.facts import DISK_PRESSURE, MEMORY_PRESSURE, PID_PRESSURE

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
UNSCHEDULABLE: Final = "unschedulable"

_REASONS: Final = {
    (MEMORY_PRESSURE, FALSE): "NodeHasSufficientMemory",
    (MEMORY_PRESSURE, TRUE): "NodeHasInsufficientMemory",
    (DISK_PRESSURE, FALSE): "NodeHasNoDiskPressure",
    (DISK_PRESSURE, TRUE): "NodeHasDiskPressure",
    (PID_PRESSURE, FALSE): "NodeHasSufficientPID",
    (PID_PRESSURE, TRUE): "NodeHasInsufficientPID",
    (READY, TRUE): "NodeReady",
    (READY, FALSE): "NodeNotReady",
}


class Event(NamedTuple):
    """One event about the node."""

    type: str
    reason: str
    message: str


class News(NamedTuple):
    """What is to be told, and what is told then."""

    told: dict[str, str]
    events: tuple[Event, ...]


class Telling(NamedTuple):
    """News that are being told of an object, as the ledger holds them meanwhile."""

    uid: str
    at_ns: int  # wall clock: their moment, by which they are known again
    news: News

    def to_wire(self) -> dict[str, Any]:
        """Return it as plain values."""
        events = [list(event) for event in self.news.events]
        return {"uid": self.uid, "at": self.at_ns, "told": self.news.told, "events": events}

    @classmethod
    def from_wire(cls, value: Any) -> Telling | None:
        """Return what stands in the ledger; None: nothing, or nothing of this shape."""
        try:
            events = tuple(Event(*event) for event in value["events"])
            return cls(value["uid"], value["at"], News(dict(value["told"]), events))
        except (KeyError, TypeError, ValueError):
            return None


def told_of(value: Any) -> dict[str, str] | None:
    """Return what was told, from the ledger; None: nobody remembers."""
    if not isinstance(value, dict):
        return None
    return {str(k): v for k, v in value.items() if isinstance(v, str)}


def heard(told: Mapping[str, str] | None, node: Json) -> dict[str, str]:
    """Return what counts as told when an object is heard of before anything is sent to it.

    Where nobody remembers, that is what the object says. A condition that the control plane gave
    up is unknown, and its return is news.
    """
    found = {name: odd.text(odd.condition(node, name), "status") for name in OURS}
    if told is None:
        return {name: status for name, status in found.items() if status}
    lost = {name: status for name, status in found.items() if status == UNKNOWN}
    return {**told, **lost}


def news(told: Mapping[str, str], node: Json) -> News:
    """Return the events for what an object says that was not told yet."""
    name = odd.text(node, "metadata", "name")
    after, events = dict(told), []
    for kind in OURS:
        status = odd.text(odd.condition(node, kind), "status")
        reason = _REASONS.get((kind, status))
        if reason is None or told.get(kind) == status:
            continue
        after[kind] = status
        if (kind, status) != (READY, FALSE) or kind in told:  # a new node is not ready at first
            events.append(_status_event(name, reason))
    cordoned = odd.part(node, "spec").get(UNSCHEDULABLE) is True
    if cordoned is not (told.get(UNSCHEDULABLE) == TRUE):
        after[UNSCHEDULABLE] = TRUE if cordoned else FALSE
        events.append(_status_event(name, "NodeNotSchedulable" if cordoned else "NodeSchedulable"))
    return News(after, tuple(events))


def _status_event(name: str, reason: str) -> Event:
    return Event(NORMAL, reason, f"Node {name} status is now: {reason}")


def starting() -> Event:
    """Return that this kubelet starts."""
    return Event(NORMAL, "Starting", "Starting kubelet.")


def old_cgroups() -> Event:
    """Return that the machine has cgroups of the first version."""
    text = (
        "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future "
        "release. Please migrate to cgroup v2. More information at "
        "https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1"
    )
    return Event(WARNING, "CgroupV1", text)


def rebooted(name: str, boot_id: str) -> Event:
    """Return that the machine was started anew."""
    return Event(WARNING, "Rebooted", f"Node {name} has been rebooted, boot id: {boot_id}")


def was_rebooted(before: Json, boot_id: str) -> bool:
    """Whether the node's object speaks of an earlier start of the machine (N-15)."""
    known = odd.text(before, "status", "nodeInfo", "bootID")
    return bool(known and boot_id) and known != boot_id
