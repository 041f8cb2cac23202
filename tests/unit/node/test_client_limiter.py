"""The token bucket, by table."""

from __future__ import annotations

import asyncio

import pytest

from procs.node.apiserver.limiter import Bucket, Limiter, Rate
from tests.unit.node.loopback import Time, story

MS = 1_000_000


@pytest.mark.parametrize(
    ("rate", "at", "waits"),
    [
        (Rate(10, 2), [0, 0, 0, 0], [0, 0, 100, 200]),  # each one behind the one before
        (Rate(10, 2), [0, 0, 100, 100], [0, 0, 0, 100]),  # refilled as time passes
        (Rate(10, 2), [0, 0, 10_000, 10_000, 10_000], [0, 0, 0, 0, 100]),  # never above the burst
        (Rate(10, 0), [0, 0], [0, 100]),  # one at least
        (Rate(0, 5), [0] * 20, [0] * 20),  # no limit
        (Rate(-1, 0), [0] * 20, [0] * 20),
        (Rate(10, 1), [100, 50, 200], [0, 100, 100]),  # a clock that goes back gives nothing
    ],
)
def test_tokens(rate, at, waits):
    """A rate is kept on average, and a burst at once."""
    bucket = Bucket(rate, at[0] * MS)
    assert [bucket.take(now * MS) // MS for now in at] == waits


def test_who_gives_up_leaves_its_token():
    """A cancelled wait does not slow down those that come later."""
    time = Time()
    limiter = Limiter(Rate(1, 1), time)  # sleeps for real, if nobody cancels it

    async def go():
        assert await limiter.turn() == 0
        waiting = asyncio.create_task(limiter.turn())
        await asyncio.sleep(0)
        assert limiter.waiting == 1
        waiting.cancel()
        await asyncio.wait({waiting})
        assert limiter.waiting == 0
        time.pass_(1)
        return await limiter.turn()

    assert story(go()) == 0


def test_turns_come_in_order():
    """Whoever asks first goes first."""
    limiter = Limiter(Rate(500, 1))
    order = []

    async def go():
        async def take(name):
            await limiter.turn()
            order.append(name)

        await asyncio.gather(*(take(n) for n in range(8)))

    story(go())
    assert order == list(range(8))
