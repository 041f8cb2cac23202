"""Times of the channels between two real processes: round trips, hints, and table to reader.

Each figure comes from one forked peer that answers or listens on a loop of its own, as the
processes of the tree do. ``run()`` returns microseconds by name.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from kubelet.channels.channels import Channels
from kubelet.channels.messages import Ping, Pong
from kubelet.channels.server import Caller
from kubelet.channels.wire import ANY_KEY, Hint

WRITER, READER = "pleg", "syncloop"
TABLE = "runtime"
ROUND_TRIPS = 3000
HINTS = 3000
PAUSE = 0.0005  # between two hints: a latency is wanted, not a throughput
PAYLOAD = os.urandom(2048)


def run() -> dict[str, float]:
    """Measure all there is to measure here."""
    figures = _round_trips()
    figures |= _hints("hint", _publish_only, _stamp_of_hint)
    with contextlib.suppress(ImportError):
        figures |= _table_to_reader()
    return figures


@contextlib.contextmanager
def _run_dir() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir="/dev/shm"))
    try:
        for kind in (WRITER, READER):
            (directory / "channels" / kind).mkdir(parents=True)
        (directory / "tables").mkdir()
        yield directory
    finally:
        shutil.rmtree(directory)


@contextlib.contextmanager
def _peer(main: Callable[[], Coroutine[Any, Any, None]]) -> Iterator[None]:
    """Run a coroutine in a forked process, until the block ends."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(main())
        finally:
            os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@contextlib.asynccontextmanager
async def _channels(kind: str, directory: Path, peer: str) -> Any:
    async with asyncio.TaskGroup() as group:
        channels = Channels(kind, directory, lambda _uid, _pid: peer, group.create_task)
        await channels.start()
        try:
            yield channels
        finally:
            await channels.close()


def _round_trips() -> dict[str, float]:
    with _run_dir() as directory:

        async def answer() -> None:
            async with _channels(WRITER, directory, READER) as channels:
                channels.handle(Ping, _pong)
                await asyncio.Event().wait()

        async def ask() -> list[float]:
            async with _channels(READER, directory, WRITER) as channels:
                await channels.ask(WRITER, Ping())
                return [await _timed(channels) for _ in range(ROUND_TRIPS)]

        with _peer(answer):
            return _percentiles("request_round_trip", asyncio.run(ask()))


async def _pong(_message: Ping, _caller: Caller) -> Pong:
    return Pong(WRITER, os.getpid())


async def _timed(channels: Channels) -> float:
    begun = time.perf_counter_ns()
    await channels.ask(WRITER, Ping())
    return (time.perf_counter_ns() - begun) / 1e3


Publish = Callable[[Channels, Path], Callable[[], None]]
Stamp = Callable[[Path], Callable[[Hint], int]]


def _publish_only(channels: Channels, _directory: Path) -> Callable[[], None]:
    """Send the time as the key of the hint."""
    channels.offer(TABLE, lambda: 0)
    return lambda: channels.publish(TABLE, str(time.monotonic_ns()), 0)


def _stamp_of_hint(_directory: Path) -> Callable[[Hint], int]:
    return lambda hint: int(hint.key)


def _table_to_reader() -> dict[str, float]:
    """Time a put, its hint, and the reader's get of the same entry."""
    from shm.table import Reader, Writer
    from shm.tables import BY_NAME

    def publish(channels: Channels, directory: Path) -> Callable[[], None]:
        writer = Writer.attach(directory / "tables", BY_NAME[TABLE])
        channels.offer(TABLE, lambda: writer.generation)

        def put() -> None:
            generation = writer.put("pod", PAYLOAD, stamp_ns=time.monotonic_ns())
            channels.publish(TABLE, "pod", generation)

        return put

    def stamp(directory: Path) -> Callable[[Hint], int]:
        reader = Reader.attach(directory / "tables", BY_NAME[TABLE])

        def get(_hint: Hint) -> int:
            entry = reader.get("pod")
            assert entry is not None
            return entry.stamp_ns

        return get

    return _hints("table_to_reader", publish, stamp)


def _hints(name: str, publish: Publish, stamp: Stamp) -> dict[str, float]:
    """Let a forked writer publish, and time how long after its stamp the reader knows."""
    with _run_dir() as directory:

        async def write() -> None:
            async with _channels(WRITER, directory, READER) as channels:
                send = publish(channels, directory)
                while True:
                    send()
                    await asyncio.sleep(PAUSE)

        async def read() -> list[float]:
            latencies: list[float] = []
            enough = asyncio.Event()
            stamp_of: Callable[[Hint], int] | None = None

            def on_hint(hint: Hint) -> None:
                nonlocal stamp_of
                if hint.key == ANY_KEY:
                    return
                stamp_of = stamp_of or stamp(directory)
                stamped = stamp_of(hint)
                latencies.append((time.monotonic_ns() - stamped) / 1e3)
                if len(latencies) >= HINTS:
                    enough.set()

            async with _channels(READER, directory, WRITER) as channels:
                channels.subscribe({TABLE: WRITER}, on_hint)
                await asyncio.wait_for(enough.wait(), 60)
            return latencies

        with _peer(write):
            return _percentiles(name, asyncio.run(read()))


def _percentiles(name: str, values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        f"{name}_p50_us": round(ordered[len(ordered) // 2], 1),
        f"{name}_p99_us": round(ordered[len(ordered) * 99 // 100], 1),
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
