"""How many pulls there may be: a second, at once, and of the same thing (I-21)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from kubelet.config import Effective
from kubelet.config.table import DEFAULT

QPS_EXCEEDED: Final = "pull QPS exceeded"

_T = TypeVar("_T")


@dataclass(slots=True)
class TokenBucket:
    """Lets through so many a second on average, and a burst at once; 0 a second is no limit."""

    qps: int
    burst: int
    clock: Callable[[], int]  # monotonic
    _tokens: float = 0.0
    _filled_ns: int = 0

    def __post_init__(self) -> None:
        self._tokens = float(self.burst)
        self._filled_ns = self.clock()

    def take(self) -> bool:
        """Take one, if there is one."""
        if not self.qps:
            return True
        now = self.clock()
        earned = (now - self._filled_ns) * self.qps / 1e9
        self._tokens = min(self._tokens + earned, float(self.burst))
        self._filled_ns = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def parallel_limit(config: Effective) -> int | None:
    """Return how many pulls may run at once; None is as many as there are.

    Pulls run beside each other unless somebody asked for one at a time: with one queue a slow
    image would hold up every pod of the node.
    """
    most = config.get("maxParallelImagePulls")
    if most is not None:
        return int(most)
    asked = config.origin("serializeImagePulls") != DEFAULT
    return 1 if asked and config.bool("serializeImagePulls") else None


class Gate:
    """Lets in so many at a time, in the order in which they came."""

    def __init__(self, most: int | None) -> None:
        self._places = None if most is None else asyncio.Semaphore(most)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Be one of those who are in."""
        if self._places is None:
            yield
            return
        async with self._places:
            yield


@dataclass(slots=True)
class _Flight(Generic[_T]):
    task: asyncio.Task[_T]
    waiting: int = 0


class Flights(Generic[_T]):
    """Does a thing once for all who ask for it while it is being done.

    Who is cancelled leaves the others alone; when nobody is left, the thing itself is cancelled.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[_T]] = {}

    def __len__(self) -> int:
        return len(self._flights)

    async def run(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Return the result of the work under way for this key, which is begun if there is none."""
        flight = self._flights.get(key) or self._begin(key, work)
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._forget(key, flight)
                flight.task.cancel()

    def _begin(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, _T]]) -> _Flight[_T]:
        flight = _Flight(asyncio.create_task(work(), name="flight"))
        self._flights[key] = flight
        flight.task.add_done_callback(lambda _task: self._forget(key, flight))
        return flight

    def _forget(self, key: Hashable, flight: _Flight[_T]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
