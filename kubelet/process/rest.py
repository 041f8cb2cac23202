"""When a process gives memory back: after work, once it is over.

A burst of pods leaves free memory behind, and maps much of the libraries' code that is not run
again for a while. Returning it costs some milliseconds, so it must not be done while there is work,
nor more often than it is worth.
"""

from __future__ import annotations

from typing import Final

WORK_SECONDS: Final = 0.4  # of processor time in busy ticks: a return costs a percent of it
BUSY_SECONDS: Final = 0.03  # of processor time in a tick: more than a process at rest ever uses
QUIET_TICKS: Final = 5


class Rest:
    """Tells from the processor time used, tick by tick, when work is over."""

    def __init__(self) -> None:
        self._worked = 0.0  # in busy ticks, since the last return
        self._last = 0.0
        self._quiet = 0

    def begins(self, used: float) -> bool:
        """Whether to return memory now; ``used`` is the processor time so far, in seconds."""
        spent, self._last = used - self._last, used
        if spent > BUSY_SECONDS:
            self._worked += spent
            self._quiet = 0
        else:
            self._quiet += 1
        if self._quiet < QUIET_TICKS or self._worked < WORK_SECONDS:
            return False
        self._worked = 0.0
        return True
