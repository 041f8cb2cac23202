"""A writer that dies at each of its stores in turn, and what the next one finds.

The real kills, at random instants, are in tests/processes; here every store is hit once. A store
of many bytes is left half done.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest

from shm.table import Reader, Writer


class Killed(BaseException):
    """The process is gone."""


class Fuse:
    """Counts stores, and blows at one of them."""

    def __init__(self) -> None:
        self.left = -1
        self.stores = 0

    def burn(self) -> bool:
        """Count one store; True if it is the last one."""
        self.stores += 1
        self.left -= 1
        return self.left == 0


class DyingView:
    """A memory view whose stores may be the last thing that the process does."""

    def __init__(self, view, fuse) -> None:
        self._view = view
        self._fuse = fuse
        self.release = view.release

    def __getitem__(self, where):
        return self._view[where]

    def __len__(self) -> int:
        return len(self._view)

    def __setitem__(self, where, what) -> None:
        if not self._fuse.burn():
            self._view[where] = what
            return
        if isinstance(where, slice):
            half = len(what) // 2
            self._view[where.start : where.start + half] = what[:half]
        raise Killed


class DyingWriter(Writer):
    """A writer that can be killed at a chosen store."""

    fuse: Fuse

    def _adopt(self, census):
        super()._adopt(census)
        self.fuse = Fuse()
        self._wrap()

    def _map(self, size):
        super()._map(size)
        if hasattr(self, "fuse"):
            self._wrap()

    def _wrap(self):
        self._view = DyingView(self._view, self.fuse)
        self._words = DyingView(self._words, self.fuse)


def prepare(tables, declaration):
    """Make a table with a past: deleted keys, rewritten ones, one slot short of a second chunk."""
    writer = Writer.attach(tables, declaration)
    for i in range(63):
        writer.put(f"pod-{i}", bytes([i]) * (40 * i), i)
    for i in range(10):
        writer.put(f"pod-{i}", bytes([i]) * 700, i)
    writer.put("deleted", b"gone")
    writer.delete("deleted")
    writer.close()


def put_new(writer):
    writer.put("new", b"N" * 3000, 7)


def put_two_new(writer):  # the second needs a chunk
    writer.put("new", b"N" * 3000, 7)
    writer.put("newer", b"M" * 300, 8)


def rewrite(writer):
    writer.put("pod-20", b"R" * 800, 9)


def grow(writer):
    writer.put("pod-20", b"G" * 300_000, 9)


def shrink(writer):
    writer.put("pod-62", b"s", 9)
    writer.put("pod-62", b"t", 10)


def delete(writer):
    writer.delete("pod-30")


def delete_and_reuse(writer):
    writer.delete("pod-30")
    writer.put("heir", b"H" * 1200, 11)


def contents(side):
    """Return everything in a table."""
    return {key: side.get(key)[1:3] for key in side.keys()}  # noqa: SIM118 - not a dictionary


ACTIONS = [put_new, put_two_new, rewrite, grow, shrink, delete, delete_and_reuse]


def stages(tables, declaration, action):
    """Return every state that the table goes through when the action is not disturbed."""
    scratch = tables / "undisturbed"
    scratch.mkdir()
    shutil.copy(tables / "pristine", scratch / "example")
    states = []

    class Recording(Writer):
        def put(self, *args):
            states.append(contents(self))
            return super().put(*args)

        def delete(self, *args):
            states.append(contents(self))
            return super().delete(*args)

    writer = Recording.attach(scratch, declaration)
    action(writer)
    states.append(contents(writer))
    writer.close()
    return states


@pytest.mark.parametrize("action", ACTIONS)
def test_dying_at_any_store_leaves_the_old_or_the_new_state(tables, declaration, action):
    """Whichever store is the last, the successor attaches to one of the states on the way."""
    big = replace(declaration, max_bytes=8 << 20)
    prepare(tables, big)
    (tables / "example").rename(tables / "pristine")
    allowed = stages(tables, big, action)
    stores = 0
    while True:
        stores += 1
        shutil.copy(tables / "pristine", tables / "example")
        early = Reader.attach(tables, big)
        writer = DyingWriter.attach(tables, big)
        writer.fuse.left = stores
        try:
            action(writer)
        except Killed:
            survived = False
        else:
            survived = True
        os.close(writer._fd)  # with the mapping's own descriptor, below, the lock goes
        writer._unmap()
        late = Reader.attach(tables, big)
        for reader in (early, late):
            assert {key: reader.get(key)[1:3] for key in reader.keys()} in allowed  # noqa: SIM118
        successor = Writer.attach(tables, big)
        assert successor.reason is None
        assert contents(successor) in allowed
        assert contents(successor) == contents(early) == contents(late)
        assert successor.verify() is None
        seen, keys = early.changed_since(0)
        assert sorted(keys) == sorted(successor.keys()) or set(keys) > set(successor.keys())
        assert early.changed_since(seen) == (seen, [])
        for side in (early, late, successor):
            side.close()
        if survived:
            break
    assert stores > 4


def test_dying_while_attaching_leaves_the_table_as_it_was(tables, declaration):
    """A successor that dies while it completes the half-made change is itself succeeded."""
    prepare(tables, declaration)
    writer = DyingWriter.attach(tables, declaration)
    writer.fuse.left = 4  # key, payload, descriptor, sequence word, but not its complement
    with pytest.raises(Killed):
        writer.put("new", b"N")
    os.close(writer._fd)
    writer._unmap()
    shutil.copy(tables / "example", tables / "half-made")

    class DyingSuccessor(DyingWriter):
        last = 0

        def _repair(self, census):
            self.fuse = Fuse()
            self.fuse.left = self.last
            self._wrap()
            super()._repair(census)

    expected = None
    for last in range(1, 80):
        shutil.copy(tables / "half-made", tables / "example")
        DyingSuccessor.last = last
        try:
            DyingSuccessor.attach(tables, declaration).close()
        except Killed:
            writer = Writer.attach(tables, declaration)
            assert writer.reason is None
            assert writer.verify() is None
            expected = expected or contents(writer)
            assert contents(writer) == expected
            writer.close()
        else:
            break
    else:
        pytest.fail("the successor never got through")
    assert expected
