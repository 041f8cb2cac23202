"""Whoever was refused because something hangs hears when it has come back, whoever began that."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from procs.volumes.errors import HangingError
from procs.volumes.operations.locks import Holder, Locks
from procs.volumes.operations.runner import Operations

KEEPER = (sys.executable, "-c", "input()")


@pytest.fixture
def directory(tmp_path):
    """Where locks are."""
    return str(tmp_path / "operations")


def held(directory, key="k"):
    """A lock that a process of an earlier life holds; it ends with its standard input."""
    fd = Locks(directory).take(key, Holder("mount", 1))
    keeper = subprocess.Popen(KEEPER, stdin=subprocess.PIPE, pass_fds=[fd])
    os.close(fd)  # as the death of who took it does
    return keeper


def story(directory, act):
    """Run a story with operations."""

    async def tell():
        ops = Operations(directory)
        try:
            async with asyncio.timeout(30):
                return await act(ops)
        finally:
            ops.close()

    return asyncio.run(tell())


def test_the_end_of_what_an_earlier_life_left_is_heard(directory):
    """Who was refused is called when that process is gone, and is not refused again."""
    keeper = held(directory)

    async def act(ops):
        free = asyncio.Event()
        with pytest.raises(HangingError) as refused:
            await ops.command(["true"], key="k")
        ops.when_free(refused.value.key, act, free.set)
        with pytest.raises(HangingError):  # a look at the lock is not its end
            await ops.command(["true"], key="k")
        await asyncio.sleep(0)
        assert not free.is_set()
        keeper.communicate()
        await free.wait()
        assert await ops.command(["echo", "free"], key="k") == "free"

    story(directory, act)
    assert os.listdir(directory) == []


def test_a_lock_that_is_free_by_then_is_told_at_once(directory):
    """Between being refused and asking to be called, what hung may have come back."""
    held(directory).communicate()

    async def act(ops):
        free = asyncio.Event()
        ops.when_free("k", act, free.set)
        await free.wait()
        ops.when_free("never held", act, free.clear)
        while free.is_set():  # noqa: ASYNC110 - it is called within a turn of the loop
            await asyncio.sleep(0)

    story(directory, act)


def test_each_who_waits_is_called_once(directory):
    """Asking again replaces the call; others are called besides, and other locks are not heard."""
    keepers = [held(directory), held(directory, "other")]
    told = []

    async def act(ops):
        free = asyncio.Event()
        first, second = object(), object()
        ops.when_free("other", first, lambda: told.append("other"))
        ops.when_free("k", first, lambda: told.append("replaced"))
        ops.when_free("k", first, lambda: told.append("first"))
        ops.when_free("k", second, lambda: told.append("second"))
        ops.when_free("k", act, free.set)
        keepers[0].communicate()
        await free.wait()

    story(directory, act)
    keepers[1].communicate()
    assert sorted(told) == ["first", "second"]
