"""What keeps one row of table ``objects`` true for as long as a pod refers to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from procs.node.kit import Kit


class Keeper(Protocol):
    """Keeps one row."""

    @property
    def lingers(self) -> bool:
        """Whether it is kept for a while when nobody refers to it any more: it stays true."""

    def start(self) -> None:
        """Begin to read."""

    def wanted(self) -> None:
        """Take that one more pod refers to it."""

    def stop(self) -> None:
        """Read no more."""


class Rounds:
    """A task that does something again and again: at once, after each rest, and when woken."""

    def __init__(self, kit: Kit, name: str, work: Callable[[], Awaitable[float]]) -> None:
        self._kit = kit
        self._name = name
        self._work = work
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin with the first round."""
        self._task = self._kit.process.spawn(self._run(), name=self._name)

    def wake(self) -> None:
        """Have a round now, or after the one that is under way."""
        self._woken.set()

    def stop(self) -> None:
        """Begin no more rounds, and give up the one that is under way."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            seconds = await self._work()
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                continue
