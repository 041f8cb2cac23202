"""Where time comes from: three things that belong together, so that a test can turn them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Alarm(Protocol):
    """Something that will ring."""

    def cancel(self) -> None:
        """Have it not ring."""


def _later(seconds: float, ring: Callable[[], None]) -> Alarm:
    return asyncio.get_running_loop().call_later(seconds, ring)


@dataclass(frozen=True, slots=True)
class Clock:
    """The time, in nanoseconds, and a way to be called at one."""

    mono: Callable[[], int] = time.monotonic_ns
    wall: Callable[[], int] = time.time_ns
    later: Callable[[float, Callable[[], None]], Alarm] = _later
