"""What of a log is wanted, as ``PodLogOptions`` of core/v1 says it."""

from __future__ import annotations

from dataclasses import dataclass

from kubelet.logs.records import Stream


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What of a log is wanted, and how it is shown; by default all of it, as it was written."""

    tail: int | None = None  # lines from the end
    since_ns: int | None = None  # wall clock: lines from then on
    limit_bytes: int | None = None  # of what is shown; it may end within a line
    timestamps: bool = False  # before each line
    stream: Stream | None = None  # of this one alone


def problems(options: LogOptions) -> list[str]:
    """Return a sentence for each value that makes no sense, in the words of the API."""
    found = []
    if options.tail is not None and options.tail < 0:
        found.append(
            f"tailLines: Invalid value: {options.tail}: must be greater than or equal to 0"
        )
    if options.limit_bytes is not None and options.limit_bytes < 1:
        found.append(f"limitBytes: Invalid value: {options.limit_bytes}: must be greater than 0")
    return found


def since(now_ns: int, seconds: int | None = None, time_ns: int | None = None) -> int | None:
    """Return from when on lines are wanted, of an age and a moment: the later one counts."""
    given = [] if seconds is None else [now_ns - seconds * 10**9]
    if time_ns is not None:
        given.append(time_ns)
    return max(given, default=None)
