"""How full the volumes of pods are: which are looked at, how, when, and what is written (L-50)."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest

from kubelet.pods.rows import (
    VOLUME_STATS,
    MountsRow,
    VolumeRow,
    VolumeState,
    VolumeStats,
    VolumeStatsRow,
)
from procs.volumes import layout as kinds
from procs.volumes.errors import VolumeError
from procs.volumes.layout import Layout
from procs.volumes.operations.locks import Holder, Locks
from procs.volumes.operations.runner import Operations
from procs.volumes.stats import Found, Stats
from procs.volumes.subjects import (
    StatsSubject,
    VolumeSubject,
    Way,
    period_of,
    subject_of,
    unknown,
    way_of,
)
from tests.unit.volumes.standing import UID, Standing, pod

HOUR = 3600.0
BIG = 3000  # entries: more than a thread goes through
WALL = 1_700_000_000 * 10**9
SINCE = "(since 2023-11-14T22:13:20Z)"


class Written(Standing):
    """A process whose rows about usage can be waited for."""

    def __init__(self, directory):
        super().__init__(directory)
        self.news = asyncio.Event()

    def put(self, table, key, value, stamp_ns=0):
        self.tables.put(table, key, value, stamp_ns)
        self.news.set()

    def delete(self, table, key):
        super().delete(table, key)
        self.news.set()

    def usage(self, uid=UID):
        """What the table says of a pod's volumes."""
        value = self.tables.value(VOLUME_STATS, uid)
        return {} if value is None else {v.name: v for v in VolumeStatsRow.from_wire(value).volumes}

    async def until(self, condition):
        """Let the loop run until the table is as a test wants it."""
        async with asyncio.timeout(20):
            while not condition():
                self.news.clear()
                await self.news.wait()


class Node:
    """The parts around the statistics, and the pods that there are."""

    def __init__(self, tmp_path):
        (tmp_path / "tables").mkdir()
        self.layout = Layout(str(tmp_path / "kubelet"))
        self.locks = str(tmp_path / "locks")
        self.process = Written(tmp_path / "tables")
        self.ops = Operations(self.locks)
        self.subjects = {}
        self.made = []

    def stats(self, csi=None, period=HOUR):
        made = Stats(
            self.process,
            self.layout,
            self.ops,
            source=lambda: tuple(self.subjects.values()),
            csi=csi,
            period_seconds=period,
            wall=lambda: WALL,
            soon_seconds=0.0,
        )
        self.made.append(made)
        return made

    def has(self, *volumes, uid=UID):
        self.subjects[uid] = StatsSubject(uid, "p", "ns", volumes)

    def empty_dir(self, name="tmp", files=1, **fields):
        """A directory on the kubelet's disk with files in it."""
        path = self.layout.volume(UID, kinds.EMPTY_DIR, name)
        os.makedirs(path, exist_ok=True)
        for number in range(files):
            with open(f"{path}/{number}", "wb") as file:
                file.write(b"x" * 4096)
        return VolumeSubject(name, kinds.EMPTY_DIR, path, **fields)

    async def close(self):
        for stats in self.made:
            stats.close()
        await self.process.settled()
        self.ops.close()
        self.process.close()


@pytest.fixture
def run(tmp_path):
    """Run a test's story in an event loop, and leave nothing of it."""

    def running(story):
        async def whole():
            node = Node(tmp_path)
            try:
                await story(node)
            finally:
                await node.close()

        asyncio.run(whole())

    return running


@pytest.mark.parametrize(
    ("fields", "way"),
    [
        ({"plugin": kinds.EMPTY_DIR}, Way.TREE),
        ({"plugin": kinds.EMPTY_DIR, "medium": "Memory"}, Way.FILESYSTEM),
        ({"plugin": kinds.EMPTY_DIR, "medium": "HugePages-2Mi"}, Way.FILESYSTEM),
        ({"plugin": kinds.CONFIG_MAP}, Way.TREE),
        ({"plugin": kinds.SECRET}, Way.TREE),
        ({"plugin": kinds.PROJECTED}, Way.TREE),
        ({"plugin": kinds.DOWNWARD_API}, Way.TREE),
        ({"plugin": kinds.NFS}, Way.FILESYSTEM),
        ({"plugin": kinds.LOCAL}, Way.FILESYSTEM),
        ({"plugin": kinds.LOCAL, "block": True}, Way.DEVICE),
        ({"plugin": kinds.CSI}, Way.DRIVER),
        ({"plugin": kinds.CSI, "block": True}, Way.DRIVER),
        ({"plugin": kinds.HOST_PATH}, Way.NONE),
        ({"plugin": kinds.IMAGE}, Way.NONE),
    ],
)
def test_each_kind_of_volume_is_looked_at_in_its_way(fields, way):
    """What the file system knows is not walked through; what is not the pod's is not reported."""
    assert way_of(VolumeSubject("v", path="/x", **fields)) is way


@pytest.mark.parametrize(
    ("limit", "took", "seconds"),
    [(0, 0.0, 60.0), (1, 0.0, 10.0), (1, 0.4, 10.0), (1, 2.0, 40.0), (0, 30.0, 600.0)],
)
def test_a_limit_is_looked_at_as_often_as_eviction_does(limit, took, seconds):
    """Each ten seconds, but no volume takes more than a twentieth of the time."""
    volume = VolumeSubject("v", kinds.EMPTY_DIR, "/x", size_limit=limit)
    assert period_of(volume, 60.0, took) == seconds


@pytest.mark.parametrize(
    ("plugin", "medium", "ephemeral"),
    [
        (kinds.EMPTY_DIR, "", True),
        (kinds.EMPTY_DIR, "Memory", False),
        (kinds.CONFIG_MAP, "", True),
        (kinds.SECRET, "", False),
        (kinds.CSI, "", False),
    ],
)
def test_only_what_is_on_the_nodes_disk_counts_as_ephemeral(plugin, medium, ephemeral):
    """An emptyDir of the default medium and a config map are the pod's use of the disk."""
    assert unknown(VolumeSubject("v", plugin, "/x", medium=medium)).ephemeral is ephemeral


def test_what_is_looked_at_follows_from_the_pod_and_its_row():
    """Mounted volumes with their medium, limit and claim; far ones are those that may hang."""
    document = pod(
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "mem", "emptyDir": {"medium": "Memory"}},
        {"name": "host", "hostPath": {"path": "/srv"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "late", "emptyDir": {}},
    )
    mounted = VolumeState.MOUNTED
    row = MountsRow(
        UID,
        1,
        (
            VolumeRow("tmp", mounted, kinds.EMPTY_DIR, "/t"),
            VolumeRow("mem", mounted, kinds.EMPTY_DIR, "/m"),
            VolumeRow("host", mounted, kinds.HOST_PATH, "/srv"),
            VolumeRow("data", mounted, kinds.NFS, "/d", claim="ns/c"),
            VolumeRow("late", VolumeState.PENDING, kinds.EMPTY_DIR),
        ),
    )
    assert subject_of(document, row) == StatsSubject(
        UID,
        "p",
        "ns",
        (
            VolumeSubject("tmp", kinds.EMPTY_DIR, "/t", size_limit=1 << 30),
            VolumeSubject("mem", kinds.EMPTY_DIR, "/m", medium="Memory"),
            VolumeSubject("data", kinds.NFS, "/d", claim="ns/c", far=True),
        ),
    )


def test_a_new_pod_has_a_row_and_a_pod_that_is_gone_has_none(run):
    """The row comes without waiting for a period, and goes with the pod."""

    async def story(node):
        node.stats().start()
        node.has(node.empty_dir(size_limit=5))
        node.made[0].changed()
        await node.process.until(node.process.usage)
        found = node.process.usage()["tmp"]
        assert found.used >= 4096
        assert (found.inodes_used, found.size_limit, found.ephemeral) == (2, 5, True)
        assert (found.at_ns, found.error) == (WALL, "")
        assert found.capacity > found.available > 0
        node.subjects.clear()
        node.made[0].changed()
        await node.process.until(lambda: not node.process.usage())

    run(story)


def test_a_large_directory_is_walked_through_in_a_process_of_its_own(run):
    """More than a thread should go through gives the same numbers."""

    async def story(node):
        node.has(node.empty_dir(files=BIG))
        node.stats().start()
        await node.process.until(node.process.usage)
        assert node.process.usage()["tmp"].inodes_used == BIG + 1

    run(story)


def test_what_is_written_meanwhile_is_seen_at_the_next_look(run):
    """A volume is looked at again and again."""

    async def story(node):
        node.has(node.empty_dir())
        node.stats(period=0.05).start()
        await node.process.until(node.process.usage)
        node.empty_dir(files=5)
        await node.process.until(lambda: node.process.usage()["tmp"].inodes_used == 6)

    run(story)


def test_a_volume_that_hangs_costs_only_its_own_entry(run):
    """Its last values stay, with the reason and since when; the others are looked at."""

    async def story(node):
        nfs = VolumeSubject("data", kinds.NFS, str(node.locks), claim="ns/c", far=True)
        old = VolumeStats("data", at_ns=7, used=42, claim="ns/c")
        row = VolumeStatsRow(UID, "p", "ns", (old,))
        node.process.tables.put(VOLUME_STATS, UID, row.to_wire())
        lock = Locks(node.locks).take(f"usage {nfs.path}", Holder("of_filesystem", WALL))
        node.has(nfs, node.empty_dir())
        node.stats().start()
        known = node.process.usage
        await node.process.until(lambda: "tmp" in known() and known()["data"].error)
        hung = known()["data"]
        assert (hung.used, hung.at_ns, hung.claim) == (42, 7, "ns/c")
        assert "of_filesystem, begun" in hung.error
        assert hung.error.endswith(SINCE)
        assert known()["tmp"].error == ""
        os.close(lock)

    run(story)


def test_a_far_volume_that_answers_again_has_no_error_any_more(run):
    """What could not be looked at is tried again in the next period."""

    async def story(node):
        path = f"{node.layout.root}/elsewhere"
        node.has(VolumeSubject("data", kinds.NFS, path, far=True))
        node.stats(period=0.05).start()
        known = node.process.usage
        await node.process.until(lambda: known() and known()["data"].error)
        assert "No such file" in known()["data"].error
        assert known()["data"].used == -1
        os.makedirs(path)
        await node.process.until(lambda: not known()["data"].error)
        assert known()["data"].capacity > 0

    run(story)


def test_a_driver_tells_how_full_its_volume_is_and_in_which_condition(run):
    """What a CSI driver leaves out is not known; an abnormal condition has its words."""

    async def story(node):
        async def ask(subject, volume):
            assert (subject.uid, volume.name) == (UID, "csi")
            return Found({"capacity": 10, "used": 4}, abnormal=True, message="disk is dying")

        node.has(VolumeSubject("csi", kinds.CSI, "/csi", claim="ns/c", far=True))
        node.stats(ask).start()
        await node.process.until(node.process.usage)
        found = node.process.usage()["csi"]
        assert (found.capacity, found.used, found.available) == (10, 4, -1)
        assert (found.abnormal, found.message) == (True, "disk is dying")

    run(story)


def test_a_driver_that_gives_no_statistics_has_no_entry_and_one_that_fails_has_its_error(run):
    """Not to support them is nothing wrong; an error is told."""

    async def story(node):
        async def ask(_subject, volume):
            if volume.name == "silent":
                return
            raise VolumeError("driver says: no such volume")

        csi = VolumeSubject("silent", kinds.CSI, "/a", far=True)
        node.has(csi, replace(csi, name="broken", path="/b"))
        node.stats(ask).start()
        await node.process.until(node.process.usage)
        assert {name: one.error for name, one in node.process.usage().items()} == {
            "broken": f"driver says: no such volume {SINCE}"
        }

    run(story)


def test_many_drivers_that_never_answer_keep_nobody_waiting(run):
    """More of them than may be under way at once: each gives its turn away."""

    async def story(node):
        never = asyncio.Event()

        async def ask(_subject, _volume):
            await never.wait()

        hung = [VolumeSubject(f"h{n}", kinds.CSI, f"/{n}", far=True) for n in range(6)]
        node.has(*hung, node.empty_dir())
        node.stats(ask).start()
        await node.process.until(lambda: "tmp" in node.process.usage())
        assert list(node.process.usage()) == ["tmp"]

    run(story)


@pytest.mark.parametrize("period", [0.0, -1.0])
def test_a_period_of_nothing_turns_it_off(run, period):
    """What a predecessor has written goes away, and nothing is looked at."""

    async def story(node):
        row = VolumeStatsRow(UID, "p", "ns", (VolumeStats("tmp", at_ns=1),))
        node.process.tables.put(VOLUME_STATS, UID, row.to_wire())
        node.has(node.empty_dir())
        node.stats(period=period).start()
        node.made[0].changed()
        assert node.process.usage() == {}
        assert not node.process.tasks

    run(story)


def test_a_volume_that_is_mounted_anew_begins_anew(run):
    """Another path under the same name has nothing to do with what was known before."""

    async def story(node):
        node.has(node.empty_dir(files=3))
        node.stats().start()
        await node.process.until(node.process.usage)
        path = f"{node.layout.pod(UID)}/other"
        os.makedirs(path)
        node.has(VolumeSubject("tmp", kinds.EMPTY_DIR, path))
        node.made[0].changed()
        known = node.process.usage
        await node.process.until(lambda: "tmp" in known() and known()["tmp"].inodes_used == 1)

    run(story)
