"""Which containers are to be probed, from tables ``pods`` and ``status``.

What a pod wants is in its spec, and what there is to be probed is in its status: a regular
container or a sidecar that runs, and whose postStart hook is over (B-1, B-5). Of a row that has not
changed, nothing is decoded; of a pod without probes, the status is not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from kubelet import logging as klog
from kubelet.api.container import Container, is_sidecar
from kubelet.api.handlers import Probe
from kubelet.api.pod import Pod
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.pods.probes import ProbeKind
from kubelet.pods.rows import PODS, STATUS, PodRow, StatusRow, WorkerState
from kubelet.pods.wire import BadRecordError
from kubelet.process.operations import remember_pod
from kubelet.process.tables import Tables
from kubelet.times import to_ns
from procs.prober.job import Job
from shm.codec import DecodeError, unpack

log = klog.get_logger(__name__)

_MISSING: Final = hash(b"")
_OVER: Final = (WorkerState.TERMINATED, WorkerState.FINISHED)


@dataclass(frozen=True, slots=True)
class Subject:
    """A container that runs and has probes."""

    id: str
    name: str  # of the container
    started_ns: int  # wall clock, to the second
    started: bool  # what the status says of it
    ready: bool
    jobs: dict[ProbeKind, Job]


@dataclass(frozen=True, slots=True)
class Sight:
    """What there is to be probed of one pod."""

    uid: str
    name: str = ""
    namespace: str = ""
    subjects: tuple[Subject, ...] = ()
    ending: bool = False  # only readiness goes on (B-6)
    over: bool = False  # its containers are gone, and there will be no others
    absent: bool = False  # there is no row of it
    deleted: bool = False  # and its writer said so
    fresh: bool = False  # its status is another than at the last look


# What a pod's spec asks for: container -> its probes, by kind.
Wanted: TypeAlias = dict[str, tuple[Container, dict[ProbeKind, Probe]]]


def wanted(pod: Pod) -> Wanted:
    """Return the probes of a pod's containers, with their defaults (B-1, B-15)."""
    sidecars = (c for c in pod.spec.init_containers if is_sidecar(c))
    found = {c.name: (c, probes_of(c)) for c in (*sidecars, *pod.spec.containers)}
    return {name: entry for name, entry in found.items() if entry[1]}


def probes_of(container: Container) -> dict[ProbeKind, Probe]:
    """Return a container's probes, with their defaults."""
    probes = {
        ProbeKind.LIVENESS: container.liveness_probe,
        ProbeKind.READINESS: container.readiness_probe,
        ProbeKind.STARTUP: container.startup_probe,
    }
    return {kind: with_defaults(probe) for kind, probe in probes.items() if probe is not None}


def with_defaults(probe: Probe) -> Probe:
    """Return a probe with what the API server fills in (B-15), should it not have done so."""
    return replace(
        probe,
        initial_delay_seconds=probe.initial_delay_seconds or 0,
        timeout_seconds=probe.timeout_seconds or 1,
        period_seconds=probe.period_seconds or 10,
        success_threshold=probe.success_threshold or 1,
        failure_threshold=probe.failure_threshold or 3,
    )


def subjects(
    pod: Pod, wants: Wanted, status: dict[str, Any], hooked: tuple[str, ...]
) -> Iterator[Subject]:
    """Yield the containers of a pod that are to be probed now."""
    ip = status.get("podIP") or ""
    for member in ("initContainerStatuses", "containerStatuses"):
        for said in status.get(member) or ():
            found = wants.get(said.get("name", ""))
            running = (said.get("state") or {}).get("running")
            id_ = bare_id(said.get("containerID") or "")
            if found is None or running is None or not id_ or id_ in hooked:
                continue
            container, probes = found
            yield Subject(
                id_,
                container.name,
                _moment(running.get("startedAt") or ""),
                bool(said.get("started")),
                bool(said.get("ready")),
                {k: Job(pod, container, id_, k, probe, ip) for k, probe in probes.items()},
            )


def bare_id(text: str) -> str:
    """Return the ID in ``<runtime>://<id>``; "" where there is none."""
    return text.partition("://")[2]


def _moment(text: str) -> int:
    try:
        return to_ns(text)
    except ValueError:
        return 0


@dataclass(slots=True)
class _Known:
    """What was read of a pod."""

    marks: list[int | None] = field(default_factory=lambda: [None, None])  # of its rows
    row: PodRow | None = None
    wants: Wanted = field(default_factory=dict)
    status: StatusRow | None = None


class Lookout:
    """Tells what there is to be probed of a pod, whenever that may be something else."""

    def __init__(
        self, tables: Tables, quarantined: frozenset[str], tell: Callable[[Sight], None]
    ) -> None:
        self._tables = tables
        self._quarantined = quarantined
        self._tell = tell
        self._known: dict[str, _Known] = {}
        self._odd = klog.every(60)

    def start(self) -> None:
        """Look at all pods."""
        self._look_at_all()

    def knows(self, uid: str) -> bool:
        """Tell whether a pod has a row."""
        return uid in self._known

    def hinted(self, hint: Hint) -> None:
        """Look at what has changed."""
        if hint.table not in (PODS, STATUS):
            return
        if hint.key == ANY_KEY:
            self._look_at_all()
        else:
            self._look_at(hint.key, named=hint.table == PODS)

    def _look_at_all(self) -> None:
        for uid in {*self._tables.keys(PODS), *self._known}:
            self._look_at(uid, named=False)

    def _look_at(self, uid: str, *, named: bool) -> None:
        """Tell of a pod if a row of it is another than it was."""
        if uid in self._quarantined:
            return
        try:
            self._compare(uid, named=named)
        except Exception as err:
            remember_pod(err, uid)
            raise

    def _compare(self, uid: str, *, named: bool) -> None:
        known = self._known.get(uid) or _Known()
        renewed = self._read(uid, known)
        if known.row is None:
            missing = known.marks[0] == _MISSING and PODS not in self._tables.unavailable
            self._absent(uid, deleted=named and missing)
            return
        self._known[uid] = known
        if any(renewed):
            self._tell(self._sight(uid, known, fresh=renewed[1]))

    def _absent(self, uid: str, *, deleted: bool) -> None:
        """Tell that there is no row: for now, or for good if its writer spoke of it."""
        if self._known.pop(uid, None) is not None or deleted:
            self._tell(Sight(uid, absent=True, deleted=deleted))

    def _read(self, uid: str, known: _Known) -> tuple[bool, bool]:
        """Read the rows of a pod that have changed: which of them have."""
        pods = self._payload(PODS, uid, known, 0)
        if pods is not None:
            known.row = self._decode(PodRow, PODS, uid, pods)
            known.wants = wanted(known.row.pod) if known.row is not None else {}
        if not known.wants:
            known.marks[1] = None  # nothing in it could matter
            return pods is not None, False
        status = self._payload(STATUS, uid, known, 1)
        if status is not None:
            known.status = self._decode(StatusRow, STATUS, uid, status)
        return pods is not None, status is not None

    def _payload(self, table: str, uid: str, known: _Known, place: int) -> bytes | None:
        """Return the bytes of a row if they are others than before; empty if it is gone."""
        entry = self._tables.get(table, uid)
        payload = entry.payload if entry is not None else b""
        mark = hash(payload)
        if mark == known.marks[place]:
            return None
        known.marks[place] = mark
        return payload

    def _decode(self, kind: type[Any], table: str, uid: str, payload: bytes) -> Any:
        if not payload:
            return None
        try:
            return kind.from_wire(unpack(payload))
        except (BadRecordError, DecodeError) as err:
            if self._odd.ready():
                log.error("A row cannot be read", table=table, pod=uid, err=err)
            return None

    def _sight(self, uid: str, known: _Known, *, fresh: bool) -> Sight:
        row, found = known.row, known.status
        assert row is not None
        pod = row.pod
        status: dict[str, Any] = {}
        hooked: tuple[str, ...] = ()
        if known.wants and found is not None:
            status, hooked = self._status(uid, found), found.hooked
        deleting = bool(pod.metadata.deletion_timestamp)
        over = row.state in _OVER
        return Sight(
            uid,
            row.name,
            row.namespace,
            () if over else tuple(subjects(pod, known.wants, status, hooked)),
            ending=row.state is not WorkerState.SYNC or row.ending is not None or deleting,
            over=over,
            fresh=fresh,
        )

    def _status(self, uid: str, row: StatusRow) -> dict[str, Any]:
        try:
            found = json.loads(row.document)
        except ValueError as err:
            if self._odd.ready():
                log.error("The status of a pod is no JSON", pod=uid, err=err)
            return {}
        return found if isinstance(found, dict) else {}
