"""The rule of the cache: as of when a pod is known, and what its absence means."""

from __future__ import annotations

import asyncio

import pytest

from kubelet.channels.waiting import Waiters
from kubelet.channels.wire import Hint
from kubelet.pods.cache import UNKNOWN, RuntimeCache, Seen, View
from kubelet.pods.runtime import RUNTIME_KEY, TABLE, PodRecord, RuntimeRecord, SandboxRecord
from shm.codec import pack
from shm.table import Entry

POD = PodRecord("u", sandboxes=(SandboxRecord("s"),))


class Entries:
    """A table as a dictionary."""

    def __init__(self):
        self.entries = {}
        self.reads = []
        self.unavailable = {}

    def put(self, key, record, stamp_ns):
        self.entries[key] = Entry(key, pack(record.to_wire()), stamp_ns, 1)

    def get(self, key, _key=None):
        key = _key or key
        self.reads.append(key)
        return self.entries.get(key)

    def keys(self, _table):
        return list(self.entries)


@pytest.fixture
def table():
    return Entries()


def test_without_a_full_look_nothing_is_known(table):
    """An empty table is older than any action: absence there is no news."""
    assert View(table.get).pod("u") == UNKNOWN


def test_a_pod_counts_as_of_its_own_look(table):
    """Somebody asked for a look after the last full one."""
    table.put(RUNTIME_KEY, RuntimeRecord(), 100)
    table.put("u", POD, 150)
    assert View(table.get).pod("u") == Seen(POD, 150)


def test_an_unchanged_pod_counts_as_of_the_last_full_look(table):
    """Its entry is old, and the full look found it so again."""
    table.put("u", POD, 150)
    table.put(RUNTIME_KEY, RuntimeRecord(), 900)
    assert View(table.get).pod("u") == Seen(POD, 900)


def test_an_absent_pod_is_gone_as_of_the_last_full_look(table):
    """A full look speaks for what it did not find."""
    table.put(RUNTIME_KEY, RuntimeRecord(), 900)
    assert View(table.get).pod("u") == Seen(None, 900)


def test_an_empty_record_is_gone_as_of_its_look(table):
    """A look at one pod found nothing, before the next full look."""
    table.put(RUNTIME_KEY, RuntimeRecord(), 100)
    table.put("u", PodRecord("u"), 150)
    assert View(table.get).pod("u") == Seen(None, 150)


def test_a_full_look_does_not_speak_for_what_it_could_not_see(table):
    """The pod's own stamp counts, and one without an entry is not known."""
    table.put(RUNTIME_KEY, RuntimeRecord(unseen=("u", "v")), 900)
    table.put("u", POD, 150)
    view = View(table.get)
    assert view.pod("u") == Seen(POD, 150)
    assert view.pod("v") == UNKNOWN
    assert view.stamp("w") == 900


def test_the_full_look_is_read_before_the_pod(table):
    """The other way round, an old pod could get a new stamp."""
    table.put(RUNTIME_KEY, RuntimeRecord(), 900)
    View(table.get).pod("u")
    assert table.reads == [RUNTIME_KEY, "u"]


def test_an_entry_that_is_no_record_says_nothing(table):
    """Neither that the pod is there nor that it is gone."""
    table.put(RUNTIME_KEY, RuntimeRecord(), 900)
    table.entries["u"] = Entry("u", b"\xc1", 950, 1)
    assert View(table.get).pod("u") == UNKNOWN
    table.entries[RUNTIME_KEY] = Entry(RUNTIME_KEY, pack({"healthy": 1}), 990, 1)
    assert View(table.get).pod("v") == UNKNOWN


class Standing:
    """A process, as far as the cache needs one."""

    def __init__(self, table):
        self.tables = table
        self.waiters = Waiters()
        self.hinted = None
        table_get, table.get = table.get, lambda _table, key: table_get(key)

    def on_hint(self, callback):
        self.hinted = callback


def test_waiting_ends_with_a_look_at_the_pod(table):
    """Its own hint wakes the waiter; an older look does not."""

    async def story():
        process = Standing(table)
        cache = RuntimeCache(process)
        waiting = asyncio.ensure_future(cache.get_newer_than("u", 100, 5))
        await asyncio.sleep(0)
        table.put("u", POD, 100)
        process.waiters.notify(TABLE, "u")
        await asyncio.sleep(0)
        assert not waiting.done()
        table.put("u", POD, 101)
        process.waiters.notify(TABLE, "u")
        assert await waiting == Seen(POD, 101)

    asyncio.run(story())


def test_waiting_ends_with_a_full_look(table):
    """A hint of the runtime's entry concerns every pod, gone ones too."""

    async def story():
        process = Standing(table)
        waiting = asyncio.ensure_future(RuntimeCache(process).get_newer_than("u", 100, 5))
        await asyncio.sleep(0)
        table.put(RUNTIME_KEY, RuntimeRecord(), 200)
        process.hinted(Hint(TABLE, RUNTIME_KEY, 7))
        assert await waiting == Seen(None, 200)

    asyncio.run(story())


def test_waiting_has_an_end(table):
    """Nobody looked in time."""

    async def story():
        with pytest.raises(TimeoutError):
            await RuntimeCache(Standing(table)).get_newer_than("u", 100, 0.01)

    asyncio.run(story())


def test_a_damaged_table_never_says_that_a_pod_is_gone(table):
    """What cannot be read is not absent."""

    async def story():
        process = Standing(table)
        cache = RuntimeCache(process)
        table.put(RUNTIME_KEY, RuntimeRecord(), 200)
        table.unavailable = {TABLE: "torn"}
        assert cache.get("u") == UNKNOWN
        with pytest.raises(TimeoutError):
            await cache.get_newer_than("u", 100, 0.01)

    asyncio.run(story())


def test_the_pods_of_the_table_are_those_with_something_left(table):
    """Neither the runtime's own entry nor an empty record is a pod."""
    cache = RuntimeCache(Standing(table))
    table.put(RUNTIME_KEY, RuntimeRecord(name="sim"), 200)
    table.put("u", POD, 150)
    table.put("v", PodRecord("v"), 150)
    assert cache.uids() == ["u"]
    assert cache.runtime().name == "sim"
    assert cache.full_look_ns() == 200
