"""One look at the whole tree: the supervisor's word, each process's row, and the kernel's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from kubeletctl import procfs
from kubeletctl.rundir import RunDir, load_state
from kubeletctl.state import LastExit, ProcessState, State
from kubeletctl.words import age
from shm.board import Row, read_row
from supervisor.kinds import EVERYONE, SUPERVISOR

GONE: Final = "gone"  # the supervisor calls it running, the kernel knows nothing of it


class ProcessView(NamedTuple):
    """One process, in the names and units of ``status -o json``; None is "cannot be told"."""

    name: str
    pid: int
    state: str
    restarts: int
    uptime_seconds: float
    last_exit: str | None
    heartbeat_age_ms: float | None
    operation: str
    operation_age_ms: float | None
    loop_lag_ms: float | None
    cpu_millicores: float | None
    rss_mib: float | None
    pss_mib: float | None
    threads: int | None
    fds: int | None

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name, in their order."""
        return self._asdict()


class Snapshot(NamedTuple):
    """Everything that was seen in one look."""

    now_ns: int  # monotonic
    now_unix: float
    state: State
    processes: tuple[ProcessView, ...]
    rows: dict[str, Row]  # of the processes that live now
    kernel_states: dict[str, str]  # the kernel's letter for each process

    @property
    def uptime_seconds(self) -> float:
        """Return the time since the supervisor began."""
        return round((self.now_ns - self.state.started_ns) / 1e9, 1)


def take(run_dir: RunDir) -> Snapshot:
    """Look at everything once, without waiting for anything."""
    state = load_state(run_dir)
    known = {one.name: one for one in state.processes}
    known[SUPERVISOR] = _supervisor(state)
    rows, views, letters = {}, [], {}
    for name in EVERYONE:
        process = known.get(name) or _unknown(name)
        row = read_row(Path(run_dir.path("board", name)))
        if row is not None and row.pid == process.pid:  # else it is that of its predecessor
            rows[name] = row
        usage = procfs.usage(process.pid) if process.pid else None
        views.append(view(process, rows.get(name), usage, time.monotonic_ns()))
        letters[name] = usage.state if usage else ""
    return Snapshot(time.monotonic_ns(), time.time(), state, tuple(views), rows, letters)


def _supervisor(state: State) -> ProcessState:
    """Describe the supervisor in the manner of its children."""
    phase = "running" if state.phase == "reloading" else state.phase
    return ProcessState(SUPERVISOR, state.pid, phase, 0, state.started_ns, None, 0, None)


def _unknown(name: str) -> ProcessState:
    return ProcessState(name, 0, "stopped", 0, 0, None, 0, None)


def view(
    process: ProcessState, row: Row | None, usage: procfs.Usage | None, now_ns: int
) -> ProcessView:
    """Put together what three sources say of one process. Pure."""
    dead = process.pid > 0 and (usage is None or usage.state in "ZX")
    busy = row is not None and bool(row.operation)
    return ProcessView(
        name=process.name,
        pid=process.pid,
        state=GONE if dead and process.state == "running" else process.state,
        restarts=process.restarts,
        uptime_seconds=round((now_ns - process.started_ns) / 1e9, 1) if process.pid else 0.0,
        last_exit=last_exit(process.last_exit, now_ns),
        heartbeat_age_ms=_ms(now_ns - row.beat_ns) if row and row.beat_ns else None,
        operation=row.operation if row else "",
        operation_age_ms=_ms(now_ns - row.operation_since_ns) if row and busy else None,
        loop_lag_ms=_ms(row.lag_ns) if row else None,
        cpu_millicores=millicores(row, usage, now_ns),
        rss_mib=round(usage.rss_kib / 1024, 1) if usage else None,
        pss_mib=round(usage.pss_kib / 1024, 1) if usage and usage.pss_kib is not None else None,
        threads=usage.threads if usage else None,
        fds=usage.fds if usage else None,
    )


def last_exit(found: LastExit | None, now_ns: int) -> str | None:
    """Say how and how long ago the previous life of a process ended."""
    return f"{found.reason} {age((now_ns - found.at_ns) / 1e9)} ago" if found else None


def millicores(row: Row | None, usage: procfs.Usage | None, now_ns: int) -> float | None:
    """Return the recent CPU use: from the row's older sample until now."""
    if row is None or usage is None:
        return None
    then_ns, used_ns = row.cpu_samples[0]
    if then_ns <= 0 or now_ns <= then_ns:
        return None
    return round(max(0.0, 1000 * (usage.cpu_ns - used_ns) / (now_ns - then_ns)), 1)


def _ms(nanoseconds: int) -> float:
    return round(max(0, nanoseconds) / 1e6, 1)
