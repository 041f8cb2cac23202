"""The recorder: what was written down, in order, whatever happened to the writer."""

from __future__ import annotations

import os
import random

import pytest

from shm.recorder import RING_BYTES, SLOT_BYTES, SLOTS, RecorderWriter, merge, read_records


@pytest.fixture
def ring(tmp_path):
    """Return a writer of a new ring with clocks that count."""
    ticks = iter(range(1, 1_000_000))
    writer = RecorderWriter.create(
        tmp_path / "pleg", clock=lambda: next(ticks), wall=lambda: 5_000_000
    )
    yield writer
    writer.close()


def test_records_come_back_in_order(tmp_path, ring):
    """Everything that was recorded is read, with its kind taken from the file's name."""
    ring.record("started")
    ring.record("hint", "runtime changed", pod="uid-1")
    first, second = read_records(tmp_path / "pleg")
    assert (first.seq, first.what, first.text, first.pod) == (1, "started", "", "")
    assert (second.seq, second.kind, second.pod) == (2, "pleg", "uid-1")
    assert (second.what, second.text) == ("hint", "runtime changed")
    assert (second.time_ns, first.mono_ns, second.mono_ns) == (5_000_000, 1, 2)


def test_after_and_limit(tmp_path, ring):
    """A follower asks for what is new; a screen asks for the last few."""
    for i in range(20):
        ring.record("n", str(i))
    path = tmp_path / "pleg"
    assert [r.seq for r in read_records(path, after=17)] == [18, 19, 20]
    assert read_records(path, after=20) == []
    assert [r.seq for r in read_records(path, limit=2)] == [19, 20]
    assert read_records(path, limit=0) == []
    assert [r.seq for r in read_records(path, after=5, limit=100)] == list(range(6, 21))


def test_the_ring_keeps_the_newest(tmp_path, ring):
    """When it is full the oldest go; a follower that was slow gets what is still there."""
    for i in range(SLOTS + 100):
        ring.record("n", str(i))
    records = read_records(tmp_path / "pleg")
    assert [r.seq for r in records] == list(range(101, SLOTS + 101))
    assert (tmp_path / "pleg").stat().st_size == RING_BYTES
    assert len(read_records(tmp_path / "pleg", after=50)) == SLOTS
    assert read_records(tmp_path / "pleg", after=SLOTS + 100) == []


def test_a_successor_goes_on_counting(tmp_path, ring):
    """The next process's first record follows the last one of the one before."""
    ring.record("started")
    ring.record("dying")
    successor = RecorderWriter.create(tmp_path / "pleg")
    assert successor.record("started") == 3
    assert [r.what for r in read_records(tmp_path / "pleg")] == ["started", "dying", "started"]
    successor.close()


def test_a_ring_begun_anew_is_shown_whole(tmp_path, ring):
    """A follower whose last number is ahead of the ring has seen another one."""
    ring.record("started")
    assert [r.seq for r in read_records(tmp_path / "pleg", after=500)] == [1]


def test_long_text_is_cut(tmp_path, ring):
    """Text, pod and word that do not fit end in an ellipsis, and never inside a character."""
    ring.record("w" * 100, "é" * 500, pod="p" * 200)
    (record,) = read_records(tmp_path / "pleg")
    assert record.what == "w" * 21 + "…"
    assert record.pod == "p" * 61 + "…"
    assert set(record.text) == {"é", "…"}
    assert len(record.text.encode()) <= SLOT_BYTES
    ring.record("odd", "\ud800")
    assert read_records(tmp_path / "pleg")[-1].text == "?"


def test_torn_records_are_left_out(tmp_path, ring):
    """A slot whose bytes do not fit its CRC is skipped, the others are shown."""
    for i in range(50):
        ring.record("n", f"text {i}", pod="uid")
    path = tmp_path / "pleg"
    pristine = path.read_bytes()
    rng = random.Random(1)
    for _ in range(300):
        data = bytearray(pristine)
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        path.write_bytes(data)
        records = read_records(path)
        assert len(records) >= 49
        assert all(r.text == f"text {r.seq - 1}" for r in records)
        RecorderWriter.create(path).close()


def test_a_follower_is_not_held_up_by_a_torn_record(tmp_path, ring):
    """A broken record right after the last one seen does not hide those behind it."""
    for i in range(5):
        ring.record("n", str(i))
    with (tmp_path / "pleg").open("r+b") as file:
        file.seek(4 * SLOT_BYTES + 12)
        file.write(b"\xff\xff")
    assert [r.seq for r in read_records(tmp_path / "pleg", after=3)] == [5]


@pytest.mark.parametrize("content", [b"", b"noise" * 1000, os.urandom(RING_BYTES + 5000)])
def test_what_is_not_a_ring_holds_nothing_and_can_become_one(tmp_path, content):
    """Garbage of any size is no records; a writer that finds it begins at 1."""
    path = tmp_path / "ring"
    path.write_bytes(content)
    assert read_records(path) == []
    writer = RecorderWriter.create(path)
    assert writer.record("started") == 1
    assert [r.what for r in read_records(path)] == ["started"]
    assert path.stat().st_size <= RING_BYTES
    writer.close()
    assert read_records(tmp_path / "missing") == []
    assert read_records(tmp_path) == []


def test_a_record_that_cannot_be_written_does_not_disturb(tmp_path, ring):
    """Where the file cannot be written the record is counted as lost, and the next one follows."""
    ring.record("one")
    good = os.dup(ring._fd)
    readonly = os.open(tmp_path / "pleg", os.O_RDONLY)
    os.dup2(readonly, ring._fd)
    assert ring.record("lost") == 1
    os.dup2(good, ring._fd)
    assert ring.record("two") == 2
    assert ring.lost == 1
    assert [r.what for r in read_records(tmp_path / "pleg")] == ["one", "two"]
    os.close(good)
    os.close(readonly)


def test_merge_orders_all_kinds_by_time(tmp_path):
    """What the processes did is told as one story; a follower continues it."""
    now = iter(range(100))
    rings = {
        kind: RecorderWriter.create(tmp_path / kind, clock=lambda: next(now))
        for kind in ("api", "pleg", "node")
    }
    (tmp_path / ".hidden").write_bytes(b"not a ring")
    for kind in ("pleg", "api", "node", "pleg", "api"):
        rings[kind].record("did")
    story = merge(tmp_path)
    assert [r.kind for r in story] == ["pleg", "api", "node", "pleg", "api"]
    assert [r.kind for r in merge(tmp_path, limit=2)] == ["pleg", "api"]
    seen = {r.kind: r.seq for r in story}
    assert merge(tmp_path, seen) == []
    rings["node"].record("more")
    assert [(r.kind, r.what) for r in merge(tmp_path, seen)] == [("node", "more")]
    assert merge(tmp_path / "missing") == []
    for ring in rings.values():
        ring.close()
