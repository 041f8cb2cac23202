"""How soon something is asked for again, and from when on it counts that it was refused. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from procs.node.apiserver.types import ApiError

# A node may read what its pods refer to. The API server learns of a new pod a moment after it has
# told us: a refusal means nothing until then.
EARLY_SECONDS: Final = 0.05
FIRST_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 30.0
PATIENCE_NS: Final = 5 * 10**9
_MOST_ASKED_SECONDS: Final = 60.0  # of Retry-After
_MOST_DOUBLINGS: Final = 16


@dataclass(frozen=True, slots=True)
class Tries:
    """Failures in a row."""

    count: int = 0
    since_ns: int = 0  # monotonic: the first of them

    def failed(self, now_ns: int) -> Tries:
        """Return them with one more."""
        return Tries(self.count + 1, self.since_ns if self.count else now_ns)


def is_early(error: ApiError) -> bool:
    """Tell whether the API server refuses what it may grant when it has heard of the pod itself."""
    return error.forbidden or (error.not_found and error.details.get("kind") == "pod")


def delay(tries: Tries, error: ApiError) -> float:
    """Return for how many seconds to wait after a failure."""
    first = EARLY_SECONDS if is_early(error) else FIRST_SECONDS
    doublings = min(max(tries.count - 1, 0), _MOST_DOUBLINGS)
    asked = min(error.retry_after or 0.0, _MOST_ASKED_SECONDS)
    return max(min(first * 2.0**doublings, LONGEST_SECONDS), asked)


def counts(tries: Tries, error: ApiError, now_ns: int) -> bool:
    """Tell whether a failure is to be shown: what may pass is waited for first."""
    if is_early(error) or error.unauthorized or error.passing:
        return now_ns - tries.since_ns >= PATIENCE_NS
    return True
