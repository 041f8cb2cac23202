"""Calls that change the runtime, made so that a cancellation leaves no riddle."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_PATIENCE: Final = 2.0  # seconds that a call under way is awaited after its stage was cancelled


async def finish(call: Coroutine[Any, Any, T]) -> T:
    """Make a call; when cancelled, give it a moment to end, so that its outcome is known.

    A call that is given up in the middle leaves the runtime somewhere between before and after.
    """
    task = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=_PATIENCE)
        if not task.done():
            task.cancel()
        elif not task.cancelled():
            task.exception()  # it was seen: nobody else will ask
        raise
