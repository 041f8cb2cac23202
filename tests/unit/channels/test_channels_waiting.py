"""Waiting for an entry, woken by hints and ticks."""

from __future__ import annotations

import asyncio

import pytest

from kubelet.channels.waiting import Waiters


class Entry:
    """Something that appears later, and counts how often it was looked for."""

    def __init__(self):
        self.value = None
        self.looks = 0

    def check(self):
        self.looks += 1
        return self.value


def test_what_is_there_is_returned_at_once():
    """No hint is needed for an entry that is new enough already."""

    async def story():
        entry = Entry()
        entry.value = "here"
        assert await Waiters().wait("runtime", "uid", entry.check, 5) == "here"
        assert entry.looks == 1

    asyncio.run(story())


@pytest.mark.parametrize("key", ["uid", "*"])
def test_a_hint_wakes_the_waiter(key):
    """The check is evaluated at a hint for the key or the whole table, and not in between."""

    async def story():
        waiters, entry = Waiters(), Entry()
        waiting = asyncio.create_task(waiters.wait("runtime", "uid", entry.check, 5))
        await asyncio.sleep(0)
        waiters.notify("runtime", key)
        waiters.notify("runtime", "other")
        waiters.notify("pods", key)
        assert (entry.looks, waiting.done(), len(waiters)) == (2, False, 1)
        entry.value = 7
        waiters.notify("runtime", key)
        assert await waiting == 7
        assert len(waiters) == 0

    asyncio.run(story())


def test_a_tick_makes_up_for_a_lost_hint():
    """Each tick looks for everyone."""

    async def story():
        waiters, entries = Waiters(), [Entry() for _ in range(3)]
        waiting = [
            asyncio.create_task(waiters.wait("runtime", str(i), e.check, 5))
            for i, e in enumerate(entries)
        ]
        await asyncio.sleep(0)
        for entry in entries:
            entry.value = 1
        waiters.tick()
        assert await asyncio.gather(*waiting) == [1, 1, 1]

    asyncio.run(story())


def test_all_who_wait_for_a_key_are_woken():
    """Two tasks may wait for the same entry with different needs."""

    async def story():
        waiters, first, second = Waiters(), Entry(), Entry()
        one = asyncio.create_task(waiters.wait("runtime", "uid", first.check, 5))
        two = asyncio.create_task(waiters.wait("runtime", "uid", second.check, 5))
        await asyncio.sleep(0)
        first.value = 1
        waiters.notify("runtime", "uid")
        assert await one == 1
        assert (two.done(), len(waiters)) == (False, 1)
        second.value = 2
        waiters.notify("runtime", "uid")
        assert await two == 2

    asyncio.run(story())


def test_the_time_out_names_what_was_awaited():
    """A wait ends with TimeoutError and leaves nothing behind."""

    async def story():
        waiters = Waiters()
        with pytest.raises(TimeoutError, match=r"runtime/uid was not as needed within 0\.01 s"):
            await waiters.wait("runtime", "uid", lambda: None, 0.01)
        assert len(waiters) == 0

    asyncio.run(story())


def test_an_error_in_a_check_is_for_its_own_waiter():
    """One broken check neither breaks the notifier nor the other waiters."""

    async def story():
        waiters, entry = Waiters(), Entry()
        state = {"bad": False}

        def broken():
            if state["bad"]:
                raise KeyError("gone")

        first = asyncio.create_task(waiters.wait("runtime", "uid", broken, 5))
        second = asyncio.create_task(waiters.wait("runtime", "uid", entry.check, 5))
        await asyncio.sleep(0)
        state["bad"], entry.value = True, 1
        waiters.notify("runtime", "uid")
        with pytest.raises(KeyError):
            await first
        assert await second == 1

    asyncio.run(story())


def test_a_cancelled_waiter_leaves_nothing_behind():
    """Cancellation removes the waiter, and a later hint is harmless."""

    async def story():
        waiters = Waiters()
        waiting = asyncio.create_task(waiters.wait("runtime", "uid", lambda: None, 5))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(waiters) == 0
        waiters.notify("runtime", "uid")

    asyncio.run(story())
