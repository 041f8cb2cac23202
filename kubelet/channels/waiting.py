"""Waiting until a table holds what one needs, woken by hints and ticks, never by polling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from kubelet.channels.wire import ANY_KEY

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Waiter:
    """One task that waits, and how to find out whether it still must."""

    check: Callable[[], Any]
    future: asyncio.Future[Any]

    def look(self) -> None:
        """Evaluate the check; what it finds, or raises, is for the task that waits."""
        if self.future.done():
            return
        try:
            found = self.check()
        except Exception as error:  # noqa: BLE001 - it belongs to the one who waits
            self.future.set_exception(error)
            return
        if found is not None:
            self.future.set_result(found)


class Waiters:
    """The tasks of a process that wait for entries of tables."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], set[_Waiter]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def notify(self, table: str, key: str) -> None:
        """Look again for those who wait for this key, or, with ``*``, for any of the table."""
        if key != ANY_KEY:
            self._look(self._waiting.get((table, key), ()))
            return
        for (name, _), waiters in list(self._waiting.items()):
            if name == table:
                self._look(waiters)

    def tick(self) -> None:
        """Look again for all: a hint may have been lost."""
        for waiters in list(self._waiting.values()):
            self._look(waiters)

    async def wait(
        self,
        table: str,
        key: str,
        check: Callable[[], T | None],
        timeout: float,  # noqa: ASYNC109 - asyncio.timeout would cancel where this only tells
    ) -> T:
        """Return what ``check()`` finds, as soon as it is not None; TimeoutError after that time.

        The check is evaluated now, at each hint for the key, and at each tick.
        """
        loop = asyncio.get_running_loop()
        waiter = _Waiter(check, loop.create_future())
        waiter.look()
        timer = loop.call_later(timeout, _give_up, waiter, f"{table}/{key}", timeout)
        mine = self._waiting.setdefault((table, key), set())
        mine.add(waiter)
        try:
            found: T = await waiter.future
            return found
        finally:
            timer.cancel()
            mine.discard(waiter)
            if not mine:
                self._waiting.pop((table, key), None)

    @staticmethod
    def _look(waiters: Any) -> None:
        for waiter in list(waiters):
            waiter.look()


def _give_up(waiter: _Waiter, what: str, seconds: float) -> None:
    if not waiter.future.done():
        error = TimeoutError(f"{what} was not as needed within {seconds:g} s")
        waiter.future.set_exception(error)
