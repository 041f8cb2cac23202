"""What the probes found, as the status and the plan of a pod take it (B-18, P-78).

``prober`` writes table ``probes``, a row for each container. It is read at the hint of a row, and
decoded once for each change; who asks is answered from memory. A verdict is about one container
id: of the next container of the same name it says nothing. Where there is no verdict, because none
was found yet or because the row is not there, nothing is said either: neither a death of prober
nor one of ours makes a container unready or kills it (P-133).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kubelet import logging as klog
from kubelet.api.pod import Pod
from kubelet.api.status import PodStatus
from kubelet.channels.wire import ANY_KEY
from kubelet.pods.probes import PROBES, Finding, ProbeKind, ProbesRow, Verdict
from kubelet.pods.wire import BadRecordError
from kubelet.process.tables import Tables
from procs.syncloop.status.context import ProbeView
from shm.codec import DecodeError, unpack

log = klog.get_logger(__name__)

# What is held of a container before its first probe (B-3): nothing that happened.
_FIRST: Final = {ProbeKind.LIVENESS: Verdict.SUCCESS, ProbeKind.READINESS: Verdict.FAILURE}


@dataclass(frozen=True, slots=True)
class News:
    """What is new about one container."""

    pod: str  # uid
    words: tuple[str, ...]  # one line for each verdict that is another now
    planned: bool = False  # the plan depends on it: the container is killed, or the next begins


class Results:
    """The verdicts on all containers."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._payloads: dict[str, bytes] = {}
        self._rows: dict[str, ProbesRow] = {}
        self._complaint = klog.every(60)
        self.take(ANY_KEY)

    def take(self, key: str) -> list[News]:
        """Read the row of a container again, or with ``*`` every row; return what is new."""
        keys: Iterable[str] = (key,)
        if key == ANY_KEY:  # a row that cannot be read is not there: it says nothing
            keys = {*self._tables.keys(PROBES), *self._payloads}
        return [news for id_ in keys if (news := self._take(id_)) is not None]

    def _take(self, id_: str) -> News | None:
        entry = self._tables.get(PROBES, id_)
        if entry is None:
            self._payloads.pop(id_, None)
            self._rows.pop(id_, None)
            return None
        if self._payloads.get(id_) == entry.payload:
            return None
        self._payloads[id_] = entry.payload
        before = self._rows.pop(id_, None)
        try:
            row = ProbesRow.from_wire(unpack(entry.payload))
        except (BadRecordError, DecodeError) as err:
            if self._complaint.ready():
                log.error("Results of probes cannot be read", container=id_, err=err)
            return None
        self._rows[id_] = row
        return news_of(before, row)

    def views(self, ids: Iterable[str]) -> dict[str, ProbeView]:
        """Return what the probes say of some containers, by id; without a row, nothing."""
        return {id_: view_of(row) for id_ in ids if (row := self._rows.get(id_)) is not None}

    def failed(self, kind: ProbeKind, ids: Iterable[str]) -> frozenset[str]:
        """Return those of some containers whose probe of this kind has failed for good."""
        return frozenset(
            id_
            for id_ in ids
            if (row := self._rows.get(id_)) is not None and _verdict(row, kind) is Verdict.FAILURE
        )


def view_of(row: ProbesRow) -> ProbeView:
    """Return what a row says of its container's readiness and start."""
    return ProbeView(
        ready=_passed(_verdict(row, ProbeKind.READINESS)),
        started=_passed(_verdict(row, ProbeKind.STARTUP)),
    )


def news_of(before: ProbesRow | None, row: ProbesRow) -> News | None:
    """Return what is new in a row; None: the same verdicts as before."""
    moved = [kind for kind in ProbeKind if _found(before, kind) is not _verdict(row, kind)]
    if not moved:
        return None
    planned = any(
        kind is ProbeKind.STARTUP or (kind is ProbeKind.LIVENESS and _failed(row, kind))
        for kind in moved
    )
    told = [kind for kind in moved if before or _verdict(row, kind) is not _FIRST.get(kind)]
    return News(row.pod, tuple(_words(row, told)), planned)


def started_in(pod: Pod, status: PodStatus) -> dict[str, bool]:
    """Return which containers with a startup probe have passed it, by id, as a status says.

    A status knows what was true before the probes forgot (P-133), and of hooks that still run.
    """
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers)
    probed = {c.name for c in containers if c.startup_probe is not None}
    return {
        one.container_id.rpartition("://")[2]: bool(one.started)
        for one in (*status.init_container_statuses, *status.container_statuses)
        if one.name in probed and one.container_id
    }


def _words(row: ProbesRow, moved: Iterable[ProbeKind]) -> Iterator[str]:
    for kind in moved:
        said = row.found.get(kind, Finding(Verdict.UNKNOWN)).message
        what = f"{kind} of {row.container} {row.id[:13]}: {_verdict(row, kind)}"
        yield f"{what}, {said}" if said else what


def _found(row: ProbesRow | None, kind: ProbeKind) -> Verdict:
    return Verdict.UNKNOWN if row is None else _verdict(row, kind)


def _verdict(row: ProbesRow, kind: ProbeKind) -> Verdict:
    found = row.found.get(kind)
    return Verdict.UNKNOWN if found is None else found.verdict


def _failed(row: ProbesRow, kind: ProbeKind) -> bool:
    return _verdict(row, kind) is Verdict.FAILURE


def _passed(verdict: Verdict) -> bool | None:
    return None if verdict is Verdict.UNKNOWN else verdict is Verdict.SUCCESS
