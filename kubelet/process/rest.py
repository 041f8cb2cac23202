"""When a process gives memory back: after work, once it is over.

A burst of pods leaves free memory behind, and maps much of the libraries' code that is not run
again for a while. Returning it costs some milliseconds, so it must not be done while there is work,
nor more often than it is worth.
"""

from __future__ import annotations

from typing import Final

WORK_SECONDS: Final = 0.4  # of processor time since the last return, which costs a percent of it
QUIET_SECONDS: Final = 0.03  # of processor time in a tick: no more than an idle process uses
QUIET_TICKS: Final = 5


class Rest:
    """Tells from the processor time used, tick by tick, when work is over."""

    def __init__(self) -> None:
        self._returned = 0.0
        self._last = 0.0
        self._quiet = 0

    def begins(self, used: float) -> bool:
        """Whether to return memory now; ``used`` is the processor time so far, in seconds."""
        self._quiet = self._quiet + 1 if used - self._last <= QUIET_SECONDS else 0
        self._last = used
        if self._quiet < QUIET_TICKS or used - self._returned < WORK_SECONDS:
            return False
        self._returned = used
        return True
