"""Objects change under mounted volumes: what is rewritten, what is kept, over kills too."""

from __future__ import annotations

import asyncio
import os
import shutil

import pytest

from kubelet.channels.wire import ANY_KEY
from kubelet.cluster.rows import CONFIG_MAP, OBJECTS, SECRET, object_key
from kubelet.pods.rows import MOUNTS, VolumeState, WorkerState
from procs.volumes import atomic, mounts, setup
from procs.volumes.layout import CONFIG_MAP as CONFIG_PLUGIN
from procs.volumes.wants import EmptyDirWant
from tests.unit.volumes.standing import UID, content, needs_mounts, pod, there

PENDING, MOUNTED, FAILED = VolumeState.PENDING, VolumeState.MOUNTED, VolumeState.FAILED
CONFIG = {"name": "c", "configMap": {"name": "x"}}
KEY = object_key(CONFIG_MAP, "ns", "x")


def version(path):
    """Which writing of a volume counts."""
    return os.readlink(f"{path}/..data")


def test_a_change_is_written_at_the_hint(process, cluster):
    """L-15, L-21: new keys come, old ones go, and the row is written no more than it must be."""

    async def story():
        cluster()
        process.object(CONFIG_MAP, "x", {"a": b"1", "b": b"2"})
        process.pod(pod(CONFIG), source="api")
        await process.settled()
        path = process.volume().host_path
        process.puts.clear()
        process.object(CONFIG_MAP, "x", {"a": b"3", "c": b"4"})
        await process.settled()
        assert content(f"{path}/a") == "3"
        assert not there(f"{path}/b")
        assert content(f"{path}/c") == "4"
        assert process.records[-1][0] == "updated"
        assert process.puts == []  # for its readers nothing has changed

    asyncio.run(story())


def test_what_is_the_same_is_not_written_again(process, cluster, monkeypatch):
    """L-21: another resourceVersion, another time of reading, a tick: the files stay."""

    async def story():
        cluster()
        process.object(CONFIG_MAP, "x", {"a": b"1"}, version="7")
        process.pod(pod(CONFIG), source="api")
        await process.settled()
        monkeypatch.setattr(atomic, "write", None)  # whoever calls it now, fails
        process.object(CONFIG_MAP, "x", {"a": b"1"}, version="8", read_ns=5)
        await process.settled()
        process.hint(ANY_KEY, OBJECTS)
        assert not process.tasks
        process.hint(KEY, OBJECTS)
        assert not process.tasks

    asyncio.run(story())


def test_a_lost_hint_costs_a_tick(process, cluster):
    """The tick names no key; what has changed is found."""

    async def story():
        cluster()
        process.object(CONFIG_MAP, "x", {"a": b"1"})
        process.pod(pod(CONFIG), source="api")
        await process.settled()
        process.object(CONFIG_MAP, "other", {"a": b"1"})
        process.deaf = True
        process.object(CONFIG_MAP, "x", {"a": b"2"})
        process.deaf = False
        process.hint(ANY_KEY, OBJECTS)
        await process.settled()
        assert content(f"{process.volume().host_path}/a") == "2"

    asyncio.run(story())


def test_each_pod_that_refers_to_it_has_the_change(process, cluster):
    """And no other: one object, many pods."""
    uids = [f"{n:08d}-0000-4000-8000-000000000000" for n in range(5)]
    other = {"name": "c", "configMap": {"name": "y"}}

    async def story():
        cluster()
        process.object(CONFIG_MAP, "x", {"a": b"1"})
        process.object(CONFIG_MAP, "y", {"a": b"1"})
        for uid in uids:
            process.pod(pod(CONFIG, uid=uid), source="api")
        process.pod(pod(other), source="api")
        await process.settled()
        process.pod(pod(CONFIG, uid=uids[0]), WorkerState.TERMINATED, source="api")
        await process.settled()
        before = version(process.volume().host_path)
        process.object(CONFIG_MAP, "x", {"a": b"2"})
        assert len(process.tasks) == 4
        await process.settled()
        assert {content(f"{process.volume(uid).host_path}/a") for uid in uids[1:]} == {"2"}
        assert version(process.volume().host_path) == before

    asyncio.run(story())


@pytest.mark.parametrize("state", [WorkerState.SYNC, WorkerState.TERMINATING])
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("deleted", 'configmap "x" not found'),
        ("forbidden", "configmaps is forbidden"),
        ("no row", "configmap ns/x has not been read from the API server yet"),
        ("no key", "configmap references non-existent config key: a"),
        ("no table", "configmap ns/x has not been read from the API server yet"),
    ],
)
def test_what_is_mounted_stays_when_its_source_goes(process, cluster, how, reason, state):
    """The content is as it was, the row says why; when it is back it is followed again."""
    listed = {"name": "c", "configMap": {"name": "x", "items": [{"key": "a", "path": "a"}]}}

    async def story():
        cluster()
        process.object(CONFIG_MAP, "x", {"a": b"1"})
        process.pod(pod(listed), source="api")
        await process.settled()
        process.pod(pod(listed), state, source="api")
        await process.settled()
        if how == "no row":
            process.no_row(KEY)
        elif how == "no table":
            process.node.delete(KEY)
            process.hint(ANY_KEY, OBJECTS)
        else:
            process.object(
                CONFIG_MAP,
                "x",
                {"b": b""} if how == "no key" else None,
                error=reason if how == "forbidden" else "",
            )
        await process.settled()
        row = process.volume()
        assert (row.state, row.reason) == (MOUNTED, reason)
        assert content(f"{row.host_path}/a") == "1"
        cluster()  # and a successor finds it so
        await process.settled()
        row = process.volume()
        assert (row.state, row.reason) == (MOUNTED, reason)
        assert content(f"{row.host_path}/a") == "1"
        process.object(CONFIG_MAP, "x", {"a": b"2"})
        await process.settled()
        row = process.volume()
        assert (row.state, row.reason) == (MOUNTED, "")
        assert content(f"{row.host_path}/a") == "2"

    asyncio.run(story())


def test_a_table_of_ours_that_was_begun_anew_costs_no_mounted_volume(process, cluster):
    """What is on disk counts, even while nobody can say what should be there."""

    async def story():
        cluster()
        process.object(CONFIG_MAP, "x", {"a": b"1"})
        process.pod(pod(CONFIG), source="api")
        await process.settled()
        process.no_row(KEY)
        process.delete(MOUNTS, UID)
        cluster()
        await process.settled()
        assert process.volume().state is MOUNTED
        assert content(f"{process.volume().host_path}/a") == "1"

    asyncio.run(story())


def test_a_row_alone_does_not_make_a_volume(process, layout, cluster):
    """Somebody has removed it, and its source is gone: it is not there."""

    async def story():
        cluster()
        process.object(CONFIG_MAP, "x", {"a": b"1"})
        process.pod(pod(CONFIG), source="api")
        await process.settled()
        shutil.rmtree(layout.volumes(UID))
        process.object(CONFIG_MAP, "x")
        await process.settled()
        row = process.volume()
        assert (row.state, row.host_path) == (FAILED, "")
        process.object(CONFIG_MAP, "x", {"a": b"2"})
        await process.settled()
        assert content(f"{process.volume().host_path}/a") == "2"

    asyncio.run(story())


@needs_mounts
def test_a_new_token_replaces_the_old_one(process, cluster):
    """L-26: the renewed token is in the file at once; a failed renewal leaves the old one."""
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}
    access = {"name": "t", "projected": {"sources": [source]}}

    async def story():
        cluster()
        process.token(seconds=600, error="service account is forbidden")
        process.pod(pod(access), source="api")
        await process.settled()
        row = process.volume()
        assert (row.state, row.retry_ns) == (FAILED, 0)
        assert row.reason == "failed to fetch token: service account is forbidden"
        for token, error in (("one", ""), ("one", "away"), ("two", "")):
            process.token(token, seconds=600, error=error)
            await process.settled()
            row = process.volume()
            assert (row.state, row.reason) == (MOUNTED, "")
            assert content(f"{row.host_path}/token") == token

    asyncio.run(story())


class KilledError(BaseException):
    """Nobody catches it: what comes after it does not happen."""


POINTS = {
    "mount": (atomic, "write"),
    "data": (atomic, "_replace_link"),
    "names": (atomic, "_link_names"),
}


@needs_mounts
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_in_the_middle_is_gone_on_from(process, cluster, monkeypatch, point):
    """Killed after the mount, with the files written, and before their names are there."""
    volume = {"name": "s", "secret": {"secretName": "x"}}

    def die(*_arguments):
        raise KilledError

    async def killed():
        cluster()
        process.pod(pod(volume), source="api")
        with pytest.raises(KilledError):
            await process.settled()

    async def story():
        cluster()
        await process.settled()
        row = process.volume()
        assert row.state is MOUNTED
        assert content(f"{row.host_path}/a") == "1"
        assert mounts.points().count(row.host_path) == 1
        assert len([name for name in os.listdir(row.host_path) if name.startswith("..2")]) == 1

    process.object(SECRET, "x", {"a": b"1"})
    with monkeypatch.context() as patch:
        patch.setattr(*POINTS[point], die)
        asyncio.run(killed())
    assert process.mounts() is None
    asyncio.run(story())


@needs_mounts
def test_no_room_leaves_the_old_files_and_no_rubbish(layout):
    """A write that fails in the middle gives back what it took, so that the next one may fit."""
    want = EmptyDirWant("s", fs_type="tmpfs", options=("size=65536",), wrapped=True)
    path = setup.set_up(want, UID, layout).path
    atomic.write(path, (setup_file("a", b"1"),))
    with pytest.raises(OSError, match="No space left"):
        atomic.write(path, (setup_file("a", b"2"), setup_file("b", bytes(1 << 20))))
    assert content(f"{path}/a") == "1"
    assert len([name for name in os.listdir(path) if name.startswith("..2")]) == 1
    assert atomic.write(path, (setup_file("a", b"3"), setup_file("b", bytes(16384))))
    assert content(f"{path}/a") == "3"


def setup_file(path, data):
    """A file to be written."""
    return atomic.File(path, data, 0o644)


def test_much_is_written_while_others_go_on(process, layout, cluster):
    """The volume is pending meanwhile, and renewed without ever not being mounted."""

    async def story():
        cluster()
        process.object(CONFIG_MAP, "x", {"big": bytes(600 << 10)})
        process.pod(pod(CONFIG), source="api")
        await process.settled()
        assert [put.volumes[0].state for put in process.puts] == [PENDING, MOUNTED]
        process.puts.clear()
        process.object(CONFIG_MAP, "x", {"big": b"1" * (600 << 10)})
        await process.settled()
        assert process.puts == []
        assert content(f"{layout.volume(UID, CONFIG_PLUGIN, 'c')}/big")[:2] == "11"

    asyncio.run(story())
