"""Looks at single pods (G-6): bounded, once per pod, none where a later one is done already."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from kubelet.cri.errors import Code, Unavailable
from procs.pleg.looks import CAPACITY, WORKERS, Looked, Looks, LooksFullError
from tests.unit.pleg.standing import until


class Eye:
    """Looks when it is let."""

    def __init__(self, process):
        self.open = asyncio.Event()
        self.looked = []
        self.under_way = 0
        self.most = 0
        self.error = None
        self.clock = itertools.count(1)
        self.seen = {}
        self.looks = Looks(
            process, self.look, lambda uid: self.seen.get(uid, 0), lambda: next(self.clock)
        )

    async def look(self, uid, asked):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        stamp_ns = next(self.clock)
        await self.open.wait()
        self.under_way -= 1
        if self.error:
            raise self.error
        self.looked.append((uid, asked))
        return Looked(stamp_ns, changed=True)


def story(process, work):
    async def main():
        async with asyncio.timeout(10):
            await work(Eye(process))

    asyncio.run(main())


def test_who_asks_gets_the_look(process):
    """Its stamp, and whether it found a change."""

    async def work(eye):
        eye.open.set()
        looked = await eye.looks.ask("u")
        assert (looked.stamp_ns, looked.changed) == (2, True)
        assert eye.looked == [("u", True)]

    story(process, work)


def test_a_hint_is_a_look_that_nobody_waits_for(process):
    """It need not be written if nothing changed."""

    async def work(eye):
        eye.open.set()
        assert eye.looks.hint("u")
        await until(lambda: eye.looked)
        assert eye.looked == [("u", False)]

    story(process, work)


def test_g6_one_pod_waits_once(process):
    """All who ask while a look is under way share the next one, which began after they asked."""

    async def work(eye):
        first = asyncio.ensure_future(eye.looks.ask("u"))
        await until(lambda: eye.under_way)
        more = [asyncio.ensure_future(eye.looks.ask("u")) for _ in range(5)]
        await asyncio.sleep(0.01)
        assert eye.most == 1
        eye.open.set()
        answers = await asyncio.gather(first, *more)
        assert len(eye.looked) == 2
        assert len({a.stamp_ns for a in answers[1:]}) == 1
        assert answers[1].stamp_ns > answers[0].stamp_ns

    story(process, work)


def test_g6_the_queue_is_bounded(process):
    """What is more is dropped and counted; so many looks are under way at a time."""

    async def work(eye):
        for number in range(CAPACITY + WORKERS):
            eye.looks.hint(f"p{number}")
            await asyncio.sleep(0)
        assert eye.most == WORKERS
        assert not eye.looks.hint("one more")
        with pytest.raises(LooksFullError, match="200 pods wait"):
            await eye.looks.ask("and one more")
        assert process.row.counters["discarded"] == 2
        eye.open.set()
        await until(lambda: len(eye.looked) == CAPACITY + WORKERS)
        assert eye.looks.hint("one more")
        await until(lambda: not process.tasks)

    story(process, work)


def test_g6_a_request_older_than_a_look_is_ignored(process):
    """A full look that began after the request is as good."""

    async def work(eye):
        busy = [eye.looks.hint(f"p{n}") for n in range(WORKERS)]
        assert all(busy)
        waiting = asyncio.ensure_future(eye.looks.ask("u"))
        await asyncio.sleep(0)
        eye.seen["u"] = 1000
        eye.open.set()
        assert await waiting == Looked(1000, changed=False)
        assert ("u", True) not in eye.looked
        assert process.row.counters["looks_ignored"] == 1

    story(process, work)


def test_a_look_that_fails_fails_for_who_asked(process):
    """And for nobody else."""

    async def work(eye):
        eye.open.set()
        eye.error = Unavailable(Code.UNAVAILABLE, "away", "ListContainers")
        eye.looks.hint("v")
        with pytest.raises(Unavailable, match="away"):
            await eye.looks.ask("u")
        eye.error = None
        assert (await eye.looks.ask("u")).changed

    story(process, work)


def test_who_stops_waiting_is_forgotten(process):
    """The look goes on."""

    async def work(eye):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await eye.looks.ask("u")
        eye.open.set()
        await until(lambda: eye.looked)

    story(process, work)
