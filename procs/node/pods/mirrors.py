"""Mirror pods: what runs here by a manifest, shown by the API server (P-10..P-15).

A mirror is only a picture: deleting one ends nothing; one that is missing or wrong is made anew.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from kubelet import logging as klog
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.pods.rows import (
    EVENTS,
    FILE,
    HTTP,
    PODS,
    SOURCES_KEY,
    PodRow,
    SourcesRow,
    WorkerState,
)
from kubelet.pods.wire import BadRecordError
from procs.node.apiserver.types import ApiError, Json
from procs.node.kit import Kit
from procs.node.pods import parts
from procs.node.pods.pace import delay
from procs.node.pods.watch import AssignedPods
from shm.codec import unpack

log = klog.get_logger(__name__)

TROUBLE: Final = "mirror pods"
_STATIC: Final = (FILE, HTTP)
# Of the object that the copy is made of: the API server gives each object its own.
_NOT_COPIED: Final = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
        "selfLink",
        "ownerReferences",
        "finalizers",
    }
)

Place = tuple[str, str]  # namespace and name


@dataclass(frozen=True, slots=True)
class Static:
    """A static pod of this node."""

    namespace: str
    name: str
    hash: str  # its config.hash
    shown: bool  # it runs, or has run, and its manifest is there
    document: Json = field(hash=False)


@dataclass(frozen=True, slots=True)
class Owner:
    """The node that mirrors belong to."""

    name: str
    uid: str
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Make a mirror."""

    place: Place
    body: Json = field(hash=False)


@dataclass(frozen=True, slots=True)
class Delete:
    """Take a mirror away."""

    place: Place
    uid: str


def plan(
    static: Collection[Static],
    mirrors: Mapping[Place, Json],
    owner: Owner | None,
    *,
    delivered: bool,
) -> list[Create | Delete]:
    """Return what makes the mirrors right; ``delivered``: all static pods are known (P-14).

    A mirror that is taken away is made again by the next plan, when it is known to be gone.
    """
    actions: list[Create | Delete] = []
    wanted = {(pod.namespace, pod.name): pod for pod in static if pod.shown}
    known = {(pod.namespace, pod.name) for pod in static}
    for place, mirror in mirrors.items():
        pod = wanted.get(place)
        if pod is None:
            wrong = delivered and place not in known
        else:
            wrong = parts.annotation(mirror, parts.MIRROR) != pod.hash or parts.deleting(mirror)
        if wrong:
            actions.append(Delete(place, parts.uid_of(mirror)))
    if owner is not None and not owner.deleting:  # P-12
        actions += [
            Create(place, body_of(pod, owner))
            for place, pod in wanted.items()
            if place not in mirrors
        ]
    return actions


def body_of(pod: Static, owner: Owner) -> Json:
    """Return the mirror of a static pod (P-10)."""
    metadata = {k: v for k, v in pod.document["metadata"].items() if k not in _NOT_COPIED}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), parts.MIRROR: pod.hash}
    metadata["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
        }
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": pod.document["spec"],
    }


def static_of(row: PodRow) -> Static | None:
    """Return the static pod of a row; None if it is none."""
    if row.source not in _STATIC or not row.document or row.state is WorkerState.FINISHED:
        return None
    pod = parts.pod_of(json.loads(row.document))
    hash_ = parts.annotation(pod, parts.HASH) or row.uid
    ends = row.ending is not None and row.ending.removed
    shown = row.admitted and not row.rejected and not ends
    return Static(row.namespace, row.name, hash_, shown, pod)


class Mirrors:
    """Keeps a mirror of each static pod."""

    def __init__(self, kit: Kit, pods: AssignedPods) -> None:
        self._kit = kit
        self._pods = pods
        self._static: dict[str, Static] = {}  # by uid
        self._read_as: dict[str, int] = {}  # uid -> hash of its row as it was read last
        self._busy: set[Place] = set()
        self._failures: dict[Place, int] = {}
        self._resting: set[Place] = set()  # they wait for a moment
        self._errors: dict[Place, str] = {}
        self._due = asyncio.Event()

    def start(self) -> None:
        """Begin to look."""
        process = self._kit.process
        process.on_hint(self._hinted)
        self._pods.on_change(lambda _uid: self._due.set())
        self._pods.on_listed(self._due.set)
        self._kit.view.on_heard(self._due.set)  # P-12: registered, there is an owner
        self._read_all()
        process.spawn(self._run(), name="mirror pods")

    # Static pods.

    def _hinted(self, hint: Hint) -> None:
        if hint.table == EVENTS and hint.key in (ANY_KEY, SOURCES_KEY):
            self._due.set()
        elif hint.table == PODS and hint.key == ANY_KEY:
            self._read_all()
        elif hint.table == PODS:
            self._read(hint.key)

    def _read_all(self) -> None:
        for uid in {*self._kit.process.tables.keys(PODS), *self._read_as}:
            self._read(uid)
        self._due.set()

    def _read(self, uid: str) -> None:
        tables = self._kit.process.tables
        entry = tables.get(PODS, uid)
        if entry is None:
            if PODS not in tables.unavailable:  # else nothing is known
                self._read_as.pop(uid, None)
                self._note(uid, None)
            return
        content = hash(entry.payload)
        if content == self._read_as.get(uid):
            return
        self._read_as[uid] = content
        value = unpack(entry.payload)
        if isinstance(value, dict) and value.get("source") not in _STATIC:
            self._note(uid, None)  # most pods; there is no need to look at all of it
            return
        try:
            self._note(uid, static_of(PodRow.from_wire(value)))
        except (BadRecordError, ValueError) as err:
            log.error("Row cannot be read and is left out", table=PODS, pod=uid, err=err)

    def _note(self, uid: str, static: Static | None) -> None:
        if self._static.get(uid) == static:
            return
        if static is None:
            del self._static[uid]
        else:
            self._static[uid] = static
        self._due.set()

    def _delivered(self) -> bool:
        """Whether each source of static pods has given its pods (P-4)."""
        value = self._kit.process.tables.value(EVENTS, SOURCES_KEY)
        try:
            row = SourcesRow.from_wire(value) if value is not None else None
        except BadRecordError:
            return False
        return row is not None and all(row.delivered.get(source, True) for source in _STATIC)

    # Mirrors.

    async def _run(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            if self._pods.listed:
                self._act()

    def _act(self) -> None:
        view = self._kit.view
        owner = Owner(view.name, view.uid, view.deleting) if view.uid else None
        static = self._static.values()
        actions = plan(static, self._pods.mirrors, owner, delivered=self._delivered())
        for action in actions:
            if action.place not in self._busy and action.place not in self._resting:
                self._busy.add(action.place)
                name = f"mirror of {'/'.join(action.place)}"
                self._kit.process.spawn(self._carry_out(action), name=name)
        self._tell({action.place for action in actions})

    async def _carry_out(self, action: Create | Delete) -> None:
        namespace, name = action.place
        path = f"/api/v1/namespaces/{namespace}/pods"
        try:
            if isinstance(action, Create):
                self._kit.process.row.count("mirror_creates")
                self._pods.answered(await self._kit.api.create(path, action.body))
            else:
                self._kit.process.row.count("mirror_deletes")
                await self._kit.api.delete(f"{path}/{name}", grace=0, uid=action.uid)
                self._pods.drop(action.uid)
        except ApiError as err:
            self._failed(action, err)
        else:
            self._failures.pop(action.place, None)
            self._errors.pop(action.place, None)
        finally:
            self._busy.discard(action.place)
        self._due.set()

    def _failed(self, action: Create | Delete, err: ApiError) -> None:
        """Try again later; that there is nothing to delete is no failure."""
        self._kit.process.row.count("mirror_errors")
        place = action.place
        self._failures[place] = self._failures.get(place, 0) + 1
        if not (isinstance(action, Delete) and (err.not_found or err.conflict)):
            self._errors[place] = f"{'/'.join(place)}: {err}"
        self._resting.add(place)
        seconds = delay(self._failures[place], err, self._kit.random)
        self._kit.process.spawn(self._rest(place, seconds), name=f"pause of {'/'.join(place)}")

    async def _rest(self, place: Place, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._resting.discard(place)
        self._due.set()

    def _tell(self, planned: Collection[Place]) -> None:
        """Say what is still to be done and did not work."""
        self._errors = {place: why for place, why in self._errors.items() if place in planned}
        told = sorted(self._errors.values())
        more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
        self._kit.troubles.tell(TROUBLE, told[0] + more if told else None)
