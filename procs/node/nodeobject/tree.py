"""Whether this kubelet's own processes work, and if one does not, since when.

A process works while it is there, beats, and has lived for a second: one that dies at its start,
again and again, never gets that far. Being killed now and then costs nothing: what counts is how
long nobody did the work. Moments are monotonic; the judge is pure, only ``Tree`` reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kubelet import logging as klog
from kubelet import times
from procs.node.nodeobject.readiness import GRACE_NS
from shm.board import Row, read_row
from supervisor.kinds import NAMES
from supervisor.statereader import ProcessState, State, StateError, parse

log = klog.get_logger(__name__)

STEADY_NS: Final = 10**9  # the supervisor, too, forgives what came before a life of this length
SILENT_NS: Final = 5 * 10**9  # a beat that is older is no sign of life
AGAIN_NS: Final = 5 * 10**8  # how soon to look again at one that just came back: its beats tell
_STOPPING: Final = "stopping"


@dataclass(frozen=True, slots=True)
class Look:
    """The tree at one moment."""

    state: State
    rows: Mapping[str, Row]


@dataclass(frozen=True, slots=True)
class Silence:
    """A process that does not work."""

    kind: str
    since_ns: int
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong, and when it is worth another look, should nothing happen before (0: never)."""

    silences: tuple[Silence, ...] = ()
    again_ns: int = 0
    wells: dict[str, int] = field(default_factory=dict)  # by kind: when it last worked


def worked_ns(process: ProcessState, row: Row | None, began_ns: int) -> int:
    """Return when a process last worked, as far as one look tells."""
    found = began_ns  # everyone has the first seconds of the tree to come up
    if process.pid and row is not None and row.pid == process.pid:
        if row.beat_ns - process.started_ns >= STEADY_NS:
            found = max(found, row.beat_ns)
    elif not process.pid and process.last_exit is not None:
        ended_ns = process.last_exit.at_ns
        if ended_ns - process.started_ns >= STEADY_NS:
            found = max(found, ended_ns)
    return found


def judge(look: Look, before: Mapping[str, int], now_ns: int, own: str = "node") -> Verdict:
    """Say which processes have not worked for too long."""
    if look.state.phase == _STOPPING:  # they end because they were asked to
        return Verdict(wells=dict(before))
    silences, wells, moments = [], {}, []
    for process in look.state.processes:
        kind = process.name
        if kind == own or kind not in NAMES:
            continue
        seen = worked_ns(process, look.rows.get(kind), look.state.started_ns)
        well = wells[kind] = min(now_ns, max(seen, before.get(kind, 0)))
        if now_ns - well > GRACE_NS:
            silences.append(Silence(kind, well, _why(process)))
            if process.state == "running":
                moments.append(now_ns + AGAIN_NS)
        elif now_ns - well > SILENT_NS:
            moments.append(well + GRACE_NS + 1)
    return Verdict(tuple(silences), min(moments, default=0), wells)


def _why(process: ProcessState) -> str:
    state = {"backoff": "it is down", "running": "it is silent"}
    said = state.get(process.state, f"it is {process.state}")
    ended = f"; before, it ended with {process.last_exit.reason}" if process.last_exit else ""
    return said + ended


class Tree:
    """Looks at the supervisor's word and the board."""

    def __init__(self, run_dir: str, kinds: Iterable[str] = NAMES) -> None:
        self._run_dir = run_dir
        self._kinds = tuple(kinds)
        self._complaint = ""

    @property
    def state_file(self) -> str:
        """The file that is replaced at each change."""
        return os.path.join(self._run_dir, "state.json")

    def look(self) -> Look | None:
        """Look once; None: there is nothing to be seen, which is no reason to blame anyone."""
        try:
            with open(self.state_file, "rb") as file:
                state = parse(file.read(), self.state_file)
        except (OSError, StateError) as err:
            self._complain(str(err))
            return None
        self._complaint = ""
        rows = {kind: read_row(Path(self._run_dir, "board", kind)) for kind in self._kinds}
        return Look(state, {kind: row for kind, row in rows.items() if row is not None})

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._complaint = text
            log.warning("The state of the other processes cannot be read", err=text)


def _assumed_ns(process: ProcessState, now_ns: int) -> int:
    """Return until when to take a process for well of which nothing is remembered.

    It was well when a predecessor of ours looked last. One that died together with that is too
    young to tell for itself.
    """
    if process.pid:
        return now_ns
    return process.last_exit.at_ns if process.last_exit is not None else 0


class Judge:
    """The judge with a memory, which a successor goes on from."""

    def __init__(
        self, wells: Mapping[str, int], keep: Callable[[dict[str, int]], None], own: str = "node"
    ) -> None:
        self._wells = dict(wells)
        self._kept = dict(wells)
        self._keep = keep  # is given those that do not work, when they change
        self._own = own
        self._told: dict[tuple[str, int], str] = {}  # a second more or less would be no news
        self._alive_ns = 0
        self._looked = False

    def alive(self, now_ns: int) -> None:
        """Take that this process's own time goes on; a gap in it excuses everyone's silence.

        To be called each second.
        """
        gap_ns = now_ns - self._alive_ns
        if self._alive_ns and gap_ns > SILENT_NS:
            self._wells = {kind: well + gap_ns for kind, well in self._wells.items()}
        self._alive_ns = now_ns

    def judge(self, look: Look, now_ns: int, wall_ns: int) -> tuple[list[str], int]:
        """Say which processes have not worked for too long, and when to look again (0: never)."""
        if self._alive_ns:
            self.alive(now_ns)
        if not self._looked:
            self._looked = True
            assumed = {p.name: _assumed_ns(p, now_ns) for p in look.state.processes}
            self._wells = {**assumed, **self._wells}
        found = judge(look, self._wells, now_ns, self._own)
        self._wells = found.wells
        bad = {kind: well for kind, well in found.wells.items() if now_ns - well > SILENT_NS}
        if bad != self._kept:
            self._kept = bad
            self._keep(bad)
        before, self._told = self._told, {}
        for one in found.silences:
            known = (one.kind, one.since_ns)
            moment = times.to_text(wall_ns - (now_ns - one.since_ns))
            self._told[known] = before.get(known, moment)
        return [
            f"process {one.kind} of this kubelet does not work since "
            f"{self._told[one.kind, one.since_ns]}: {one.why}"
            for one in found.silences
        ], found.again_ns
