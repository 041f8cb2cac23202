"""Runs operations that may hang, each in a process that can be left behind.

A process that waits in the kernel for a dead file server cannot be killed. It costs nothing but
itself: who asked gets a sentence when the time is up, and until the kernel gives it back nothing
else is begun under its key. This process neither waits for it nor is kept from ending by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from kubelet import logging as klog
from procs.volumes.errors import HangingError, VolumeError
from procs.volumes.operations import child
from procs.volumes.operations.freed import Freed
from procs.volumes.operations.locks import Holder, Locks

log = klog.get_logger(__name__)

PROGRAM: Final = os.path.abspath(child.__file__)
THREADS: Final = 8
KILL_SECONDS: Final = 1.0  # in which what can be killed is gone
_MOST_OUTPUT: Final = 1 << 20
_SHOWN: Final = 600  # characters of what a program says
_SECOND: Final = 10**9

T = TypeVar("T")
Progress = Callable[[Any], None]


@dataclass(slots=True)
class _Running:
    """A process that was started."""

    key: str
    process: subprocess.Popen[bytes]
    pidfd: int
    output: int
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    text: bytearray = field(default_factory=bytearray)
    told: int = 0  # bytes of the text that were looked at for progress
    progress: Progress | None = None


class Operations:
    """Runs operations, and knows which of them do not come back."""

    def __init__(self, directory: str, wall: Callable[[], int] = time.time_ns) -> None:
        """``directory``: where locks are; it outlives this process, but not the machine."""
        self._locks = Locks(directory)
        self._freed = Freed(self._locks)
        self._wall = wall
        self._running: dict[str, _Running] = {}
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="volumes")

    def close(self) -> None:
        """Begin nothing more; what hangs is not waited for."""
        self._freed.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def when_free(self, key: str, who: object, call: Callable[[], None]) -> None:
        """Call once when nothing hangs under a key any more, whoever began it."""
        self._freed.when(key, who, call)

    async def thread(self, work: Callable[[], T]) -> T:
        """Do something beside that is surely local and finite."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def child(
        self,
        call: str,
        arguments: dict[str, Any],
        *,
        key: str,
        seconds: float = 0.0,
        progress: Progress | None = None,
    ) -> Any:
        """Run a function in a process of its own; a VolumeError says what went wrong in it."""
        what = call.rpartition(":")[2]
        request = {"call": call, "arguments": arguments}
        run = await self._run(request, what, key, seconds, progress)
        for line in _lines(run.text):
            if "error" in line:
                raise VolumeError(str(line["error"]))
            if "result" in line:
                return line["result"]
        raise VolumeError(f"{what} {_ending(run.process)}: {_shown(run.text)}")

    async def command(self, argv: Sequence[str], *, key: str, seconds: float = 0.0) -> str:
        """Run a program; what it says. A VolumeError: it failed, with its status and its words."""
        run = await self._run({"execute": list(argv)}, argv[0], key, seconds, None)
        said = _shown(run.text)
        if run.process.returncode != 0:
            raise VolumeError(f"{argv[0]} {_ending(run.process)}: {said}")
        return said

    async def _run(
        self,
        request: dict[str, Any],
        what: str,
        key: str,
        seconds: float,
        progress: Progress | None,
    ) -> _Running:
        lock = self._take(key, what)
        try:
            running = self._start(request, key, lock)
        finally:
            os.close(lock)
        running.progress = progress
        self._running[key] = running
        if not await _within(running.ended, seconds or None):
            await self._give_up(running, what, seconds)
        return running

    def _take(self, key: str, what: str) -> int:
        found = self._locks.take(key, Holder(what, self._wall()))
        if isinstance(found, int):
            return found
        ago = max(0, self._wall() - found.since_ns) // _SECOND if found.since_ns else 0
        raise HangingError(f"{found.what}, begun {ago} s ago, has not come back yet", key)

    def _start(self, request: dict[str, Any], key: str, lock: int) -> _Running:
        given = os.memfd_create("operation")
        try:
            os.write(given, json.dumps({**request, "parent": os.getpid()}).encode())
            os.lseek(given, 0, os.SEEK_SET)
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", PROGRAM],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a program may have helpers, which end with it
                pass_fds=(lock,),
                cwd="/",
            )
        except OSError as err:
            raise VolumeError(f"no process could be started: {err.strerror}") from err
        finally:
            os.close(given)
        assert process.stdout is not None
        output = process.stdout.fileno()
        os.set_blocking(output, False)
        running = _Running(key, process, os.pidfd_open(process.pid), output)
        loop = asyncio.get_running_loop()
        loop.add_reader(output, self._readable, running)
        loop.add_reader(running.pidfd, self._exited, running)
        return running

    def _readable(self, running: _Running) -> None:
        if not _drain(running):
            asyncio.get_running_loop().remove_reader(running.output)
        elif running.progress is not None:
            _tell(running)

    def _exited(self, running: _Running) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(running.pidfd)
        loop.remove_reader(running.output)
        _drain(running)
        running.process.wait()  # it has ended: this only takes its status
        os.close(running.pidfd)
        assert running.process.stdout is not None
        running.process.stdout.close()
        self._running.pop(running.key, None)
        self._locks.drop(running.key)
        if not self._locks.is_free(running.key):  # what it started is still about to end
            self._freed.when(running.key, running, partial(self._locks.drop, running.key))
        running.ended.set()

    async def _give_up(self, running: _Running, what: str, seconds: float) -> None:
        """Kill an operation whose time is up; a HangingError: the kernel does not let it go."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
        if await _within(running.ended, KILL_SECONDS):
            raise VolumeError(f"{what} did not come back within {seconds:g} s and was ended")
        log.warning("Operation does not come back", what=what, pid=running.process.pid)
        sentence = f"{what} did not come back within {seconds:g} s and cannot be ended"
        raise HangingError(sentence, running.key)


async def _within(event: asyncio.Event, seconds: float | None) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _drain(running: _Running) -> bool:
    """Take what a process has said; whether more may come."""
    while True:
        try:
            part = os.read(running.output, 1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not part:
            return False
        if len(running.text) < _MOST_OUTPUT:
            running.text += part


def _tell(running: _Running) -> None:
    """Pass on what is new of the progress."""
    end = running.text.rfind(b"\n") + 1
    fresh, running.told = running.text[running.told : end], max(end, running.told)
    assert running.progress is not None
    for line in _lines(fresh):
        if "progress" in line:
            running.progress(line["progress"])


def _lines(text: bytes | bytearray) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):  # something else that was printed
            value = json.loads(line)
            if isinstance(value, dict):
                found.append(value)
    return found


def _ending(process: subprocess.Popen[bytes]) -> str:
    status = process.returncode
    if status < 0:
        return f"was ended by signal {-status}"
    return f"failed with exit status {status}"


def _shown(text: bytes | bytearray) -> str:
    words = " ".join(text.decode(errors="replace").split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}..."
