"""When to go on after the API server could not be reached, or had too much to do. Pure.

After a failure nothing is sent for a while, then one call alone; when that works, all the others.
So neither a server that is away nor one that comes back meets a storm.
"""

from __future__ import annotations

from random import Random
from typing import Final

from procs.node.apiserver.types import ApiError

FIRST_SECONDS: Final = 0.2
MOST_SECONDS: Final = 10.0


def delay(failures: int, err: ApiError, random: Random) -> float:
    """Return how long to wait after so many failures in a row, in seconds."""
    longest = min(FIRST_SECONDS * 2.0 ** min(failures - 1, 10), MOST_SECONDS)
    return max(longest * random.uniform(0.5, 1.0), err.retry_after or 0.0)


def is_general(err: ApiError) -> bool:
    """Whether a failure would meet every other call too."""
    return err.status in (0, 429, 503)


class Pace:
    """How many calls may be under way."""

    def __init__(self, most: int, random: Random) -> None:
        self._most = most
        self._random = random
        self._failures = 0
        self._paused = False

    @property
    def room(self) -> int:
        """How many calls may be under way now."""
        if self._paused:
            return 0
        return 1 if self._failures else self._most

    def worked(self) -> None:
        """Take that the server answered."""
        self._failures = 0
        self._paused = False

    def failed(self, err: ApiError) -> float | None:
        """Take that it did not; how long to pause. None: there is a pause already."""
        if self._paused:
            return None
        self._paused = True
        self._failures += 1
        return delay(self._failures, err, self._random)

    def resume(self) -> None:
        """End the pause."""
        self._paused = False
