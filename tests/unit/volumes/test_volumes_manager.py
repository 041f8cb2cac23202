"""The volumes process over its tables: from rows to mounts to rows, over kills and restarts."""

from __future__ import annotations

import asyncio
import os

import pytest

from kubelet.channels.wire import ANY_KEY
from kubelet.pods.rows import MOUNTS, MountsRow, VolumeRow, VolumeState, WorkerState
from procs.volumes import progress, setup, teardown
from procs.volumes.layout import EMPTY_DIR
from procs.volumes.progress import Decision, Failure, Moment, decide, next_failure
from procs.volumes.wants import EmptyDirWant
from tests.unit.volumes.standing import SETTINGS, UID, content, needs_mounts, pod, there, touch

DATA = {"name": "data", "emptyDir": {}}
MOUNTED, FAILED = VolumeState.MOUNTED, VolumeState.FAILED
UNMOUNTING = VolumeState.UNMOUNTING


def run(story):
    """Run a story in a loop."""
    asyncio.run(story)


@pytest.fixture
def make(started):
    """Start a volumes process; again, as its successor."""
    return lambda: started(SETTINGS)


def test_a_pods_life(process, layout, make):
    """Its volumes come with its row, stay while it ends, and go before our row does."""

    async def story():
        make()
        process.pod(pod(DATA))
        await process.settled()
        row = process.mounts()
        path = layout.volume(UID, EMPTY_DIR, "data")
        assert row.mounted
        assert row.version == 1
        assert row.volumes[0].host_path == path
        assert (row.volumes[0].selinux_relabel, row.volumes[0].read_only) == (True, False)
        assert there(path)
        assert process.records[0][:1] == ("mounted",)
        assert process.records[0][1].startswith("emptyDir data in ")
        process.pod(pod(DATA), WorkerState.TERMINATING, 2)
        await process.settled()
        assert process.mounts().mounted
        assert process.mounts().version == 2
        process.pod(pod(DATA), WorkerState.TERMINATED, 2)
        await process.settled()
        assert process.mounts() is None
        assert teardown.is_clean(UID, layout)
        process.gone()
        await process.settled()

    run(story())


def test_a_pod_without_volumes_has_a_row_too(process, make):
    """Nobody waits in doubt; its end costs nothing."""

    async def story():
        make()
        process.pod(pod())
        await process.settled()
        assert process.mounts() == MountsRow(UID, 1)
        process.pod(pod(), WorkerState.TERMINATED)
        await process.settled()
        assert process.mounts() is None

    run(story())


def test_a_row_that_changes_in_other_ways_costs_nothing(process, make):
    """Syncloop writes a row many times while a pod starts."""

    async def story():
        make()
        process.pod(pod(DATA))
        await process.settled()
        puts = len(process.puts)
        for step in ("sandbox", "pull", ""):
            process.pod(pod(DATA), step=step)
            assert not process.tasks
        process.hint(ANY_KEY)
        await process.settled()
        assert len(process.puts) == puts

    run(story())


def test_what_is_not_supported_fails_in_words_and_the_rest_is_mounted(process, make):
    """One volume keeps no other from its place, and is not tried in vain."""

    async def story():
        make()
        process.pod(pod(DATA, {"name": "s", "csi": {"driver": "x"}}))
        await process.settled()
        data, csi = process.mounts().volumes
        assert (data.state, csi.state) == (MOUNTED, FAILED)
        assert csi.reason == 'volume "s": csi volumes need an API server'
        assert csi.retry_ns == 0
        assert ("mount failed", csi.reason, UID) in process.records

    run(story())


def test_a_failure_is_tried_again_and_says_when(process, make, tmp_path, monkeypatch):
    """T-11, L-11: the reason, the next try, and then the volume."""
    monkeypatch.setattr(progress, "FIRST_DELAY", 20_000_000)
    path = tmp_path / "later"
    volume = {"name": "h", "hostPath": {"path": str(path), "type": "Directory"}}

    async def story():
        make()
        process.pod(pod(volume))
        await process.settled()
        (row,) = process.mounts().volumes
        assert row.reason == f"hostPath type check failed: {path} is not a directory"
        assert row.retry_ns > row.since_ns
        path.mkdir()
        async with asyncio.timeout(5):
            while not process.mounts().mounted:  # noqa: ASYNC110 - the timer has no event
                await asyncio.sleep(0.005)
        assert process.mounts().volumes[0].reason == ""

    run(story())


def test_back_off_doubles_up_to_its_end():
    """T-11: 0.5 s to 2 m 2 s."""
    failure, delays = None, []
    for _ in range(10):
        failure = next_failure(failure, "no", Moment(5, 1000))
        delays.append(failure.delay_ns / 1e9)
    assert delays == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122]
    assert failure == Failure("no", 122 * 10**9, 5 + 122 * 10**9, 1000 + 122 * 10**9)


KNOWN = MountsRow(UID, 1, (VolumeRow("data", MOUNTED),))
GOING = MountsRow(UID, 1, (VolumeRow("data", UNMOUNTING),))


@pytest.mark.parametrize(
    ("state", "known", "deleted", "expected"),
    [
        (WorkerState.SYNC, None, False, Decision.MOUNT),
        (WorkerState.SYNC, KNOWN, False, Decision.MOUNT),
        (WorkerState.TERMINATING, None, False, Decision.MOUNT),
        (WorkerState.TERMINATED, None, False, Decision.UNMOUNT),
        (WorkerState.TERMINATED, KNOWN, False, Decision.UNMOUNT),
        (WorkerState.FINISHED, KNOWN, False, Decision.UNMOUNT),
        (None, None, True, Decision.LEAVE),
        (None, KNOWN, True, Decision.UNMOUNT),
        (None, KNOWN, False, Decision.LEAVE),
        (None, GOING, False, Decision.UNMOUNT),
        (WorkerState.SYNC, GOING, False, Decision.UNMOUNT),
    ],
)
def test_what_follows_from_the_two_rows(state, known, deleted, expected):
    """L-12, P-34: no volume of a pod goes before it is said that its containers are gone."""
    assert decide(state, known, deleted=deleted) is expected


def test_a_table_begun_anew_takes_no_volume_from_a_running_pod(process, layout, make):
    """Rows that are merely not there mean nothing; when they come back, all is as it was."""

    async def story():
        make()
        process.pod(pod(DATA))
        await process.settled()
        path = layout.volume(UID, EMPTY_DIR, "data")
        touch(f"{path}/precious")
        process.syncloop.delete(UID)
        process.hint(ANY_KEY)
        await process.settled()
        make()  # and the successor finds it so
        await process.settled()
        assert there(f"{path}/precious")
        assert process.mounts().mounted
        process.pod(pod(DATA))
        await process.settled()
        assert there(f"{path}/precious")
        process.gone()  # this is said, not merely seen
        await process.settled()
        assert process.mounts() is None
        assert teardown.is_clean(UID, layout)

    run(story())


def test_directories_that_no_table_knows_are_left_alone(process, layout, make):
    """They may be of pods that syncloop has not read yet; a terminated row ends them."""

    async def story():
        setup.set_up(EmptyDirWant("data"), UID, layout)
        make()
        await process.settled()
        assert not teardown.is_clean(UID, layout)
        process.pod(pod(), WorkerState.TERMINATED)
        await process.settled()
        assert teardown.is_clean(UID, layout)

    run(story())


@pytest.mark.parametrize("steps", range(4))
def test_a_successor_finishes_what_was_begun(process, layout, make, steps):
    """Killed after each step of mounting: the end is the same."""
    path = layout.volume(UID, EMPTY_DIR, "data")
    if steps >= 1:
        setup.make_above(path, layout.pod(UID))
    if steps >= 2:
        os.mkdir(path, 0o700)
    if steps >= 3:
        setup.set_up(EmptyDirWant("data"), UID, layout)

    async def story():
        process.pod(pod(DATA))
        make()
        await process.settled()
        assert process.mounts().mounted
        assert os.stat(path).st_mode & 0o777 == 0o777

    run(story())


def test_what_takes_time_to_remove_is_said_to_go(process, layout, make):
    """The row says so first: a successor goes on with it, and nobody mounts it meanwhile."""

    async def story():
        make()
        process.pod(pod(DATA))
        await process.settled()
        for n in range(100):
            touch(f"{layout.volume(UID, EMPTY_DIR, 'data')}/{n}")
        process.pod(pod(DATA), WorkerState.TERMINATED)
        await process.settled()
        assert process.puts[-1].volumes[0].state is UNMOUNTING
        assert process.mounts() is None
        assert process.records[-1][0] == "unmounted"

    run(story())


def test_a_successor_finishes_an_unmount_whatever_came_then(process, layout, make):
    """Killed after saying that volumes go; meanwhile the pod is wanted again (P-39)."""

    async def story():
        path = setup.set_up(EmptyDirWant("data"), UID, layout).path
        touch(f"{path}/old")
        process.tables.put(MOUNTS, UID, GOING.to_wire())
        process.pod(pod(DATA), version=2)
        make()
        await process.settled()
        row = process.mounts()
        assert row.mounted
        assert row.version == 2
        assert os.listdir(path) == []

    run(story())


def test_an_unmount_that_fails_says_why_and_goes_on(process, layout, make, monkeypatch):
    """P-34: the row stays, so that syncloop waits and can tell what for."""
    monkeypatch.setattr(progress, "FIRST_DELAY", 20_000_000)
    foreign = f"{layout.volumes(UID)}/kubernetes.io~csi/pv"
    os.makedirs(foreign)

    async def story():
        make()
        process.pod(pod(DATA))
        await process.settled()
        process.pod(pod(DATA), WorkerState.TERMINATED)
        await process.settled()
        row = process.mounts()
        assert {v.state for v in row.volumes} == {UNMOUNTING}
        assert "is a volume of kubernetes.io~csi" in row.volumes[0].reason
        assert row.volumes[0].retry_ns
        os.rmdir(foreign)
        async with asyncio.timeout(5):
            while process.mounts() is not None:  # noqa: ASYNC110 - the timer has no event
                await asyncio.sleep(0.005)
        assert teardown.is_clean(UID, layout)

    run(story())


def test_a_pod_in_quarantine_is_left_alone(process, layout, make):
    """It has ended this process too often; that is said, and nothing is touched."""

    async def story():
        process.quarantined = frozenset({UID})
        make()
        process.pod(pod(DATA))
        await process.settled()
        (row,) = process.mounts().volumes
        assert "kubeletctl release" in row.reason
        assert teardown.is_clean(UID, layout)

    run(story())


def test_many_pods_at_once_all_get_theirs(process, layout, make):
    """Work for different pods goes on side by side."""
    uids = [f"{n:08d}-0000-4000-8000-000000000000" for n in range(100)]

    async def story():
        make()
        for uid in uids:
            process.pod(pod(DATA, uid=uid, fs_group=os.getgid()))
        await process.settled()
        assert all(process.mounts(uid).mounted for uid in uids)
        for uid in uids:
            process.pod(pod(DATA, uid=uid), WorkerState.TERMINATED)
        await process.settled()
        assert all(process.mounts(uid) is None for uid in uids)
        assert all(teardown.is_clean(uid, layout) for uid in uids)

    run(story())


def test_a_uid_that_leads_elsewhere_is_no_pod(process, layout, make):
    """It would become a path."""

    async def story():
        make()
        process.pod(pod(DATA, uid="../../etc"))
        await process.settled()
        assert process.mounts("../../etc") is None
        assert not there(layout.root)

    run(story())


@needs_mounts
def test_a_downward_volume_follows_its_pod(process, make):
    """L-15, L-29: new labels are written, the volume stays mounted while that goes on."""
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    volume = {"name": "d", "downwardAPI": {"items": items}}

    async def story():
        make()
        process.pod(pod(volume, labels={"a": "1"}))
        await process.settled()
        (row,) = process.mounts().volumes
        assert (row.state, row.read_only) == (MOUNTED, True)
        assert len(process.puts) == 1  # a few small files are there before anybody could wait
        process.puts.clear()
        process.pod(pod(volume, labels={"a": "2"}), version=2)
        await process.settled()
        assert content(f"{row.host_path}/labels") == 'a="2"'
        assert [put.mounted for put in process.puts] == [True]
        assert process.records[-1][0] == "updated"
        make()
        await process.settled()
        assert process.puts == []
        process.pod(pod(volume), WorkerState.TERMINATED)
        await process.settled()
        assert process.mounts() is None

    run(story())
