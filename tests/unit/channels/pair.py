"""Two ends of the channels on one loop, with permissions as a test wants them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass

from kubelet.channels.channels import Channels
from kubelet.channels.messages import Ping, Pong


@dataclass
class Pair:
    """``server`` is pleg and takes its peer for ``sender``; ``client`` is syncloop."""

    server: Channels
    client: Channels
    sender: str | None = "ctl"

    def named(self, _uid: int, _pid: int) -> str | None:
        return self.sender


@contextlib.asynccontextmanager
async def pair(run_dir, clock=None):
    """Start both ends; an unexpected error in either ends the block with it."""
    async with asyncio.TaskGroup() as group:
        both = Pair(None, None)
        more = {"clock": clock} if clock else {}
        both.server = Channels("pleg", run_dir, both.named, group.create_task, **more)
        both.client = Channels("syncloop", run_dir, both.named, group.create_task)
        await both.server.start()
        await both.client.start()
        try:
            yield both
        finally:
            await both.client.close()
            await both.server.close()


async def pong(_message: Ping, _caller) -> Pong:
    return Pong("pleg", os.getpid())


async def until(condition, seconds: float = 10.0) -> None:
    """Let the loop run until something is true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is awaited is in libzmq's threads
            await asyncio.sleep(0.001)


def nonzero(channels: Channels) -> dict[str, int]:
    return {name: n for name, n in channels.counters().items() if n}
