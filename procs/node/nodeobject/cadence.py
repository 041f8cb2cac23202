"""When the node's status is looked at and sent (N-10). Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

JITTER: Final = 0.04  # of the time between two looks
SPREAD: Final = 0.5  # of the time between two reports, after a change
FLOOR_NS: Final = 100 * 10**6  # between two looks at most this often, whatever happens (N-11)
FIRST_RETRY: Final = 0.1  # seconds; N-1, T-24
LAST_RETRY: Final = 7.0
LEASE_RETRY: Final = 0.2  # N-30

Uniform = Callable[[float, float], float]


@dataclass(frozen=True, slots=True)
class Reported:
    """When the status was last sent, and how long that may hold; moments are monotonic."""

    at_ns: int = 0
    holds_ns: int = 0

    def to_wire(self) -> list[int]:
        """Return it as a plain value."""
        return [self.at_ns, self.holds_ns]

    @classmethod
    def from_wire(cls, value: Any) -> Self:
        """Read it back; anything else is "never"."""
        match value:
            case [int(at_ns), int(holds_ns)]:
                return cls(at_ns, holds_ns)
        return cls()


def report_due(last: Reported, now_ns: int, *, changed: bool) -> bool:
    """Whether the status is to be sent: something changed, or it was not sent for long."""
    return changed or not last.at_ns or now_ns < last.at_ns or now_ns - last.at_ns >= last.holds_ns


def reported(now_ns: int, report_seconds: float, uniform: Uniform, *, changed: bool) -> Reported:
    """Return that the status was sent now.

    After a change the next report comes at a random time: what changed many nodes at once must
    not make them report together ever after.
    """
    share = uniform(-SPREAD, SPREAD) if changed else 0.0
    return Reported(now_ns, int(report_seconds * (1 + share) * 1e9))


def next_look(seconds: float, uniform: Uniform) -> float:
    """Return how long to wait for the next look, should nothing happen before."""
    return seconds * (1 + uniform(0.0, JITTER))


def next_retry(before: float, first: float = FIRST_RETRY, last: float = LAST_RETRY) -> float:
    """Return how long to wait after another failure; ``before`` is 0 after the first."""
    return min(last, before * 2) if before else first
