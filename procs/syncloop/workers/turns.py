"""Who may start now: a few pods at once, in the order in which they came.

A runtime that is asked for thirty sandboxes at once makes all of them slowly: the first is ready
when the last is, and the work in all is more. So a pod waits for its turn, and has it until its
containers are started. A start that takes long holds up nobody: what it waits for is not the
processor, so after a while it does not count any more.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

AT_LEAST: Final = 4
LONGEST_SECONDS: Final = 2.0


def at_once(processors: int | None = None) -> int:
    """Return how many pods may start at once: as many as keep the processors busy."""
    return max(AT_LEAST, 2 * (processors or os.cpu_count() or 1))


class _Held:
    """A turn that somebody has; it ends once, whoever says so."""

    def __init__(self, pass_on: Callable[[], None]) -> None:
        self._pass_on: Callable[[], None] | None = pass_on

    def end(self) -> None:
        """Pass the turn on, unless that was done."""
        pass_on, self._pass_on = self._pass_on, None
        if pass_on is not None:
            pass_on()


class Turns:
    """A number of turns, and who waits for one."""

    def __init__(self, number: int, seconds: float = LONGEST_SECONDS) -> None:
        self._free = number
        self._seconds = seconds
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn and have it until the block ends, or for some seconds."""
        await self._take()
        held = _Held(self._pass_on)
        timer = asyncio.get_running_loop().call_later(self._seconds, held.end)
        try:
            yield
        finally:
            timer.cancel()
            held.end()

    async def _take(self) -> None:
        if self._free:
            self._free -= 1
            return
        wait = asyncio.get_running_loop().create_future()
        self._waiting[wait] = None
        try:
            await wait
        except asyncio.CancelledError:
            if wait.done() and not wait.cancelled():
                self._pass_on()  # it was ours, and nobody takes it
            raise
        finally:
            self._waiting.pop(wait, None)

    def _pass_on(self) -> None:
        while self._waiting:
            wait, _ = self._waiting.popitem(last=False)
            if not wait.done():
                wait.set_result(None)
                return
        self._free += 1
