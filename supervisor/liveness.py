"""Is a silent child stuck, or has the machine just not let it run? Pure.

A child's heartbeat is a word that its own event loop advances. Silence alone proves little:

- When the supervisor itself was not running (a paused virtual machine, a starved machine), nobody
  was: its own gap excuses every child's silence in it.
- When the child wanted to run and the kernel did not let it (``/proc/<pid>/schedstat`` counts the
  time spent waiting for a CPU), it is starved, not stuck. Restarting it would only add load. It is
  excused up to a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """What a child's silence means."""

    ALIVE = "alive"
    STARVED = "starved"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class Silence:
    """What is known of a child at one look; seconds."""

    since_beat: float  # since its last heartbeat, or its start, or the end of the last excuse
    timeout: float
    watched: float = 0.0  # how long its run-queue delay has been watched
    run_delay: float = 0.0  # how much of that it waited for a CPU


STARVED_SHARE = 0.5
STARVED_LIMIT = 6.0  # times the time-out


def judge(silence: Silence) -> Verdict:
    """Decide on one child."""
    if silence.since_beat < silence.timeout:
        return Verdict.ALIVE
    starved = silence.watched > 0 and silence.run_delay >= STARVED_SHARE * silence.watched
    if starved and silence.since_beat < STARVED_LIMIT * silence.timeout:
        return Verdict.STARVED
    return Verdict.STUCK


def gap(previous: float, now: float, period: float) -> bool:
    """Whether the supervisor itself was away: it looks every ``period`` and came much later."""
    return now - previous > 2 * period + 0.5
