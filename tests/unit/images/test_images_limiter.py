"""Limits of pulls, and doing a thing once for all who ask (I-21)."""

from __future__ import annotations

import asyncio

import pytest

from kubelet import config
from procs.syncloop.images.limiter import Flights, Gate, TokenBucket, parallel_limit
from tests.unit.images.parts import Clock, settled

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def test_a_burst_goes_through_and_then_so_many_a_second():
    """The bucket starts full, fills with time, and holds no more than the burst (I-21)."""
    clock = Clock()
    bucket = TokenBucket(5, 10, clock)
    assert [bucket.take() for _ in range(11)] == [True] * 10 + [False]
    clock.now += 200_000_000
    assert (bucket.take(), bucket.take()) == (True, False)
    clock.now += 3600 * 10**9
    assert sum(bucket.take() for _ in range(50)) == 10


def test_zero_a_second_is_no_limit():
    """A registryPullQPS of 0 lets everything through."""
    bucket = TokenBucket(0, 1, Clock())
    assert all(bucket.take() for _ in range(100))


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("", None),
        ("serializeImagePulls: false", None),
        ("serializeImagePulls: true", 1),
        ("serializeImagePulls: false\nmaxParallelImagePulls: 3", 3),
        ("maxParallelImagePulls: 1", 1),
        ("maxParallelImagePulls: 4", 4),
    ],
)
def test_pulls_are_parallel_unless_someone_asked_otherwise(tmp_path, text, limit):
    """Only a written serializeImagePulls makes a queue; the number is the limit where it is set."""
    path = tmp_path / "kubelet.yaml"
    path.write_text(HEAD + text + "\n")
    assert parallel_limit(config.load([f"--config={path}", "--kubeconfig=/k"]).config) == limit


def test_a_gate_lets_in_so_many_in_order():
    """The next one enters when one has left, and no sooner."""

    async def main():
        gate, order, doors = Gate(2), [], [asyncio.Event() for _ in range(4)]

        async def visit(number):
            async with gate.place():
                order.append(number)
                await doors[number].wait()

        tasks = [asyncio.create_task(visit(n)) for n in range(4)]
        await settled()
        assert order == [0, 1]
        doors[1].set()
        await settled()
        assert order == [0, 1, 2]
        for door in doors:
            door.set()
        await asyncio.gather(*tasks)
        assert order == [0, 1, 2, 3]

    asyncio.run(main())


def test_what_is_under_way_is_shared():
    """Who asks meanwhile gets the same result; who asks afterwards begins anew."""

    async def main():
        flights, door, begun = Flights(), asyncio.Event(), []

        async def work():
            begun.append(1)
            await door.wait()
            return len(begun)

        tasks = [asyncio.create_task(flights.run("k", work)) for _ in range(3)]
        other = asyncio.create_task(flights.run("other", work))
        await settled()
        assert len(begun) == 2
        door.set()
        assert await asyncio.gather(*tasks, other) == [2, 2, 2, 2]
        assert len(flights) == 0
        assert await flights.run("k", work) == 3

    asyncio.run(main())


def test_one_who_leaves_takes_nothing_with_him():
    """A cancelled waiter leaves the work to the others; the last one's leaving ends it."""

    async def main():
        flights, door, ended = Flights(), asyncio.Event(), []

        async def work():
            try:
                await door.wait()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
            return "done"

        first, second = (asyncio.create_task(flights.run("k", work)) for _ in range(2))
        await settled()
        first.cancel()
        await settled()
        assert first.cancelled()
        assert ended == []
        second.cancel()
        await settled()
        assert ended == ["cancelled"]
        assert len(flights) == 0
        door.set()
        assert await flights.run("k", work) == "done"

    asyncio.run(main())


def test_an_error_reaches_everyone():
    """Those who share the work share its failure."""

    async def main():
        flights, door = Flights(), asyncio.Event()

        async def work():
            await door.wait()
            raise ValueError("no")

        tasks = [asyncio.create_task(flights.run("k", work)) for _ in range(2)]
        await settled()
        door.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(error) for error in found] == ["no", "no"]

    asyncio.run(main())
