"""A report on each unexpected ending: who, why, in which operation, with which stacks."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import Final

from shm.board import Row
from supervisor.rundir import RunDir, replace_file

KEPT: Final = 5  # reports per kind
_LIMIT: Final = 256 * 1024  # bytes of stacks


@dataclass(frozen=True, slots=True)
class Ending:
    """What the supervisor knows of one ending."""

    kind: str
    pid: int
    number: int
    reason: str
    lived: float
    row: Row | None


def write(run_dir: RunDir, ending: Ending, gid: int) -> str | None:
    """Write the report and drop the oldest; its path below the run directory."""
    relative = run_dir.report(ending.kind, ending.number)
    try:
        stacks = _stacks(run_dir.stacks(ending.kind))
        replace_file(run_dir.path(relative), render(ending, stacks, time.time()).encode(), gid=gid)
    except OSError:
        return None  # a full or vanished run directory must not stop the restart
    with contextlib.suppress(OSError):
        os.unlink(run_dir.path(run_dir.report(ending.kind, ending.number - KEPT)))
    return relative


def render(ending: Ending, stacks: str, unix: float) -> str:
    """The report as text."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(unix))
    lines = [
        f"process:    {ending.kind} (pid {ending.pid})",
        f"ended:      {stamp}, after {ending.lived:.1f}s",
        f"reason:     {ending.reason}",
    ]
    if ending.row is not None:
        lines += _activity(ending.row, time.monotonic_ns())
    lines += ["", "stacks:", stacks.rstrip() or "(none were written)", ""]
    return "\n".join(lines)


def _activity(row: Row, now_ns: int) -> list[str]:
    age = (now_ns - row.operation_since_ns) / 1e9 if row.operation else 0.0
    operation = f"{row.operation} for {age:.1f}s" if row.operation else "(none)"
    lines = [f"operation:  {operation}"]
    if row.pod:
        lines.append(f"pod:        {row.pod}")
    lines.append(f"heartbeat:  {(now_ns - row.beat_ns) / 1e9:.1f}s ago, {row.beats} in its life")
    return lines


def _stacks(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_LIMIT).decode(errors="replace")
    except OSError:
        return ""
