"""What happened to a pod, as a line of time: steps with their lengths. Pure.

Three sorts of records of the recorder have a length:

- ``step``: what a worker does, until its next step; an empty text is "nothing any more";
- ``<name>:before`` until ``<name>:after`` of the same process;
- the event Pulling until Pulled or Failed.

Everything else is a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from shm.recorder import Record

QUIET_NS: Final = 5_000_000_000  # nothing happened for so long: what follows is another run
TRACK: Final = 24  # characters of the line of time
_IDLE: Final = "waiting"  # a step that begins so is no work
_SAME: Final = "RECONCILE"  # a pod that is told again, as it was
_PULL_ENDS: Final = ("Pulled: ", "Failed: ")

_Key = tuple[str, str]  # process and name of what has a length


class Step(NamedTuple):
    """One line of the time line."""

    record: Record
    offset_ns: int  # since the first one
    delta_ns: int  # since the one before
    took_ns: int | None = None  # None: it is a moment, or not over yet
    open: bool = False  # it has begun and is not over


def opens(record: Record) -> _Key | None:
    """Return what a record begins, None if it is a moment."""
    if record.what == "step" and record.text:
        return record.kind, "step"
    if record.what.endswith(":before"):
        return record.kind, record.what.removesuffix(":before")
    if record.what == "event" and record.text.startswith("Pulling: "):
        return record.kind, "pull"
    return None


def closes(record: Record) -> _Key | None:
    """Return what a record ends, None if nothing."""
    if record.what == "step":
        return record.kind, "step"
    if record.what.endswith(":after"):
        return record.kind, record.what.removesuffix(":after")
    if record.what == "event" and record.text.startswith(_PULL_ENDS):
        return record.kind, "pull"
    return None


def runs(records: Sequence[Record]) -> list[list[Record]]:
    """Part records where the pod was changed by somebody, or was quiet with nothing under way."""
    found: list[list[Record]] = []
    under_way: set[_Key] = set()
    last_ns = 0
    for record in records:
        quiet = not under_way and record.mono_ns - last_ns >= QUIET_NS
        if not found or quiet or _changed(record):
            found.append([])
            under_way.clear()
        found[-1].append(record)
        last_ns = record.mono_ns
        under_way.discard(closes(record) or ("", ""))
        begun = opens(record)
        if begun and not record.text.startswith(_IDLE):
            under_way.add(begun)
    return found


def _changed(record: Record) -> bool:
    """Whether somebody wants something else of the pod from now on."""
    return record.what == "pod" and not record.text.startswith(_SAME)


def steps(records: Sequence[Record]) -> list[Step]:
    """Return the lines of a time line, each begin with its length."""
    took: dict[int, int] = {}  # index of the begin -> length
    begun: dict[_Key, int] = {}
    for index, record in enumerate(records):
        ended = closes(record)
        if ended in begun:
            start = begun.pop(ended)
            took[start] = record.mono_ns - records[start].mono_ns
        begins = opens(record)
        if begins:
            begun[begins] = index
    still = set(begun.values())
    lines, before = [], records[0].mono_ns if records else 0
    for index, record in enumerate(records):
        offset = record.mono_ns - records[0].mono_ns
        delta = record.mono_ns - before
        lines.append(Step(record, offset, delta, took.get(index), index in still))
        before = record.mono_ns
    return lines


def track(step: Step, total_ns: int, width: int = TRACK) -> str:
    """Draw one step on a line that is as long as all of them took."""
    scale = (width - 1) / total_ns if total_ns else 0
    start = round(step.offset_ns * scale)
    if step.open:
        return " " * start + "━" * (width - 1 - start) + "▶"
    if step.took_ns is None:
        return (" " * start + "·").ljust(width)
    end = round((step.offset_ns + step.took_ns) * scale)
    return (" " * start + "━" * max(1, end - start + 1)).ljust(width)[:width]


def milliseconds(nanoseconds: int) -> str:
    """Print a length in milliseconds, exactly enough."""
    value = nanoseconds / 1e6
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def as_json(step: Step, stamp: Callable[[Record], str]) -> dict[str, Any]:
    """Return a step for programs."""
    return {
        "time": stamp(step.record),
        "offset_ms": round(step.offset_ns / 1e6, 3),
        "delta_ms": round(step.delta_ns / 1e6, 3),
        "took_ms": None if step.took_ns is None else round(step.took_ns / 1e6, 3),
        "under_way": step.open,
        "process": step.record.kind,
        "what": step.record.what,
        "text": step.record.text,
    }
