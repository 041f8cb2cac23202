"""From the fork to the process's ``main``, and from its end to an exit code.

First, still with root: what needs it is opened (the row, the ring, the tables, the file for
stacks), and the code is imported, because a process without root may not be able to read it later.
Then the privileges go, the loop starts, the first heartbeat is written, and ``main`` runs until
SIGTERM. An error that nobody expected ends the process: it is logged with its stack, written where
the supervisor's report finds it, and blamed on the pod that it happened on.
"""

from __future__ import annotations

import asyncio
import faulthandler
import importlib
import os
import signal
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TextIO

from kubelet import logging as klog
from kubelet.channels.channels import Channels
from kubelet.channels.peers import PeerBook
from kubelet.config import Effective
from kubelet.process.heartbeat import Heartbeat
from kubelet.process.operations import pod_of
from kubelet.process.process import Process, RestartWantedError
from kubelet.process.requests import CommonRequests
from kubelet.process.rest import Rest
from kubelet.process.tables import Tables
from shm.board import RowWriter
from shm.recorder import RecorderWriter
from supervisor.exits import ExitCode
from supervisor.launch import Launch
from supervisor.rundir import RunDir
from supervisor.zygote import give_back

log = klog.get_logger(__name__)

_SETTLED_SECONDS = 3.0  # after which a start is over

Main = Callable[[Process], Awaitable[None]]


def run(launch: Launch) -> int:
    """Run one process; its exit code."""
    run_dir = RunDir(launch.settings.run_dir)
    stacks = _open_stacks(run_dir.stacks(launch.kind.name))
    process = _prepare(launch, run_dir)
    main = _entry(launch.kind.entry)
    # Seen with the supervisor's user, which is what makes a stranger an operator.
    peers = PeerBook(Path(run_dir.state), own_uid=os.geteuid())
    launch.seal()
    try:
        with asyncio.Runner() as runner:
            runner.run(_live(process, launch, main, peers))
    except Exception as error:  # noqa: BLE001 - whatever it is, it has ended this process
        return _ended(process, leaves(error), stacks)
    return ExitCode.ASKED


def _prepare(launch: Launch, run_dir: RunDir) -> Process:
    kind = launch.kind.name
    row = RowWriter.create(Path(run_dir.board(kind)))
    config = launch.settings.config
    assert isinstance(config, Effective)
    return Process(
        kind=kind,
        node=launch.settings.node,
        config=config,
        row=row,
        recorder=RecorderWriter.create(Path(run_dir.recorder(kind))),
        tables=Tables(Path(run_dir.tables), kind),
        heartbeat=Heartbeat(row, launch.settings.heartbeat_interval),
        listeners=launch.listeners,
        quarantined=frozenset(launch.quarantined),
    )


def _open_stacks(path: str) -> TextIO:
    """Have the kernel's signals write stacks: SIGUSR2 and go on, SIGABRT and the like and die."""
    stacks = open(path, "w", encoding="utf-8")  # noqa: SIM115 - for the life of the process
    faulthandler.enable(file=stacks, all_threads=True)
    faulthandler.register(signal.SIGUSR2, file=stacks, all_threads=True, chain=False)
    return stacks


def _entry(entry: str) -> Main:
    module, _, function = entry.partition(":")
    found: Main = getattr(importlib.import_module(module), function)
    return found


async def _live(process: Process, launch: Launch, main: Main, peers: PeerBook) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, process.stopping.set)
    loop.set_exception_handler(lambda _loop, context: _unhandled(process, context))
    async with asyncio.TaskGroup() as tasks:
        root = Path(launch.settings.run_dir)
        channels = Channels(process.kind, root, peers, tasks.create_task)
        await channels.start()
        try:
            process.enter(tasks, channels)
            CommonRequests(process)
            process.row.set_phase("running")
            process.heartbeat.start(launch.first_heartbeat)
            loop.call_later(_SETTLED_SECONDS, give_back)
            process.heartbeat.on_tick(_rest_after(Rest()))
            process.record("started", f"pid {os.getpid()}")
            await main(process)
            process.row.set_phase("stopping")
            process.record("stopped", "asked to")
        finally:
            process.leave()
            await channels.close()


def _rest_after(rest: Rest) -> Callable[[], None]:
    def tick() -> None:
        if rest.begins(time.process_time()):
            give_back()

    return tick


def _unhandled(process: Process, context: dict[str, Any]) -> None:
    """A call-back's error belongs to no task; it ends the process like any other bug."""
    error = context.get("exception")
    if error is None or isinstance(error, OSError):  # a peer that went away is nobody's bug
        log.v(1, "The event loop complained", what=context.get("message"), err=error)
        return
    process.spawn(_throw(error), name="error of a call-back")


async def _throw(error: BaseException) -> None:
    raise error


def _ended(process: Process, errors: list[Exception], stacks: TextIO) -> int:
    """The exit code for these errors, after saying what they are."""
    bugs = [error for error in errors if not isinstance(error, RestartWantedError)]
    if not bugs:
        log.warning("Starting anew", reason="; ".join(map(str, errors)))
        process.record("restart", "; ".join(map(str, errors)))
        return ExitCode.RESTART
    pod = next(filter(None, map(pod_of, bugs)), "")
    if pod:
        process.row.blame(pod)
    for error in bugs:
        log.bug("Process crashed", error, **({"pod": pod} if pod else {}))
        stacks.write("".join(traceback.format_exception(error)))
    stacks.flush()
    process.record("crashed", "; ".join(f"{type(e).__name__}: {e}" for e in bugs), pod)
    return ExitCode.CRASHED


def leaves(error: Exception) -> list[Exception]:
    """The errors inside groups of groups."""
    if not isinstance(error, ExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in leaves(inner)]
