"""A failed call is logged; the same failure again, once a minute at most (R-8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubelet import logging as klog
from kubelet.cri.errors import Cancelled, CriError, NotFound, Unimplemented

log = klog.get_logger(__name__)

INTERVAL_NS: Final = 60 * 10**9
MAX_REMEMBERED: Final = 256  # texts; the oldest is forgotten first

# Answers rather than failures: what is gone, what the runtime does not have, what we gave up.
_EXPECTED: Final = (NotFound, Unimplemented, Cancelled)


class Complaints:
    """What was complained about within the last minute."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._said: dict[str, int] = {}
        self._unsaid: dict[str, int] = {}

    def about(self, error: CriError) -> None:
        """Log an error unless the same was logged a short while ago."""
        if isinstance(error, _EXPECTED):
            if log.enabled(4):
                log.v(4, "Runtime call was refused", err=error)
            return
        text, now = str(error), self._clock()
        said = self._said.get(text)
        if said is not None and now - said < INTERVAL_NS:
            self._unsaid[text] = self._unsaid.get(text, 0) + 1
            return
        self._remember(text, now)
        unsaid = self._unsaid.pop(text, 0)
        more = {"repeated": unsaid} if unsaid else {}
        log.error("Runtime call failed", err=error, **more)

    def _remember(self, text: str, now: int) -> None:
        self._said.pop(text, None)
        self._said[text] = now
        if len(self._said) > MAX_REMEMBERED:
            oldest = next(iter(self._said))
            del self._said[oldest]
            self._unsaid.pop(oldest, None)
