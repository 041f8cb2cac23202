"""Log files as a runtime writes them, and a runtime that writes one."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta
from pathlib import Path

from kubelet.cri.errors import Code, Internal
from kubelet.logs import LogOptions, LogReader, read
from procs.syncloop.logs.decide import RotationPolicy
from procs.syncloop.logs.rounds import Rounds, RunningLog

DAY = "2026-01-02T03:04:"


def stamp(second=5, fraction="123456789"):
    return f"{DAY}{second:02d}.{fraction}Z"


def line(text, second=5, stream="stdout", tag="F"):
    return f"{stamp(second)} {stream} {tag} {text}\n".encode()


def write(path: Path, *lines: bytes) -> str:
    path.write_bytes(b"".join(lines))
    return str(path)


def shown(path, **options) -> bytes:
    """What a reader of the whole log is shown."""
    with LogReader(str(path), LogOptions(**options)) as reader:
        return joined(pieces for pieces in read(reader))


def joined(batches) -> bytes:
    return b"".join(piece.data for pieces in batches for piece in pieces)


class Runtime:
    """Writes the log of one container, and opens it anew when it is asked to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[str] = []
        self.refuses = False  # and does nothing
        self.fails_late = False  # it opens the log anew, and then reports a failure
        self._fd = -1
        self.open()

    def open(self) -> None:
        self.close()
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)

    def write(self, data: bytes) -> None:
        os.write(self._fd, data)

    async def reopen(self, container_id: str) -> None:
        self.asked.append(container_id)
        if not self.refuses:
            self.open()
        await asyncio.sleep(0)
        if self.refuses or self.fails_late:
            raise Internal(Code.INTERNAL, "no", "ReopenContainerLog", container_id)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Clock:
    """A second later at each look."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - as the wall shows it

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def rounds(runtime, *, size=100, files=3, workers=1, **more) -> Rounds:
    policy = RotationPolicy(size, files, workers, 10.0)
    more.setdefault("now", Clock())
    more.setdefault("stopped", lambda: False)
    return Rounds(policy, runtime.reopen, **more)


def running(path) -> RunningLog:
    return RunningLog("id-1", str(path), "main", "uid-1")
