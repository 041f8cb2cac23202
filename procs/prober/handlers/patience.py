"""The time that a probe may take, without the time that this process took from it.

A loop that is late, because of work of its own or because the process had no CPU, makes an answer
look late that was in time. So while probes are under way a tick measures how late the loop is, and
a probe whose time is over gets as much time again as was lost while it was waiting, once over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

_TICK: Final = 0.05  # seconds between looks at the loop's own punctuality, while probes wait
_GRAIN: Final = 0.005  # seconds that a loop is late by without anybody being at fault


class _Lag:
    """How much time the loop has lost, in all, while anybody wanted to know."""

    __slots__ = ("_due", "_loop", "_lost", "_timer", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lost = 0.0
        self._waiting = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def of(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Tell whether this is about a loop."""
        return self._loop is loop

    def begin(self) -> float:
        """Have it measured from now on; return what was lost so far."""
        self._waiting += 1
        if self._timer is None:
            self._due = self._loop.time() + _TICK
            self._timer = self._loop.call_at(self._due, self._tick)
        return self.lost()

    def end(self) -> None:
        """Have it measured no longer, as far as the caller is concerned; others may still wait."""
        self._waiting -= 1

    def lost(self) -> float:
        """Return how many seconds were lost so far."""
        late = self._loop.time() - self._due
        return self._lost + late if late > _GRAIN and self._timer is not None else self._lost

    def _tick(self) -> None:
        now = self._loop.time()
        late = now - self._due
        if late > _GRAIN:
            self._lost += late
        if not self._waiting:
            self._timer = None
            return
        self._due = now + _TICK
        self._timer = self._loop.call_at(self._due, self._tick)


_lags: list[_Lag] = []  # of the loop that runs; a process has one


def _lag_of(loop: asyncio.AbstractEventLoop) -> _Lag:
    if not _lags or not _lags[0].of(loop):
        _lags[:] = [_Lag(loop)]
    return _lags[0]


def _nothing() -> None:
    """Be nobody's end."""


class Patience:
    """The time of one probe; when it is over, ``on_end`` is called, which may change meanwhile."""

    __slots__ = ("_before", "_given", "_lag", "_loop", "_seconds", "_timer", "on_end")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._given = 0.0
        self._lag = _lag_of(loop)
        self._before = self._lag.begin()
        self._timer = loop.call_later(seconds, self._over)
        self.on_end: Callable[[], None] = _nothing

    def left(self) -> float:
        """Return how many seconds there are left, as it stands."""
        return max(0.0, self._timer.when() - self._loop.time())

    def late_ns(self) -> int:
        """Return how much time was lost to this process since the beginning."""
        return int((self._lag.lost() - self._before) * 1e9)

    def done(self) -> None:
        """Measure no longer."""
        self._timer.cancel()
        self._lag.end()

    def _over(self) -> None:
        """Give back what was lost, or end it; a probe never takes more than twice its time."""
        owed = min(self._lag.lost() - self._before, self._seconds) - self._given
        if owed > 0:
            self._given += owed
            self._timer = self._loop.call_later(owed, self._over)
        else:
            self.on_end()
