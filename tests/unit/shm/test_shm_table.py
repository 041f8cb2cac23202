"""Tables: what is put is what is read, by whom and for how long soever."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest

from shm.table import (
    BadKey,
    EntryBusy,
    Reader,
    TableFull,
    TableLocked,
    TableUnavailable,
    Writer,
)

KIB = 1024


def test_a_first_writer_makes_an_empty_table_closed_to_others(tables, declaration):
    """A table that was not there is made, small, with mode 0600 and without a word of alarm."""
    writer = Writer.attach(tables, declaration)
    assert (writer.fresh, writer.reason, len(writer)) == (True, None, 0)
    status = (tables / "example").stat()
    assert status.st_mode & 0o777 == 0o600
    assert status.st_size == 64 * KIB
    assert os.listdir(tables) == ["example"]
    writer.close()


def test_put_get_delete(tables, declaration):
    """A reader sees each change as soon as it is made, with its stamp and generation."""
    writer = Writer.attach(tables, declaration)
    reader = Reader.attach(tables, declaration)
    first = writer.put("a", b"one", 11)
    assert reader.get("a") == ("a", b"one", 11, first)
    second = writer.put("a", b"two", 12)
    assert second == first + 1 == reader.generation
    assert reader.get("a") == writer.get("a") == ("a", b"two", 12, second)
    assert writer.delete("a")
    assert not writer.delete("a")
    assert reader.get("a") is None
    assert writer.get("a") is None
    reader.close()
    writer.close()


def test_a_slot_taken_by_another_key_never_shows_the_old_one(tables, declaration):
    """After a delete, the slot's next key is not mistaken for the one that a reader remembers."""
    writer = Writer.attach(tables, declaration)
    reader = Reader.attach(tables, declaration)
    writer.put("old", b"old value")
    assert reader.get("old")
    writer.delete("old")
    writer.put("new", b"new value")
    assert reader.get("old") is None
    assert reader.get("new").payload == b"new value"
    writer.put("old", b"back again")
    assert reader.get("old").payload == b"back again"
    assert sorted(reader.keys()) == ["new", "old"]
    reader.close()
    writer.close()


def test_the_next_writer_goes_on_with_what_is_there(tables, declaration):
    """Entries and generations survive their writer."""
    writer = Writer.attach(tables, declaration)
    for i in range(300):
        writer.put(f"pod-{i}", b"x" * i, i)
    generation = writer.generation
    writer.close()
    writer = Writer.attach(tables, declaration)
    assert (writer.fresh, writer.reason, writer.generation) == (False, None, generation)
    assert [writer.get(f"pod-{i}").payload for i in range(300)] == [b"x" * i for i in range(300)]
    assert writer.put("pod-1", b"") == generation + 1
    assert writer.verify() is None
    writer.close()


def test_2500_entries_of_16_kib(tables, declaration):
    """A full node: every entry is there, twice rewritten, and a reader follows the growth."""
    big = replace(declaration, max_bytes=256 << 20)
    writer = Writer.attach(tables, big)
    reader = Reader.attach(tables, big)
    for turn in (1, 2):
        for i in range(2500):
            writer.put(f"pod-{i}", bytes([i % 251, turn]) * (8 * KIB), i)
    assert len(reader) == 2500
    for entry in reader.items():
        assert entry.payload == bytes([entry.stamp_ns % 251, 2]) * (8 * KIB)
    assert writer.size <= 128 << 20
    reader.close()
    writer.close()


def test_years_of_churn_do_not_grow_the_table(tables, declaration):
    """Entries that grow, shrink, go and come leave the file at what they need at their largest."""
    rng = random.Random(7)
    writer = Writer.attach(tables, declaration)
    keys = [f"pod-{i}" for i in range(100)]
    sizes = []
    for step in range(30_000):
        key = rng.choice(keys)
        if rng.random() < 0.2:
            writer.delete(key)
        else:
            writer.put(key, bytes(rng.choice((10, 500, 3_000, 16_000))))
        if step % 5_000 == 4_999:
            sizes.append(writer.size)
    assert sizes[-1] <= 1.3 * sizes[1]
    assert sizes[-1] <= 100 * 2 * 16 * KIB * 2
    assert writer.verify() is None
    writer.close()


def test_pods_that_come_and_go_reuse_their_slots(tables, declaration):
    """Ten thousand different keys, fifty at a time, need no more index than fifty do."""
    writer = Writer.attach(tables, declaration)
    reader = Reader.attach(tables, declaration)
    for i in range(10_000):
        writer.put(f"pod-{i}", b"x" * 1000)
        if i >= 50:
            writer.delete(f"pod-{i - 50}")
    assert writer.size <= 256 * KIB
    assert sorted(reader.keys()) == sorted(f"pod-{i}" for i in range(9_950, 10_000))
    reader.close()
    writer.close()


def test_changed_since_tells_what_changed_and_what_is_gone(tables, declaration):
    """A reader that compares generations misses nothing and is told nothing twice."""
    writer = Writer.attach(tables, declaration)
    reader = Reader.attach(tables, declaration)
    for key in "abcd":
        writer.put(key, key.encode())
    seen, keys = reader.changed_since(0)
    assert sorted(keys) == list("abcd")
    assert reader.changed_since(seen) == (seen, [])
    writer.put("b", b"new")
    writer.delete("c")
    reader.get("b")  # the key set is brought up to date by a get; the removal is still told
    later, keys = reader.changed_since(seen)
    assert (later, sorted(keys)) == (seen + 2, ["b", "c"])
    assert reader.changed_since(later) == (later, [])
    assert sorted(reader.changed_since(seen)[1]) == ["b", "c"]
    writer.put("e", b"in c's slot")
    writer.put("c", b"and c again")
    assert sorted(reader.changed_since(later)[1]) == ["c", "e"]
    reader.close()
    writer.close()


def test_a_removal_hidden_by_the_slots_next_key_is_told(tables, declaration):
    """Between two looks a key went and another took its slot: both are reported."""
    writer = Writer.attach(tables, declaration)
    reader = Reader.attach(tables, declaration)
    writer.put("gone", b"1")
    seen, _ = reader.changed_since(0)
    writer.delete("gone")
    writer.put("next", b"2")
    _, keys = reader.changed_since(seen)
    assert sorted(keys) == ["gone", "next"]
    reader.close()
    writer.close()


def test_removals_are_remembered_within_bounds(tables, declaration):
    """A reader that never asks does not grow for ever."""
    writer = Writer.attach(tables, declaration)
    reader = Reader.attach(tables, declaration)
    for i in range(20_000):
        writer.put(f"pod-{i}", b"")
        reader.get(f"pod-{i}")
        writer.delete(f"pod-{i}")
    assert reader.get("pod-5") is None
    assert 4096 <= len(reader._removed) <= 2 * 4096
    reader.close()
    writer.close()


@pytest.mark.parametrize("key", ["", "k" * 385, "\ud800"])
def test_a_key_that_does_not_fit_is_refused_by_name(tables, declaration, key):
    """An empty, too long or undecodable key is an error that names the table."""
    writer = Writer.attach(tables, declaration)
    with pytest.raises(BadKey, match="table example: key"):
        writer.put(key, b"")
    writer.put("k" * 384, b"fits")
    assert len(writer) == 1
    writer.close()


def test_wrong_types_and_stamps_are_refused_before_anything_changes(tables, declaration):
    """A payload that is not bytes and a stamp out of range are errors that cost nothing."""
    writer = Writer.attach(tables, declaration)
    with pytest.raises(TypeError, match="a payload is bytes, not str"):
        writer.put("a", "text")
    with pytest.raises(ValueError, match="stamp -1"):
        writer.put("a", b"", -1)
    assert len(writer) == 0
    assert writer.verify() is None
    writer.close()


def test_a_full_table_is_an_error_that_names_it(tables, declaration):
    """At its limit a table refuses the put, says what is used, and keeps all that it holds."""
    writer = Writer.attach(tables, replace(declaration, max_bytes=1 << 20))
    reader = Reader.attach(tables, declaration)

    def fill():
        for i in range(1000):
            writer.put(f"pod-{i}", bytes([i]) * 8000)

    with pytest.raises(TableFull, match=r"table example: full: .* of 1048576 bytes used") as caught:
        fill()
    assert caught.value.limit == 1 << 20
    assert len(writer) > 100
    assert all(reader.get(f"pod-{i}").payload == bytes([i]) * 8000 for i in range(len(writer)))
    writer.delete("pod-0")
    writer.put("other", b"y" * 8000)
    assert writer.verify() is None
    assert (tables / "example").stat().st_size <= 1 << 20
    reader.close()
    writer.close()


def test_before_it_is_full_a_table_gives_back_the_buffers_that_do_not_count(tables, declaration):
    """Entries written many times hold two buffers; the second ones make room for new entries."""
    writer = Writer.attach(tables, replace(declaration, max_bytes=1 << 20))
    for _ in range(3):
        for i in range(50):
            writer.put(f"pod-{i}", b"x" * 8000)
    for i in range(50, 100):
        writer.put(f"pod-{i}", b"x" * 8000)
    assert writer.verify() is None
    assert all(writer.get(f"pod-{i}").payload == b"x" * 8000 for i in range(100))
    writer.close()


FILL = """
import resource, sys
from pathlib import Path
from shm.table import TableFull, Writer
from shm.tables import Declaration
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
writer = Writer.attach(Path(sys.argv[1]), Declaration("example", "", (), "", "", 1, 64 << 20))
try:
    for i in range(1000):
        writer.put(f"pod-{i}", bytes(4000))
except TableFull as err:
    print(err)
print(writer.verify(), len(writer) > 20)
"""


def test_a_full_file_system_is_the_same_error(tables):
    """Where the file cannot grow, the put fails; the process does not die of a signal."""
    command = [sys.executable, "-c", FILL, str(tables)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    assert "table example: full: no room" in output
    assert "the file system cannot take more" in output
    assert output.endswith("None True\n")


def test_a_second_writer_is_told_who_the_first_is(tables, declaration):
    """Two writers are an error that names the table and the process that has it."""
    writer = Writer.attach(tables, declaration)
    with pytest.raises(TableLocked, match=f"table example: process {os.getpid()} is writing it"):
        Writer.attach(tables, declaration, wait=0.05)
    writer.close()
    Writer.attach(tables, declaration).close()


def test_a_reader_without_a_table_is_told_so(tables, declaration):
    """A reader that comes first gets an error that names the table; it does not make one."""
    with pytest.raises(TableUnavailable, match=r"table example: .*example does not exist \(yet\)"):
        Reader.attach(tables, declaration)
    assert os.listdir(tables) == []


def test_a_writer_without_a_directory_is_told_so(tables, declaration):
    """A missing run directory is an error that names the table and the path."""
    with pytest.raises(TableUnavailable, match=r"table example: cannot create .*No such file"):
        Writer.attach(tables / "missing", declaration)


def test_readers_cannot_write(tables, declaration):
    """The mapping of a reader is read-only, and so is its descriptor."""
    writer = Writer.attach(tables, declaration)
    reader = Reader.attach(tables, declaration)
    with pytest.raises(TypeError, match="read-only"):
        reader._view[0] = 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(reader._fd, b"x", 0)
    reader.close()
    writer.close()


def test_a_reader_finds_the_file_that_replaced_its_own(tables, declaration):
    """After a rebuild, refresh moves to the new file and reports the old keys as gone."""
    writer = Writer.attach(tables, declaration)
    writer.put("a", b"1")
    writer.put("b", b"2")
    writer.close()
    reader = Reader.attach(tables, declaration)
    seen, _ = reader.changed_since(0)
    assert reader.refresh() is False
    newer = replace(declaration, schema=2)
    writer = Writer.attach(tables, newer)
    assert writer.reason == "table example: schema version 1, this is 2; rebuilt empty"
    writer.put("b", b"3")
    assert reader.get("a").payload == b"1"  # what was mapped stays readable
    with pytest.raises(TableUnavailable, match="schema version 2, this is 1"):
        reader.refresh()
    reader._declaration = newer
    assert reader.refresh() is True
    later, keys = reader.changed_since(seen)
    assert (sorted(keys), later > seen) == (["a", "b"], True)
    assert reader.get("a") is None
    assert reader.get("b").payload == b"3"
    assert reader.refresh() is False
    reader.close()
    writer.close()


def test_a_reader_notices_that_its_file_was_removed(tables, declaration):
    """A file that was unlinked under a reader is replaced by the next one of that name."""
    writer = Writer.attach(tables, declaration)
    writer.put("a", b"1")
    reader = Reader.attach(tables, declaration)
    (tables / "example").unlink()
    writer.close()
    with pytest.raises(TableUnavailable, match="does not exist"):
        reader.refresh()
    assert reader.get("a").payload == b"1"
    writer = Writer.attach(tables, declaration)
    writer.put("z", b"9")
    assert reader.refresh() is True
    assert reader.keys() == ["z"]
    reader.close()
    writer.close()


def test_leftovers_of_a_killed_creator_are_swept(tables, declaration):
    """A file that never got its name is removed by the next writer that has the lock."""
    Writer.attach(tables, declaration).close()
    (tables / ".example.12345.new").write_bytes(b"half")
    Writer.attach(tables, declaration).close()
    assert os.listdir(tables) == ["example"]


def test_an_entry_rewritten_at_every_look_is_reported_not_waited_for(tables, declaration):
    """A reader that is overtaken each time gives up after a bounded number of attempts."""
    writer = Writer.attach(tables, declaration)
    writer.put("a", b"x")

    class Overtaken(Reader):
        """Sees two puts between loading the sequence word and copying, at every attempt."""

        def _read(self, key, place, seq):
            writer.put("a", b"y")
            writer.put("a", b"z")
            return super()._read(key, place, seq)

    reader = Overtaken.attach(tables, declaration)
    reader._index = -2  # takes the patient path
    with pytest.raises(EntryBusy, match="table example: entry a changed during each of 1000"):
        reader.get("a")
    reader.close()
    writer.close()


def test_closing_leaves_no_descriptor_behind(tables, declaration):
    """Attaching, growing, refreshing and closing leave the process with the files it had."""
    before = sorted(os.listdir("/proc/self/fd"))
    writer = Writer.attach(tables, declaration)
    reader = Reader.attach(tables, declaration)
    for i in range(500):
        writer.put(f"pod-{i}", bytes(1000))
        reader.get(f"pod-{i}")
    reader.close()
    writer.close()
    assert sorted(os.listdir("/proc/self/fd")) == before
