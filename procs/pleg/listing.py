"""Sorting what the runtime lists into pods, and choosing what to ask more about. Pure.

Only what carries a pod's uid is a kubelet's; everything else is foreign: counted, named in words,
and never touched. What is listed may be odd in any way: odd is said, nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kubelet.channels.wire import ANY_KEY
from kubelet.cri import api_pb2 as pb
from kubelet.pods.runtime import (
    RUNTIME_KEY,
    ContainerRecord,
    ContainerState,
    PodRecord,
    SandboxRecord,
    SandboxState,
)

UID_LABEL: Final = "io.kubernetes.pod.uid"
MAX_UID_BYTES: Final = 256
_RESERVED: Final = frozenset({RUNTIME_KEY, ANY_KEY, ""})

INSPECTED_DEAD: Final = 3  # newest dead ones of each container name whose status is asked for
KEPT_DEAD: Final = 100  # dead ones of a pod that are kept at all; the rest is counted

# States in a shape: those of containers are the CRI's, those of sandboxes stand beside them.
_UNKNOWN: Final = int(pb.CONTAINER_UNKNOWN)
_READY: Final = 100
_NOT_READY: Final = 101
# Id -> state of all that is listed of a pod: the pod is looked at when that differs.
Shape = dict[str, int]


@dataclass(slots=True)
class PodListing:
    """What is listed of one pod."""

    uid: str
    sandboxes: list[pb.PodSandbox] = field(default_factory=list)
    containers: list[pb.Container] = field(default_factory=list)
    shape: Shape = field(default_factory=dict)

    def add_sandbox(self, sandbox: pb.PodSandbox) -> None:
        """Take a sandbox."""
        self.sandboxes.append(sandbox)
        ready = sandbox.state == pb.SANDBOX_READY
        self.shape[sandbox.id] = _READY if ready else _NOT_READY

    def add_container(self, container: pb.Container) -> None:
        """Take a container."""
        self.containers.append(container)
        state = container.state  # one that the CRI does not have is as good as unknown
        self.shape[container.id] = state if 0 <= state < _UNKNOWN else _UNKNOWN


@dataclass(slots=True)
class Listing:
    """Everything that the runtime lists."""

    pods: dict[str, PodListing] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)  # ids


def sort_out(sandboxes: Iterable[pb.PodSandbox], containers: Iterable[pb.Container]) -> Listing:
    """Sort what is listed by pod."""
    listing = Listing()
    pods, foreign = listing.pods, listing.foreign
    for sandbox in sandboxes:
        uid = sandbox.labels.get(UID_LABEL, "")
        pod = pods.get(uid)
        if pod is None:
            if not is_uid(uid):
                foreign.append(sandbox.id)
                continue
            pod = pods[uid] = PodListing(uid)
        pod.add_sandbox(sandbox)
    for container in containers:
        uid = container.labels.get(UID_LABEL, "")
        pod = pods.get(uid)
        if pod is None:
            if not is_uid(uid):
                foreign.append(container.id)
                continue
            pod = pods[uid] = PodListing(uid)
        pod.add_container(container)
    return listing


def is_uid(uid: str) -> bool:
    """Whether this can be a pod's uid: it is a key of a table, and the key of no other entry."""
    return uid not in _RESERVED and len(uid.encode()) <= MAX_UID_BYTES


_STATES: Final = {
    ContainerState.CREATED: pb.CONTAINER_CREATED,
    ContainerState.RUNNING: pb.CONTAINER_RUNNING,
    ContainerState.EXITED: pb.CONTAINER_EXITED,
    ContainerState.UNKNOWN: pb.CONTAINER_UNKNOWN,
}


def shape_of(record: PodRecord) -> Shape | None:
    """Return the shape that a record was made of; None if it does not hold all of it."""
    return None if record.left_out else _shape(record)


def _shape(record: PodRecord) -> Shape:
    shape: Shape = {c.id: _STATES[c.state] for c in record.containers}
    for sandbox in record.sandboxes:
        shape[sandbox.id] = _READY if sandbox.state is SandboxState.READY else _NOT_READY
    return shape


def shape_seen(listed: Shape, record: PodRecord) -> Shape:
    """Return the shape at which a pod is as its record says.

    A status is newer than the listing that it was asked for: what has changed in between, or gone,
    is not to be looked at again for that.
    """
    shape = _shape(record)
    return {**listed, **shape} if record.left_out else shape


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about the containers of a pod, and which of its dead ones to leave out."""

    inspect: tuple[pb.Container, ...]
    reuse: tuple[ContainerRecord, ...]  # dead and known: they do not change any more
    listed: tuple[pb.Container, ...]  # dead and old: as listed is enough
    left_out: int


def plan(containers: Iterable[pb.Container], known: Mapping[str, ContainerRecord]) -> Plan:
    """Choose which containers of a pod to inspect.

    All that live, all that lived at the last look, and the newest dead ones of each name: those
    are what a pod's status shows. The others only wait for garbage collection; with thousands of
    them a look stays as short.
    """
    inspect: list[pb.Container] = []
    dead: list[pb.Container] = []
    for container in containers:
        before = known.get(container.id)
        lived = before is not None and before.state is not ContainerState.EXITED
        alive = container.state != pb.CONTAINER_EXITED
        (inspect if alive or lived else dead).append(container)
    ranked = _by_rank(dead)
    reuse: list[ContainerRecord] = []
    listed: list[pb.Container] = []
    for rank, container in ranked[:KEPT_DEAD]:
        before = known.get(container.id)
        if before is not None and before.inspected:
            reuse.append(before)
        elif rank < INSPECTED_DEAD:
            inspect.append(container)
        else:
            listed.append(container)
    return Plan(tuple(inspect), tuple(reuse), tuple(listed), len(ranked[KEPT_DEAD:]))


def _by_rank(dead: list[pb.Container]) -> list[tuple[int, pb.Container]]:
    """Return dead containers with their rank among those of their name: all newest ones first."""
    ranks: dict[str, int] = {}
    ranked = []
    for container in sorted(dead, key=_newest_first):
        rank = ranks.get(container.metadata.name, 0)
        ranks[container.metadata.name] = rank + 1
        ranked.append((rank, container))
    ranked.sort(key=lambda pair: pair[0])  # stable: newest first within a rank
    return ranked


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    """The same for the sandboxes of a pod."""

    inspect: tuple[pb.PodSandbox, ...]
    reuse: tuple[SandboxRecord, ...]
    listed: tuple[pb.PodSandbox, ...]
    left_out: int


def plan_sandboxes(
    sandboxes: Iterable[pb.PodSandbox], known: Iterable[SandboxRecord]
) -> SandboxPlan:
    """Choose which sandboxes of a pod to inspect: the ready ones and the newest of the others.

    A sandbox that is not ready is not reused: its network goes away later than its processes.
    """
    inspect = [s for s in sandboxes if s.state == pb.SANDBOX_READY]
    dead = sorted((s for s in sandboxes if s.state != pb.SANDBOX_READY), key=_newest_first)
    inspect += dead[:INSPECTED_DEAD]
    old = {s.id: s for s in known if s.state is SandboxState.NOT_READY}
    kept = dead[INSPECTED_DEAD:KEPT_DEAD]
    reuse = tuple(old[s.id] for s in kept if s.id in old)
    listed = tuple(s for s in kept if s.id not in old)
    return SandboxPlan(tuple(inspect), reuse, listed, len(dead[KEPT_DEAD:]))


def _newest_first(found: pb.Container | pb.PodSandbox) -> tuple[int, str]:
    return -found.created_at, found.id
