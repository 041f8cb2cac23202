"""Writing where others write too: what collides is done again, for what is there then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from procs.node.apiserver.types import ApiError
from procs.node.kit import Kit

FIRST_WAIT: Final = 0.01  # seconds
LONGEST_WAIT: Final = 1.0
_GROWTH: Final = 3.0
_SECOND_NS: Final = 10**9

Sleep = Callable[[float], Awaitable[None]]


def collided(error: ApiError) -> bool:
    """Whether somebody else was faster."""
    return error.conflict


async def settle(
    kit: Kit,
    work: Callable[[], Awaitable[None]],
    deadline_ns: int,
    *,
    again: Callable[[ApiError], bool] = collided,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Do something, and again where that may help, for as long as whoever asked for it waits."""
    wait = FIRST_WAIT
    while True:
        try:
            return await work()
        except ApiError as err:
            late = kit.clock() + int(wait * _SECOND_NS) >= deadline_ns
            if late or not again(err):
                raise
        await sleep(wait)
        wait = min(wait * _GROWTH, LONGEST_WAIT)
