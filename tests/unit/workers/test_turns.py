"""Who may start now."""

from __future__ import annotations

import asyncio

import pytest

from procs.syncloop.workers.turns import Turns, at_once


class Starts:
    """Pods that start when it is their turn, and end when they are told."""

    def __init__(self, turns):
        self.turns = turns
        self.begun = []
        self._ends = {}
        self._tasks = {}

    async def come(self, *names):
        """Have pods ask for a turn, one after the other."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._start(name))
            await asyncio.sleep(0)
        await self.settled()

    async def _start(self, name):
        async with self.turns.turn():
            self.begun.append(name)
            await self._ends[name].wait()

    async def settled(self):
        """Let everybody do what can be done now."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def end(self, name):
        """Have a pod be started."""
        self._ends[name].set()
        await self._tasks[name]
        await self.settled()

    async def cancel(self, *names):
        """Have pods be wanted no more."""
        for name in names:
            self._tasks[name].cancel()
        await asyncio.gather(*(self._tasks[n] for n in names), return_exceptions=True)
        await self.settled()


def test_pods_start_in_their_order_a_few_at_once():
    """As many as there are turns; each end lets the next one in."""

    async def work():
        starts = Starts(Turns(2))
        await starts.come(*"abcd")
        assert starts.begun == ["a", "b"]
        await starts.end("b")
        assert starts.begun == ["a", "b", "c"]
        await starts.end("a")
        await starts.end("c")
        await starts.end("d")
        await starts.come("e", "f", "g")
        assert starts.begun == list("abcdef")
        await starts.cancel(*"efg")

    asyncio.run(work())


def test_who_gives_up_leaves_its_turn_to_the_next():
    """While it waits, while it has it, and in the moment in which it is given to it."""

    async def work():
        starts = Starts(Turns(1))
        await starts.come(*"abcd")
        await starts.cancel("b")
        await starts.cancel("a")
        assert starts.begun == ["a", "c"]
        starts._ends["c"].set()
        await starts._tasks["c"]  # d has been given its turn, and has not noticed
        await starts.cancel("d")
        await starts.come("e")
        assert starts.begun[-1] == "e"
        await starts.cancel("e")

    asyncio.run(work())


def test_a_start_that_takes_long_holds_up_nobody():
    """Its turn is passed on once, and not again when it ends at last."""

    async def work():
        turns = Turns(1, seconds=0.001)
        async with turns.turn(), turns.turn(), turns.turn():
            pass  # each waits until the one before has had its time
        starts = Starts(turns)
        turns._seconds = 60.0
        await starts.come("a", "b")
        assert starts.begun == ["a"]
        await starts.cancel("a", "b")

    asyncio.run(work())


@pytest.mark.parametrize(("processors", "number"), [(1, 4), (2, 4), (3, 6), (64, 128)])
def test_as_many_as_keep_the_processors_busy(processors, number):
    """A small machine has a few, a large one is not held back."""
    assert at_once(processors) == number
