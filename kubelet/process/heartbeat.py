"""The heartbeat: written by the event loop itself, so that a stuck loop cannot look alive.

One timer does three jobs, so that an idle process wakes up twice a second and no more: it beats,
it measures how late the loop is, and each second it ticks (the tables' generations are compared,
in case a hint was lost).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubelet import logging as klog
from shm.board import RowWriter

TICK_SECONDS = 1.0


class Heartbeat:
    """Beats for as long as its loop turns."""

    def __init__(self, row: RowWriter, interval: float) -> None:
        self._row = row
        self._interval = interval
        self._ticks: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._tick_due = 0.0
        self._first: Callable[[], None] | None = None

    def start(self, first: Callable[[], None]) -> None:
        """Beat now, and from now on; ``first`` is called after the first beat."""
        self._first = first
        self._due = asyncio.get_running_loop().time()
        self._tick_due = self._due + TICK_SECONDS
        self._beat()

    def on_tick(self, callback: Callable[[], None]) -> None:
        """Call back each second."""
        self._ticks.append(callback)

    def stop(self) -> None:
        """Beat no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._row.beat(int(max(0.0, now - self._due) * 1e9))
        self._due = now + self._interval
        self._timer = loop.call_at(self._due, self._beat)
        if self._first is not None:
            self._first()
            self._first = None
        if now >= self._tick_due:
            self._tick_due = now + TICK_SECONDS
            klog.flush()
            for callback in self._ticks:
                callback()
