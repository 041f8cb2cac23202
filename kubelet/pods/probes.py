"""The rows about probes: what they found, for ``syncloop``, and how far each is, for its successor.

Both tables are keyed by the container's ID. ``probes`` changes with a verdict, so that its readers
are woken by news alone; ``probing`` changes with every probe and wakes nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kubelet.pods.wire import Record

PROBES: Final = "probes"
PROBING: Final = "probing"

# Upper ends of the buckets of prober_probe_duration_seconds (B-17).
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ProbeKind(StrEnum):
    """What a probe is for (B-1)."""

    LIVENESS = "liveness"
    READINESS = "readiness"
    STARTUP = "startup"


class Verdict(StrEnum):
    """What is held of a container after as many equal results as the thresholds ask for (B-8)."""

    UNKNOWN = "unknown"
    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict of one probe."""

    verdict: Verdict
    since_ns: int = 0  # wall clock
    message: str = ""  # of a failure: what the last probe that led to it said


@dataclass(frozen=True, slots=True)
class ProbesRow(Record):
    """The verdicts on one container; a probe that it does not have is not there."""

    id: str
    pod: str  # uid
    container: str
    found: dict[str, Finding] = field(default_factory=dict)  # by kind


@dataclass(frozen=True, slots=True)
class Track:
    """How far one probe is."""

    due_ns: int = 0  # CLOCK_MONOTONIC: when the next one is due
    streak: int = 0  # equal results in a row
    failing: bool = False  # what those results are
    held: bool = False  # there is nothing more to be asked of this container (B-9)
    last_ns: int = 0  # wall clock: when the last one began
    took_ns: int = 0
    said: str = ""  # what the last one said, unless it succeeded
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    seconds: float = 0.0  # taken by those that are in the buckets
    buckets: tuple[int, ...] = ()  # one more than BUCKETS, not cumulated


@dataclass(frozen=True, slots=True)
class ProbingRow(Record):
    """The probes of one container, for the next prober and for the metrics."""

    id: str
    pod: str  # uid
    container: str
    name: str = ""  # of the pod
    namespace: str = ""
    tracks: dict[str, Track] = field(default_factory=dict)  # by kind
