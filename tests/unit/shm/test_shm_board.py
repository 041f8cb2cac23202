"""The board: what a process says about itself, as others read it."""

from __future__ import annotations

import os
import random
import struct
from dataclasses import replace

import pytest

from shm import board
from shm.board import MAX_COUNTERS, MAX_QUEUES, OVERFLOW, ROW_BYTES, RowWriter, parse_row, read_row

SECOND = 1_000_000_000


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock():
    """Return a clock at 1000 s."""
    return Clock()


@pytest.fixture
def row(tmp_path, clock):
    """Return a writer of a new row."""
    writer = RowWriter.create(tmp_path / "pleg", clock=clock, cpu_clock=lambda: clock.now // 10)
    yield writer
    writer.close()


def test_a_new_row_says_that_its_process_is_starting(tmp_path, row):
    """Before the first beat there is a pid and a start time, and nothing else."""
    del row
    seen = read_row(tmp_path / "pleg")
    assert (seen.pid, seen.started_ns) == (os.getpid(), 1000 * SECOND)
    assert (seen.phase, seen.operation, seen.beats, seen.beat_ns) == ("starting", "", 0, 0)
    assert (seen.counters, seen.queues, seen.cpu_millicores) == ({}, {}, 0.0)
    assert (tmp_path / "pleg").stat().st_size == ROW_BYTES


def test_everything_that_is_said_is_read(tmp_path, clock, row):
    """Beats, lag, phase, operation, pod, queues, counters and blame all arrive."""
    row.set_phase("running")
    clock.now += 5
    row.begin("relist", pod="uid-1")
    clock.now += 5
    row.beat(lag_ns=300)
    row.beat(lag_ns=200)
    row.beat(lag_ns=-1)  # the loop was early; that is no lag
    row.count("relists")
    row.count("relists", 4)
    row.depth("hints", 17)
    row.depth("hints", 3)
    row.blame("uid-9")
    seen = read_row(tmp_path / "pleg")
    assert (seen.phase, seen.operation, seen.pod) == ("running", "relist", "uid-1")
    assert seen.operation_since_ns == 1000 * SECOND + 5
    assert (seen.beats, seen.beat_ns) == (3, 1000 * SECOND + 10)
    assert (seen.lag_ns, seen.lag_max_ns) == (0, 300)
    assert (seen.counters, seen.queues, seen.blamed) == ({"relists": 5}, {"hints": 3}, "uid-9")
    row.end()
    ended = read_row(tmp_path / "pleg")
    assert (ended.operation, ended.pod, ended.operation_since_ns) == ("", "", 0)
    assert ended.blamed == "uid-9"


def test_a_row_is_read_by_descriptor_too(tmp_path, row):
    """Who holds the file open need not find it again, and keeps seeing the successor's row."""
    fd = os.open(tmp_path / "pleg", os.O_RDONLY)
    row.beat()
    assert read_row(fd).beats == 1
    RowWriter.create(tmp_path / "pleg").close()
    assert read_row(fd).beats == 0
    os.close(fd)


def test_counters_never_go_back(tmp_path, row):
    """A successor starts from its predecessor's counters, and from nothing else of it."""
    row.count("a", 5)
    row.depth("q", 2)
    row.begin("work", "uid")
    row.beat()
    row.blame("uid")
    successor = RowWriter.create(tmp_path / "pleg")
    successor.count("b")
    successor.count("a")
    seen = read_row(tmp_path / "pleg")
    assert seen.counters == {"a": 6, "b": 1}
    assert (seen.queues, seen.operation, seen.pod, seen.beats, seen.blamed) == ({}, "", "", 0, "")
    successor.close()


def test_cpu_is_told_from_one_look(tmp_path, clock, row):
    """The older sample stays 5 to 10 s old, so that one reading tells the recent CPU use."""
    for _ in range(300):
        clock.now += SECOND // 10
        row.beat()
        (older, _), (newer, _) = read_row(tmp_path / "pleg").cpu_samples
        assert clock.now - newer <= SECOND // 2
        if clock.now >= 1010 * SECOND:
            assert 5 * SECOND <= clock.now - older <= 10 * SECOND + SECOND // 10
    assert read_row(tmp_path / "pleg").cpu_millicores == pytest.approx(100, rel=0.01)


def test_more_names_than_there_is_room_for_are_counted_together(tmp_path, row):
    """The last place takes what finds no room, also after a restart; nothing fails."""
    for i in range(MAX_COUNTERS + 20):
        row.count(f"counter-{i}", 2)
    for i in range(MAX_QUEUES + 5):
        row.depth(f"queue-{i}", i)
    seen = read_row(tmp_path / "pleg")
    assert len(seen.counters) == MAX_COUNTERS
    assert seen.counters[OVERFLOW] == 2 * 21
    assert len(seen.queues) == MAX_QUEUES
    successor = RowWriter.create(tmp_path / "pleg")
    successor.count("another")
    successor.count("counter-0")
    after = read_row(tmp_path / "pleg").counters
    assert after == seen.counters | {OVERFLOW: 2 * 21 + 1, "counter-0": 3}
    successor.close()


@pytest.mark.parametrize("name", ["", "n" * 32, "ю" * 16])
def test_a_name_that_does_not_fit_is_refused(row, name):
    """A name is 1 to 31 bytes long; another is a mistake in the program."""
    with pytest.raises(ValueError, match="must have 1 to 31 bytes"):
        row.count(name)


def test_long_text_is_cut_at_a_character(tmp_path, row):
    """What does not fit ends in an ellipsis; strange text is shown as well as it can be."""
    row.set_phase("p" * 100)
    row.begin("ж" * 500, pod="u" * 1000)
    seen = read_row(tmp_path / "pleg")
    assert seen.phase == "p" * 28 + "…"
    assert seen.operation == "ж" * 98 + "…"
    assert seen.pod == "u" * 125 + "…"
    row.begin("bad \ud800 name")
    assert read_row(tmp_path / "pleg").operation == "bad ? name"


def test_a_torn_text_is_never_shown(tmp_path, row):
    """Where the newest text fails its CRC the previous one is shown, and then none."""
    row.begin("first")
    row.begin("second")
    data = bytearray((tmp_path / "pleg").read_bytes())
    for text, shown in ((b"second", "first"), (b"first", "")):
        at = data.index(text)
        data[at] ^= 1
        assert parse_row(bytes(data)).operation == shown


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * ROW_BYTES, b"\xff" * ROW_BYTES])
def test_what_is_not_a_row_is_none(tmp_path, content):
    """Short files and garbage are no row; a missing file, a directory and a bad descriptor too."""
    path = tmp_path / "row"
    path.write_bytes(content)
    assert read_row(path) is None
    assert read_row(tmp_path / "missing") is None
    assert read_row(tmp_path) is None
    assert read_row(999_999) is None
    RowWriter.create(path).close()
    assert read_row(path).counters == {}


def test_random_damage_is_never_an_exception(tmp_path, row):
    """A row with random bytes in it is a row or None, and a successor can always begin anew."""
    rng = random.Random(3)
    row.count("a", 3)
    row.depth("q", 3)
    row.begin("operation", "pod")
    pristine = (tmp_path / "pleg").read_bytes()
    for _ in range(2000):
        data = bytearray(pristine)
        for _ in range(rng.randrange(1, 40)):
            data[rng.randrange(rng.choice((256, ROW_BYTES)))] = rng.randrange(256)
        seen = parse_row(bytes(data))
        assert seen is None or seen.operation in ("operation", "")
        (tmp_path / "other").write_bytes(data)
        successor = RowWriter.create(tmp_path / "other")
        successor.count("a", 1 << 40)
        successor.close()
        assert read_row(tmp_path / "other").operation == ""


def test_a_wrong_pid_is_never_shown(tmp_path, row):
    """The pid and start time have a CRC: whoever signals a process by them must be sure."""
    del row
    data = bytearray((tmp_path / "pleg").read_bytes())
    struct.pack_into("=Q", data, 8, 1)
    assert parse_row(bytes(data)) is None


def test_everything_fits_into_one_page():
    """The last queue ends within the row, and every word is aligned."""
    end = board._QUEUES_AT + MAX_QUEUES * board._NAMED.size
    assert end <= ROW_BYTES
    assert all(at % 8 == 0 for at in (board._SAMPLES_AT, board._TEXT_AT, board._COUNTERS_AT, end))
    assert (
        board._TEXT_BYTES - board._TEXT.size
    ) >= 2 * board._POD_ROOM + board._PHASE_ROOM + board._OPERATION_ROOM


def test_a_row_without_samples_has_no_cpu(tmp_path, row):
    """Two samples at the same instant tell nothing, and do not divide by zero."""
    del row
    seen = read_row(tmp_path / "pleg")
    assert replace(seen, cpu_samples=((5, 5), (5, 9))).cpu_millicores == 0.0
