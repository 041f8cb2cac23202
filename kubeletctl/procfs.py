"""What the kernel knows of a process. A process that is gone, or closed to us, gives None."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """What a process uses at one moment; None where that cannot be seen."""

    state: str  # the kernel's letter: R, S, D, T, Z
    started_ns: int  # since boot
    cpu_ns: int
    rss_kib: int
    pss_kib: int | None
    threads: int
    fds: int | None


class Scheduling(NamedTuple):
    """What the scheduler did with all threads of a process since they began."""

    switches: int
    run_delay_ns: int  # ready to run, and waiting for a processor


def usage(pid: int) -> Usage | None:
    """Read all that ``status`` shows of a process."""
    stat = _read(f"/proc/{pid}/stat")
    if stat is None:
        return None
    try:
        # The name in parentheses may itself hold spaces and parentheses.
        fields = stat[stat.rindex(")") + 2 :].split()
        ticks = (int(fields[11]) + int(fields[12])) * _TICK_NS
        return Usage(
            state=fields[0],
            started_ns=int(fields[19]) * _TICK_NS,
            cpu_ns=cpu_ns(pid) or ticks,
            rss_kib=int(fields[21]) * os.sysconf("SC_PAGE_SIZE") // 1024,
            pss_kib=_pss_kib(pid),
            threads=int(fields[17]),
            fds=_count(f"/proc/{pid}/fd"),
        )
    except (ValueError, IndexError):
        return None


def cpu_ns(pid: int) -> int | None:
    """Return a process's CPU time to the nanosecond; ``/proc`` knows only ticks of 10 ms.

    The number of another process's CPU clock is made of its pid, as ``clock_getcpuclockid`` does.
    """
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return None


def scheduling(pid: int) -> Scheduling | None:
    """Add up what the scheduler counts for each thread."""
    switches = delay = seen = 0
    for task in _tasks(pid):
        schedstat, status = _read(f"{task}/schedstat"), _read(f"{task}/status")
        if schedstat is None or status is None:
            continue  # a thread that has just ended
        seen += 1
        words = schedstat.split()
        delay += int(words[1]) if len(words) > 1 else 0
        switches += sum(
            int(line.rpartition(":")[2]) for line in status.splitlines() if "ctxt_switches" in line
        )
    return Scheduling(switches, delay) if seen else None


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and not only its remains."""
    found = usage_state(pid)
    return found is not None and found not in "ZX"


def usage_state(pid: int) -> str | None:
    """Return the kernel's letter for what a process is doing."""
    stat = _read(f"/proc/{pid}/stat")
    return stat[stat.rindex(")") + 2] if stat and ")" in stat else None


def started_ns(pid: int) -> int | None:
    """Return when a process began, in nanoseconds since boot."""
    stat = _read(f"/proc/{pid}/stat")
    try:
        return int(stat[stat.rindex(")") + 2 :].split()[19]) * _TICK_NS if stat else None
    except (ValueError, IndexError):
        return None


def handles_signal(pid: int, number: int) -> bool | None:
    """Whether a process has a handler for a signal; None if that cannot be seen."""
    status = _read(f"/proc/{pid}/status") or ""
    for line in status.splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return None


def lock_held(path: str) -> bool | None:
    """Whether somebody holds a ``flock`` on a file; None if that cannot be told.

    The kernel's list is read; trying the lock would keep a kubelet that starts at this very moment
    from taking it.
    """
    try:
        found = os.stat(path)
        with open("/proc/locks", encoding="ascii") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return False if os.path.exists("/proc/locks") else None
    except OSError:
        return None
    # The device is left out: file systems with several volumes show another one here than in stat.
    inode = f":{found.st_ino}"
    return any(" FLOCK " in line and line.split()[-3].endswith(inode) for line in lines)


def _pss_kib(pid: int) -> int | None:
    rollup = _read(f"/proc/{pid}/smaps_rollup")
    for line in (rollup or "").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return None


def _tasks(pid: int) -> Iterator[str]:
    try:
        yield from (f"/proc/{pid}/task/{tid}" for tid in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return


def _count(directory: str) -> int | None:
    try:
        return len(os.listdir(directory))
    except OSError:
        return None


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
