"""The time line of a pod: lengths, runs and bars, purely."""

from __future__ import annotations

import pytest

from kubeletctl.timeline import Step, milliseconds, runs, steps, track
from shm.recorder import Record

MS = 10**6


def record(at_ms: float, what: str, text: str = "", kind: str = "syncloop") -> Record:
    return Record(1, 0, int(at_ms * MS), kind, "uid", what, text)


def lengths(*records: Record) -> list[float | str | None]:
    return [
        "open" if one.open else None if one.took_ns is None else one.took_ns / MS
        for one in steps(records)
    ]


def test_offsets_and_deltas_count_from_the_first_and_the_one_before():
    """Both are in the order of the records."""
    found = steps([record(100, "a"), record(130, "b"), record(135, "c")])
    assert [one.offset_ns // MS for one in found] == [0, 30, 35]
    assert [one.delta_ns // MS for one in found] == [0, 30, 5]
    assert steps([]) == []


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([record(0, "step", "a"), record(5, "step", "b"), record(9, "step")], [5, 4, None]),
        ([record(0, "step", "a")], ["open"]),
        ([record(0, "create:before"), record(7, "x"), record(9, "create:after")], [9, None, None]),
        ([record(0, "create:after")], [None]),
        ([record(0, "create:before"), record(1, "start:after")], ["open", None]),
        ([record(0, "a:before"), record(3, "a:after", "", "pleg")], ["open", None]),
        (
            [record(0, "event", "Pulling: image x"), record(80, "event", "Pulled: image x")],
            [80, None],
        ),
        ([record(0, "event", "Pulling: x"), record(8, "event", "Failed: x")], [8, None]),
        ([record(0, "event", "Created: c")], [None]),
    ],
)
def test_what_begins_and_ends_has_a_length(records: list[Record], expected: list):
    """Steps last until the next one, pairs until their end, of the same process."""
    assert lengths(*records) == expected


@pytest.mark.parametrize(
    ("records", "sizes"),
    [
        ([], []),
        ([record(0, "a"), record(4999, "b")], [2]),
        ([record(0, "a"), record(5000, "b")], [1, 1]),
        ([record(0, "pull:before"), record(20_000, "pull:after"), record(20_100, "a")], [3]),
        ([record(0, "event", "Pulling: x"), record(20_000, "event", "Pulled: x")], [2]),
        ([record(0, "step", "running the hook"), record(20_000, "step")], [2]),
        ([record(0, "step", "waiting for back-off"), record(20_000, "a")], [1, 1]),
        ([record(0, "a"), record(1, "pod", "ADD default/x from file"), record(2, "b")], [1, 2]),
        ([record(0, "a"), record(1, "pod", "RECONCILE default/x from api")], [2]),
    ],
)
def test_runs_are_parted_by_changes_and_by_quiet(records: list[Record], sizes: list[int]):
    """Five quiet seconds part two runs, unless something is under way that is not a wait."""
    assert [len(run) for run in runs(records)] == sizes


@pytest.mark.parametrize(
    ("step", "drawn"),
    [
        (Step(record(0, "a"), 0, 0), "·         "),
        (Step(record(0, "a"), 100 * MS, 0), "         ·"),
        (Step(record(0, "a"), 0, 0, 100 * MS), "━━━━━━━━━━"),
        (Step(record(0, "a"), 50 * MS, 0, 0), "    ━     "),
        (Step(record(0, "a"), 50 * MS, 0, None, open=True), "    ━━━━━▶"),
    ],
)
def test_bars_stand_where_the_time_was(step: Step, drawn: str):
    """A moment is a dot, a length a bar, what is not over an arrow; all have one width."""
    assert track(step, 100 * MS, 10) == drawn
    assert len(track(step, 0, 10)) == 10


@pytest.mark.parametrize(
    ("value", "text"), [(1_234_567, "1.23"), (12_345_678, "12.3"), (1_234_567_890, "1,235")]
)
def test_milliseconds_have_enough_digits(value: int, text: str):
    """Three digits or more."""
    assert milliseconds(value) == text
