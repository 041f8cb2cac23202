"""A table against a dictionary, with successors and readers that come and go at random."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shm.table import Reader, Writer
from shm.tables import Declaration

DECLARATION = Declaration("model", "pleg", ("api",), "key", "a dictionary", 1, 64 << 20)
KEYS = st.sampled_from([f"pod-{i}" for i in range(12)] + ["k" * 384, "ключ", "a/b c"])
PAYLOADS = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda byte, size: bytes([byte]) * size, st.integers(0, 255), st.integers(0, 70_000)),
)


class Follower:
    """A reader and what it believes, by asking only for what has changed."""

    def __init__(self, directory: Path) -> None:
        self.reader = Reader.attach(directory, DECLARATION)
        self.seen = 0
        self.mirror: dict[str, tuple[bytes, int]] = {}

    def follow(self) -> None:
        """Bring the mirror up to date."""
        self.reader.refresh()
        self.seen, keys = self.reader.changed_since(self.seen)
        for key in keys:
            entry = self.reader.get(key)
            if entry is None:
                self.mirror.pop(key, None)
            else:
                self.mirror[key] = (entry.payload, entry.stamp_ns)


class TableMachine(RuleBasedStateMachine):
    """Put, delete, replace the writer, add and drop readers; compare with a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="kubelet-model-", dir="/dev/shm"))
        self.writer = Writer.attach(self.directory, DECLARATION)
        self.followers = [Follower(self.directory)]
        self.model: dict[str, tuple[bytes, int]] = {}
        self.generation = self.writer.generation

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.writer.close()
        for follower in self.followers:
            follower.reader.close()
        shutil.rmtree(self.directory)

    @rule(key=KEYS, payload=PAYLOADS, stamp=st.integers(0, (1 << 64) - 1))
    def put(self, key, payload, stamp):
        """Store a value."""
        generation = self.writer.put(key, payload, stamp)
        assert generation == self.generation + 1
        self.generation = generation
        self.model[key] = (payload, stamp)

    @rule(key=KEYS)
    def delete(self, key):
        """Remove a value, or what is not there."""
        assert self.writer.delete(key) == (key in self.model)
        self.generation += self.model.pop(key, None) is not None

    @rule(key=KEYS)
    def get(self, key):
        """Every reader sees what was put last."""
        for side in [self.writer, *(f.reader for f in self.followers)]:
            entry = side.get(key)
            assert (entry and (entry.payload, entry.stamp_ns)) == self.model.get(key)

    @rule()
    def replace_writer(self):
        """The successor finds all that was there."""
        self.writer.close()
        self.writer = Writer.attach(self.directory, DECLARATION)
        assert self.writer.reason is None
        assert self.writer.generation == self.generation

    @rule()
    def rebuild(self):
        """A damaged file is replaced by an empty one, with generations that go on."""
        self.writer.close()
        with (self.directory / "model").open("r+b") as file:
            file.write(b"garbage")
        self.writer = Writer.attach(self.directory, DECLARATION)
        assert self.writer.reason.endswith("rebuilt empty")
        assert self.writer.generation > self.generation
        self.generation = self.writer.generation
        self.model.clear()
        for follower in self.followers:
            assert follower.reader.refresh()

    @precondition(lambda self: len(self.followers) < 4)
    @rule()
    def add_reader(self):
        """A reader comes."""
        self.followers.append(Follower(self.directory))

    @precondition(lambda self: self.followers)
    @rule()
    def drop_reader(self):
        """A reader goes."""
        self.followers.pop(0).reader.close()

    @rule()
    def follow(self):
        """Who asks only for changes knows everything."""
        for follower in self.followers:
            follower.follow()
            assert follower.mirror == self.model
            assert follower.reader.changed_since(follower.seen) == (follower.seen, [])

    @invariant()
    def sound(self):
        """The table is sound after each step, and all agree on the keys."""
        assert self.writer.verify() is None
        assert sorted(self.writer.keys()) == sorted(self.model)
        for follower in self.followers:
            assert sorted(follower.reader.keys()) == sorted(self.model)


TestTable = TableMachine.TestCase
TestTable.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
