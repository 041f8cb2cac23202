"""Where lines go: standard error and output, in single writes that never block the process.

A log reader that has stopped reading (a stuck journald, a paused terminal) fills the pipe; a
process that waits for it would miss its heartbeats and be killed for its reader's fault. So a line
that cannot be written at once is dropped and counted, and the count is said when writing works
again.
"""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Mapping

_ATOMIC = 4096  # PIPE_BUF: a pipe that polls writable takes this much without blocking
_PATIENCE = 0.1  # seconds that a line longer than that may wait for room
STDOUT = 1
STDERR = 2


class Sink:
    """Writes encoded lines to a descriptor, buffering info lines where that was asked for."""

    def __init__(self, fd: int, buffer_bytes: int = 0, flush_seconds: float = 5.0) -> None:
        self._fd = fd
        self._limit = buffer_bytes
        self._flush_seconds = flush_seconds
        self._waiting = bytearray()
        self._oldest = 0.0
        self._lost = 0
        self.lost_total = 0

    def write(self, line: bytes, *, urgent: bool) -> None:
        """Write a line, or keep it for the next flush when it is not urgent and there is room."""
        if self._limit and not urgent:
            self._keep(line)
            return
        self.flush()
        self._put(line)

    def flush(self) -> None:
        """Write what was kept."""
        if self._waiting:
            data, self._waiting = bytes(self._waiting), bytearray()
            self._put(data)

    def flush_if_due(self) -> None:
        """Write what was kept once the oldest of it has waited for the flush period."""
        if self._waiting and time.monotonic() - self._oldest >= self._flush_seconds:
            self.flush()

    def _keep(self, line: bytes) -> None:
        if not self._waiting:
            self._oldest = time.monotonic()
        self._waiting += line
        if len(self._waiting) >= self._limit:
            self.flush()

    def _put(self, data: bytes) -> None:
        if self._lost and self._try(f"... {self._lost} log lines lost: nobody read\n".encode()):
            self._lost = 0
        if not self._try(data):
            self._lost += 1
            self.lost_total += 1

    def _try(self, data: bytes) -> bool:
        deadline = 0.0
        view = memoryview(data)
        while view:
            if not _writable(self._fd, max(0.0, deadline - time.monotonic()) if deadline else 0.0):
                return False
            try:
                written = os.write(self._fd, view[:_ATOMIC])
            except OSError:  # a closed or broken standard error leaves nobody to tell
                return False
            view = view[written:]
            deadline = deadline or time.monotonic() + _PATIENCE
        return True


def _writable(fd: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return any(events & select.POLLOUT for _, events in poll.poll(timeout * 1000))


def is_journal(fd: int, environ: Mapping[str, str]) -> bool:
    """Whether this descriptor is the stream that systemd connected to the journal."""
    try:
        found = os.fstat(fd)
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and (
        environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"
    )
