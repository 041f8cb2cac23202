"""What happened to a pod between two looks at it (G-3). Pure.

Sandboxes are treated as containers. States are running, exited, unknown and non-existent; a
container that is created and not yet started is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from kubelet.pods.runtime import ContainerState, PodRecord, SandboxState


class EventType(StrEnum):
    """What can happen; the names are those of the Go kubelet."""

    CONTAINER_STARTED = "ContainerStarted"
    CONTAINER_DIED = "ContainerDied"
    CONTAINER_REMOVED = "ContainerRemoved"
    CONTAINER_CHANGED = "ContainerChanged"
    POD_SYNC = "PodSync"


@dataclass(frozen=True, slots=True)
class PodEvent:
    """One event of a pod; ``id`` is the container's or sandbox's, "" for the pod as a whole."""

    pod: str
    type: EventType
    id: str = ""


class PlegState(Enum):
    """The states that events are made of; a fourth is not to be there at all."""

    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


_OF_CONTAINER: Final = {
    ContainerState.CREATED: PlegState.UNKNOWN,
    ContainerState.RUNNING: PlegState.RUNNING,
    ContainerState.EXITED: PlegState.EXITED,
    ContainerState.UNKNOWN: PlegState.UNKNOWN,
}
_OF_SANDBOX: Final = {
    SandboxState.READY: PlegState.RUNNING,
    SandboxState.NOT_READY: PlegState.EXITED,
}
_ENTERED: Final = {
    PlegState.RUNNING: EventType.CONTAINER_STARTED,
    PlegState.EXITED: EventType.CONTAINER_DIED,
    PlegState.UNKNOWN: EventType.CONTAINER_CHANGED,
}


def states(record: PodRecord | None) -> dict[str, PlegState]:
    """Return the state of each container and sandbox of a pod, by id."""
    if record is None:
        return {}
    found = {sandbox.id: _OF_SANDBOX[sandbox.state] for sandbox in record.sandboxes}
    found.update((c.id, _OF_CONTAINER[c.state]) for c in record.containers)
    return found


def events(old: PodRecord | None, new: PodRecord | None) -> tuple[PodEvent, ...]:
    """Return what happened from ``old`` to ``new``; None is a pod that is not there."""
    whole = new or old
    if whole is None or old == new:
        return ()
    before, after = states(old), states(new)
    found: list[PodEvent] = []
    for id_ in before | after:
        types = _of_one(before.get(id_), after.get(id_))
        if types == [EventType.CONTAINER_REMOVED] and new is not None and new.left_out:
            continue  # dead, and with so many others that it is no longer listed
        found += [PodEvent(whole.uid, type_, id_) for type_ in types]
    if not found and old is not None and new is not None:
        return (PodEvent(whole.uid, EventType.POD_SYNC),)
    return tuple(found)


def _of_one(old: PlegState | None, new: PlegState | None) -> list[EventType]:
    if old is new:
        return []
    if new is not None:
        return [_ENTERED[new]]
    if old is PlegState.EXITED:
        return [EventType.CONTAINER_REMOVED]
    return [EventType.CONTAINER_DIED, EventType.CONTAINER_REMOVED]
