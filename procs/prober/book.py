"""Our two tables: what a predecessor left in them, and what is written down as probes go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kubelet import logging as klog
from kubelet.pods.probes import PROBES, PROBING, ProbesRow, ProbingRow
from kubelet.pods.wire import BadRecordError, Record, to_map
from kubelet.process import Process
from procs.prober.course import Case, tally_of
from procs.prober.schedule import left_at
from shm.codec import DecodeError, EncodeError, unpack
from shm.errors import TableFull

log = klog.get_logger(__name__)

R = TypeVar("R", bound=Record)


class Book:
    """Reads and writes ``probes`` and ``probing``."""

    def __init__(self, process: Process, clock: Callable[[], int]) -> None:
        self._process = process
        self._clock = clock
        self._complaint = klog.every(60)
        # Without a history nobody knows when old containers were probed last (B-4).
        self.lost = process.tables.writers[PROBING].fresh

    # What a predecessor left.

    def load(self) -> list[Case]:
        """Return the containers that were probed before, none of them taken up yet."""
        stamps: dict[str, int] = {}
        cases: dict[str, Case] = {}
        for id_, row, stamp in self._rows(PROBING, ProbingRow):
            case = cases[id_] = _case(row)
            case.row.update(name=row.name, namespace=row.namespace)
            case.tracks.update({kind: tally_of(past) for kind, past in row.tracks.items()})
            stamps[id_] = stamp
        for id_, found, stamp in self._rows(PROBES, ProbesRow):
            case = cases.get(id_) or _case(found)
            case.findings.update({kind: to_map(f) for kind, f in found.found.items()})
            cases[id_] = case
            stamps[id_] = max(stamp, stamps.get(id_, 0))
        left = self._left(cases, max(stamps.values(), default=0))
        for case in cases.values():
            case.left_ns = left
        return self._newest(cases, stamps)

    def _left(self, cases: dict[str, Case], seen_ns: int) -> int:
        tracks = (track for case in cases.values() for track in case.tracks.values())
        dues = [track.get("due_ns", 0) for track in tracks if not track.get("held")]
        return left_at(seen_ns, dues, self._clock())

    def _newest(self, cases: dict[str, Case], stamps: dict[str, int]) -> list[Case]:
        """Keep one for each container of a pod: of the others nobody asks any more."""
        kept: dict[tuple[str, str], Case] = {}
        for case in sorted(cases.values(), key=lambda case: stamps[case.id]):
            former = kept.get((case.pod, case.container))
            if former is not None:
                self.drop(former)
            kept[case.pod, case.container] = case
        return list(kept.values())

    def _rows(self, table: str, kind: type[R]) -> list[tuple[str, R, int]]:
        found = []
        for key in self._process.tables.keys(table):
            entry = self._process.tables.get(table, key)
            if entry is None:
                continue
            try:
                found.append((key, kind.from_wire(unpack(entry.payload)), entry.stamp_ns))
            except (BadRecordError, DecodeError) as err:
                log.error("A row of ours was no good and is gone", table=table, key=key, err=err)
                self._process.tables.writers[table].delete(key)
        return found

    # What is written down.

    def put(self, case: Case) -> None:
        """Write how far the probes of a container are; nobody is told."""
        self._put(PROBING, case.id, case.row)

    def open(self, case: Case) -> None:
        """Write what is held of a container before its first probe: no news to anybody."""
        self._put(PROBES, case.id, case.verdicts)
        self._put(PROBING, case.id, case.row)

    def tell(self, case: Case) -> None:
        """Write the verdicts on a container, and tell the readers."""
        if self._put(PROBES, case.id, case.verdicts):
            generation = self._process.tables.writers[PROBES].generation
            self._process.channels.publish(PROBES, case.id, generation)

    def drop(self, case: Case) -> None:
        """Take the rows of a container away; it is gone, and everybody who asks knows."""
        self._process.tables.writers[PROBES].delete(case.id)
        self._process.tables.writers[PROBING].delete(case.id)

    def _put(self, table: str, key: str, value: dict[str, Any]) -> bool:
        try:
            self._process.tables.put(table, key, value, self._clock())
        except (TableFull, EncodeError) as err:
            self._process.row.count("write_errors")
            if self._complaint.ready():
                log.error("A row cannot be written", table=table, key=key, err=err)
            return False
        return True


def _case(row: ProbingRow | ProbesRow) -> Case:
    return Case(row.id, row.pod, row.container, left_ns=1)
