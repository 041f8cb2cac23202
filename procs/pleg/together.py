"""Several calls side by side: all their answers, or one plain error and none left under way."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")


async def both(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Await two calls of different sorts."""
    one, other = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        await asyncio.gather(one, other)
    finally:
        one.cancel()
        other.cancel()
    return one.result(), other.result()


async def each(calls: Iterable[Coroutine[Any, Any, A]]) -> list[A]:
    """Await calls of one sort."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
