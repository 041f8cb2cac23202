"""The supervisor's event loop: descriptors, signals, and a next moment to wake up at."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Loop:
    """epoll with call-backs. Signal handlers only enqueue; the work is done in the loop."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._pending: deque[signal.Signals] = deque()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.watch(self._wake_read, self._drain)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, self._caught)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _caught(self, number: int, _frame: object) -> None:
        self._pending.append(signal.Signals(number))

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Call back whenever the descriptor is readable."""
        self._readers[fd] = callback
        self._epoll.register(fd, select.EPOLLIN)

    def unwatch(self, fd: int) -> None:
        """Stop calling back."""
        if self._readers.pop(fd, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)

    def turn(self, until: float) -> list[signal.Signals]:
        """Wait until the moment or for something to happen; the signals that came."""
        if not self._pending:
            timeout = max(0.0, until - time.monotonic())
            for fd, _ in self._epoll.poll(timeout):
                callback = self._readers.get(fd)  # an earlier one in this batch may have removed it
                if callback is not None:
                    callback()
        caught = list(self._pending)
        self._pending.clear()
        return caught

    def close(self) -> None:
        """Give back descriptors and handlers."""
        signal.set_wakeup_fd(-1)
        for fd in (self._wake_read, self._wake_write):
            os.close(fd)
        self._epoll.close()
