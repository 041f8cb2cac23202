"""What the calls to the API server were and took (``rest_client_*``).

The full counts, by code and method, are kept here for whoever shows them; the board's row, which
is small, gets the few that an operator looks for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from procs.node.apiserver.types import Purpose

NO_ANSWER: Final = "<error>"  # the code of a call that was not answered
BUCKETS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_MILLISECOND_NS: Final = 1_000_000

Count = Callable[[str, int], None]


@dataclass(slots=True)
class Histogram:
    """How often something took how long."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one more."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds

    @property
    def total(self) -> int:
        """How many there were."""
        return sum(self.counts)


def _uncounted(_name: str, _n: int) -> None:
    """Count nowhere."""


@dataclass(slots=True)
class RestMetrics:
    """The counts of one client; ``count`` adds to the board's row."""

    count: Count = _uncounted
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)  # code, method
    durations: dict[str, Histogram] = field(default_factory=dict)  # by method
    waits: dict[Purpose, Histogram] = field(default_factory=dict)  # for a turn
    retries: Counter[str] = field(default_factory=Counter)  # by code

    def called(self, method: str, status: int, seconds: float) -> None:
        """Count a call; status 0 had no answer."""
        self.requests[str(status) if status else NO_ANSWER, method] += 1
        self.durations.setdefault(method, Histogram()).add(seconds)
        self.count("api_requests", 1)
        if status == 0:
            self.count("api_unanswered", 1)
        elif status >= 400:
            self.count(f"api_answers_{status // 100}xx", 1)

    def waited(self, purpose: Purpose, nanoseconds: int) -> None:
        """Count the wait for a turn."""
        self.waits.setdefault(purpose, Histogram()).add(nanoseconds / 1e9)
        if nanoseconds:
            self.count(f"api_throttled_ms_{purpose.value}", nanoseconds // _MILLISECOND_NS)

    def retried(self, status: int) -> None:
        """Count a call that is made again because the server asked for it."""
        self.retries[str(status)] += 1
        self.count("api_retries", 1)
