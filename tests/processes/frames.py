"""Frames with faults: each runs one kind's process with another ``main``."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import replace

from kubelet.process import Process
from kubelet.process.frame import run
from supervisor.launch import Launch

VICTIM = "prober"
POD = "0b5c1d5e-6a0e-4d0f-9f43-8d0a5f3e2b11"


def _with(launch: Launch, entry: str) -> int:
    if launch.kind.name != VICTIM:
        return run(launch)
    kind = replace(launch.kind, entry=f"tests.processes.frames:{entry}")
    return run(replace(launch, kind=kind))


def deaf(launch: Launch) -> int:
    """A process that does not listen to SIGTERM."""
    return _with(launch, "deaf_main")


async def deaf_main(process: Process) -> None:
    """Never end."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    await asyncio.Event().wait()
    assert process


def poisoned(launch: Launch) -> int:
    """A process that dies of one pod, unless that pod is quarantined."""
    return _with(launch, "poisoned_main")


async def poisoned_main(process: Process) -> None:
    """Handle the pod as soon as the process lives."""
    if POD not in process.quarantined:
        with process.doing("probing", pod=POD):
            raise ZeroDivisionError("this pod is poison")
    await process.stopping.wait()


def busy(launch: Launch) -> int:
    """A process whose loop is stuck in Python code for one pod."""
    return _with(launch, "busy_main")


async def busy_main(process: Process) -> None:
    """Turn in circles."""
    with process.doing("parsing an endless answer", pod=POD):
        while True:
            time.monotonic()


def hungry(launch: Launch) -> int:
    """A process that takes memory without end."""
    return _with(launch, "hungry_main")


async def hungry_main(process: Process) -> None:
    """Take more than its group may have."""
    held = []
    with process.doing("reading a body without end", pod=POD):
        while True:
            held.append(b"x" * (1 << 20))
            await asyncio.sleep(0)


def stillborn(launch: Launch) -> int:
    """A process that dies before its first heartbeat, always."""
    if launch.kind.name == VICTIM:
        raise RuntimeError("cannot be born")
    return run(launch)
