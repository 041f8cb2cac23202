"""Connections that are kept for the next request, so many at most at the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from procs.node.apiserver.http1 import Http1

IDLE_NS: Final = 90 * 10**9  # after which a connection that nobody uses is closed

Dial = Callable[[], Awaitable[Http1]]


class Pool:
    """The connections of one purpose."""

    def __init__(
        self,
        dial: Dial,
        limit: int,
        *,
        idle_ns: int = IDLE_NS,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._dial = dial
        self._turns = asyncio.Semaphore(limit)
        self._idle: list[Http1] = []  # the one used last at the end
        self._generation = 0
        self._idle_ns = idle_ns
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self.made = 0  # connections since the start

    async def take(self) -> Http1:
        """Return a connection, an idle one if there is one; it must be given back."""
        await self._turns.acquire()
        try:
            while self._idle:
                found = self._idle.pop()
                if found.link.quiet():
                    return found
                found.close()
            generation = self._generation
            made = await self._dial()
        except BaseException:
            self._turns.release()
            raise
        made.generation = generation
        self.made += 1
        return made

    def give(self, connection: Http1) -> None:
        """Take a connection back: it is kept if it can carry another request."""
        self._turns.release()
        if connection.closed:
            return
        if connection.busy or connection.generation != self._generation:
            connection.close()
            return
        connection.idle_ns = self._clock()
        self._idle.append(connection)
        if self._timer is None:
            self._arm(self._idle_ns)

    def drop(self) -> None:
        """Close the idle ones."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def replace(self) -> None:
        """Use none of those that there are again; a request under way may end."""
        self._generation += 1
        self.drop()

    def close(self) -> None:
        """Close the idle ones and be done."""
        self.replace()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, delay_ns: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_ns / 1e9, self._sweep)

    def _sweep(self) -> None:
        """Close what was idle for long; what was used last stands at the end."""
        self._timer = None
        now = self._clock()
        while self._idle and (self._idle[0].closed or self._left(self._idle[0], now) <= 0):
            self._idle.pop(0).close()
        if self._idle:
            self._arm(max(self._left(self._idle[0], now), 10**6))

    def _left(self, connection: Http1, now: int) -> int:
        return connection.idle_ns + self._idle_ns - now
