"""Looks at single pods, on request or because something happened (G-6).

Bounded: so many pods may wait, a pod waits once however often it is asked for, and so many looks
are under way. What is more is dropped and counted: the full look each second finds it anyway.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from kubelet.cri.errors import CriError
from kubelet.process import Process

CAPACITY: Final = 200  # G-6
WORKERS: Final = 8


class LooksFullError(Exception):
    """Too many pods wait to be looked at."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What came of a look."""

    stamp_ns: int
    changed: bool


@dataclass(slots=True)
class _Want:
    """A pod that waits to be looked at."""

    asked_ns: int  # the look must begin after this
    waiting: list[asyncio.Future[Looked]] = field(default_factory=list)


Look = Callable[[str, bool], Awaitable[Looked]]


class Looks:
    """The queue of looks at single pods."""

    def __init__(
        self,
        process: Process,
        look: Look,
        seen_ns: Callable[[str], int],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._process = process
        self._look = look
        self._seen_ns = seen_ns
        self._clock = clock
        self._wanted: dict[str, _Want] = {}
        self._running: set[str] = set()
        self._workers = 0

    def hint(self, uid: str) -> bool:
        """Have a pod looked at soon; False if it was dropped."""
        try:
            self._want(uid)
        except LooksFullError:
            return False
        return True

    async def ask(self, uid: str) -> Looked:
        """Look at a pod now; LooksFullError, or the CriError that the look ended in."""
        future: asyncio.Future[Looked] = asyncio.get_running_loop().create_future()
        self._want(uid).waiting.append(future)
        return await future

    def _want(self, uid: str) -> _Want:
        want = self._wanted.get(uid)
        if want is None:
            if len(self._wanted) >= CAPACITY:
                self._process.row.count("discarded")
                raise LooksFullError(f"{CAPACITY} pods wait to be looked at already")
            want = self._wanted[uid] = _Want(0)
        want.asked_ns = self._clock()
        self._process.row.depth("looks", len(self._wanted))
        if self._workers < WORKERS:
            self._workers += 1
            self._process.spawn(self._work(), name="looks")
        return want

    async def _work(self) -> None:
        try:
            while (uid := self._next()) is not None:
                want = self._wanted.pop(uid)
                self._running.add(uid)
                try:
                    await self._serve(uid, want)
                finally:
                    self._running.discard(uid)
                    self._process.row.depth("looks", len(self._wanted))
        finally:
            self._workers -= 1

    def _next(self) -> str | None:
        """Return a pod that waits and is not being looked at: two looks at once are one too many.

        A pod that is left out here is taken by the worker that looks at it now, afterwards.
        """
        return next((uid for uid in self._wanted if uid not in self._running), None)

    async def _serve(self, uid: str, want: _Want) -> None:
        waiting = [future for future in want.waiting if not future.done()]
        if self._seen_ns(uid) > want.asked_ns:
            self._process.row.count("looks_ignored")
            _answer(waiting, Looked(self._seen_ns(uid), changed=False))
            return
        try:
            looked = await self._look(uid, bool(waiting))
        except CriError as err:
            self._process.row.count("look_errors")
            for future in waiting:
                if not future.done():
                    future.set_exception(err)
        except BaseException:
            for future in waiting:
                future.cancel()
            raise
        else:
            self._process.row.count("pod_relists")
            _answer(waiting, looked)


def _answer(waiting: list[asyncio.Future[Looked]], looked: Looked) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(looked)
