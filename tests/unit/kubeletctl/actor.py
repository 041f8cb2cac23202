"""A stand-in for the tree: a supervisor that holds the lock, and seven children with live rows.

Run as ``python actor.py <run directory> [answer]``. It writes what the real parts write, with their
own writers, says "ready" on standard output, and ends when its standard input is closed. With
"answer", pleg has an event loop that answers requests. With "pods", syncloop has one, which takes
pods and ends them. With "free", the tables are not held, so that a test may write them.
"""

from __future__ import annotations

import faulthandler
import fcntl
import io
import json
import os
import select
import signal
import sys
import time
from pathlib import Path

from shm.board import RowWriter
from shm.recorder import RecorderWriter
from shm.table import Writer
from shm.tables import TABLES
from supervisor.kinds import NAMES, SUPERVISOR


def begin(root: Path, kind: str) -> tuple[RowWriter, RecorderWriter]:
    stacks = open(root / "stacks" / kind, "w", encoding="utf-8")  # noqa: SIM115
    faulthandler.register(signal.SIGUSR2, file=stacks, all_threads=True)
    row = RowWriter.create(root / "board" / kind)
    recorder = RecorderWriter.create(root / "recorder" / kind)
    row.set_phase("running")
    row.beat(1_500_000)
    recorder.record("started", f"pid {os.getpid()}")
    return row, recorder


def live(row: RowWriter, until: int) -> None:
    """Beat until the descriptor says that it is over."""
    while not select.select([until], [], [], 0.1)[0]:
        row.beat(1_500_000)


def child(root: Path, kind: str, until: int, started: int) -> None:
    row, recorder = begin(root, kind)
    if kind == "pleg":
        row.begin("relist of all pods", "uid-1")
        recorder.record("relisted", "12 pods", "uid-1")
    if kind == "pleg" and "answer" in sys.argv[2:]:
        answer(root, row, until, started)
        return
    if kind == "syncloop" and "pods" in sys.argv[2:]:
        from tests.unit.kubeletctl.podkeeper import keep_pods

        keep_pods(root, row, until, started)
        return
    os.write(started, b".")
    live(row, until)


def answer(root: Path, row: RowWriter, until: int, started: int) -> None:
    """Answer requests as a real process does, and burn some CPU meanwhile."""
    import asyncio

    from kubelet.channels import messages
    from kubelet.channels.channels import Channels
    from kubelet.channels.peers import PeerBook
    from kubelet.process import sampler

    async def tasks(_request, *_caller):
        text = io.StringIO()
        for task in asyncio.all_tasks():
            task.print_stack(file=text)
        return messages.TaskStacks(text.getvalue())

    async def profile(request, *_caller):
        found = await sampler.profile(request.seconds, request.hertz, request.mode)
        return messages.Profiled(found.metadata.samples, found.stacks)

    def burn_for_the_profile():
        return sum(number * number for number in range(20_000))

    async def main():
        over = asyncio.Event()
        asyncio.get_running_loop().add_reader(until, over.set)
        (root / "channels" / "pleg").mkdir(parents=True)
        peers = PeerBook(root / "state.json", own_uid=os.geteuid())
        async with asyncio.TaskGroup() as group:
            channels = Channels("pleg", root, peers, group.create_task)
            await channels.start()
            channels.handle(messages.Tasks, tasks)
            channels.handle(messages.Profile, profile)
            os.write(started, b".")
            while not over.is_set():
                row.beat(1_500_000)
                burn_for_the_profile()
                await asyncio.sleep(0.005)
            await channels.close()

    asyncio.run(main())


def main(root: Path) -> None:
    for name in ("board", "recorder", "stacks", "tables"):
        (root / name).mkdir(exist_ok=True)
    lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    started, began, unix = os.pipe(), time.monotonic_ns(), time.time()
    pids = {}
    for kind in NAMES:
        pids[kind] = os.fork()
        if pids[kind] == 0:
            child(root, kind, 0, started[1])
            os._exit(0)
    tables = [
        Writer.attach(root / "tables", declaration)
        for declaration in TABLES
        if declaration.writer != "syncloop" or "pods" not in sys.argv[2:]
    ]
    if "free" in sys.argv[2:]:
        for table in tables:
            table.close()
        tables = []
    row, _recorder = begin(root, SUPERVISOR)
    for _ in NAMES:
        os.read(started[0], 1)
    state = {
        "schema": 1,
        "version": "0.1.0",
        "node": "node-1",
        "pid": os.getpid(),
        "started_ns": began,
        "started_unix": unix,
        "ready": True,
        "phase": "running",
        "heartbeat_timeout_ms": 5000,
        "unprivileged_uid": 0,
        "processes": [
            {
                "name": kind,
                "pid": pid,
                "state": "running",
                "restarts": 0,
                "started_ns": began,
                "last_exit": None,
                "next_start_ns": 0,
                "cgroup": None,
            }
            for kind, pid in pids.items()
        ],
        "quarantine": [],
        "notes": [],
    }
    (root / "state.json").write_text(json.dumps(state))
    print("ready", flush=True)
    live(row, 0)
    for pid in pids.values():
        os.waitpid(pid, 0)
    for table in tables:
        table.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
