"""Real processes that stand for a container's init, so that a pidfd and a kill work on them.

Each one only waits. It ends with the simulator, however that ends, because it reads from a pipe
whose other end the simulator alone holds. With a state file it outlives the simulator instead, as
the processes of a real runtime do, and the next simulator takes it up by its number and start time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable


def start_time(pid: int) -> str:
    """When a process began, in the kernel's ticks; empty when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


class Processes:
    """The processes of running containers."""

    def __init__(self, on_end: Callable[[int, int], None], *, survive: bool) -> None:
        self._on_end = on_end
        self._survive = survive
        self._pidfds: dict[int, int] = {}
        self._read, self._write = os.pipe2(os.O_CLOEXEC)

    def spawn(self) -> int:
        """Start one; its number."""
        argv = ["sleep", "infinity"] if self._survive else ["cat"]
        source = "/dev/null"
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, source, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
        ]
        if not self._survive:
            actions.append((os.POSIX_SPAWN_DUP2, self._read, 0))
        pid = os.posix_spawnp(argv[0], argv, {}, file_actions=actions, setsid=True)
        self._watch(pid)
        return pid

    def adopt(self, pid: int, began: str) -> bool:
        """Take up a process of an earlier simulator, if it is still the same one."""
        if not began or start_time(pid) != began:
            return False
        self._watch(pid)
        return True

    def _watch(self, pid: int) -> None:
        pidfd = os.pidfd_open(pid)
        self._pidfds[pid] = pidfd
        asyncio.get_running_loop().add_reader(pidfd, self._ended, pid)

    def _ended(self, pid: int) -> None:
        self._forget(pid)
        code = 137  # an adopted process is nobody's child: it can only have been killed
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(pid, 0)
            code = os.waitstatus_to_exitcode(status)
        self._on_end(pid, 128 - code if code < 0 else code)

    def _forget(self, pid: int) -> None:
        pidfd = self._pidfds.pop(pid)
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)

    def end(self, pid: int) -> None:
        """The container ended: so does its process. Nothing is told."""
        if pid not in self._pidfds:
            return
        self._forget(pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)

    def close(self) -> None:
        """End them all, unless they are to outlive the simulator."""
        for pid in list(self._pidfds):
            if self._survive:
                self._forget(pid)
            else:
                self.end(pid)
        os.close(self._read)
        os.close(self._write)
