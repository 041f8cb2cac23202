"""How long to wait before what failed is tried again. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

FIRST: Final = 0.2  # seconds
LONGEST: Final = 30.0
# A server that is starting again is to be found soon; a refused connection costs nobody much.
LONGEST_UNREACHABLE: Final = 5.0
HEALTHY: Final = 60.0  # so long without a failure wipes the slate
SETTLED: Final = 10.0  # so long without a failure makes the first retry come at once
JITTER: Final = 0.5  # so much of a wait is chance: nodes must not come in step


@dataclass(slots=True)
class Backoff:
    """The waits of one thing that is tried again and again."""

    random: random.Random
    delay: float = 0.0  # of the wait before, without its jitter

    def failed(self, lived: float, *, unreachable: bool = False, least: float = 0.0) -> float:
        """Return the seconds to wait, after it had worked for ``lived`` seconds.

        ``least`` is what the server asked for.
        """
        if lived >= HEALTHY:
            self.delay = 0.0
        if lived >= SETTLED and self.delay == 0.0:
            self.delay = FIRST / 2  # the next one waits for FIRST
            return least
        longest = LONGEST_UNREACHABLE if unreachable else LONGEST
        self.delay = min(longest, max(FIRST, self.delay * 2))
        return max(least, self.delay * (1 - JITTER * self.random.random()))

    def healthy(self, lived: float) -> None:
        """Take that it has worked for so many seconds, and still does or ended well."""
        if lived >= HEALTHY:
            self.delay = 0.0
