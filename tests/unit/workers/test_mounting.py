"""Waiting for volumes: what is said meanwhile, and how it ends (P-56, L-10, L-17)."""

from __future__ import annotations

import asyncio

import pytest

from kubelet.pods.rows import VolumeRow, VolumeState, Wait, WorkerState
from kubelet.pods.runtime import ContainerRecord, PodRecord
from procs.syncloop.workers.mounting import Missing, Said, failure, missing, mounted, volume_wait
from procs.syncloop.workers.retry import RetryError
from tests.unit.workers.volume_scene import NOW, UID, Scene, pod

FAILED, PENDING, MOUNTED = VolumeState.FAILED, VolumeState.PENDING, VolumeState.MOUNTED
STAGING = "NodeStageVolume of CSI driver d: no"


@pytest.fixture
def scene(tmp_path):
    """A pod with two volumes."""
    made = Scene(tmp_path, pod("a", "b"))
    yield made
    made.close()


async def turns(number=10):
    """Let everybody else do what they can."""
    for _ in range(number):
        await asyncio.sleep(0)


def both(scene, story, record=None):
    """Wait for the volumes while a story goes on; what the wait came to."""

    async def main():
        task = asyncio.ensure_future(mounted(scene.worker, scene.pod, record))
        await turns()
        await story(task)
        return await task

    return asyncio.run(main())


def test_volumes_that_are_there_are_not_waited_for(scene):
    """P-56: with everything mounted nothing is said and nothing is waited for."""
    scene.write(VolumeRow("a", MOUNTED), VolumeRow("b", MOUNTED))
    found = asyncio.run(mounted(scene.worker, scene.pod, None))
    assert [volume.name for volume in found.volumes] == ["a", "b"]
    assert scene.worker.work.step == ""


def test_the_last_volume_ends_the_wait(scene):
    """P-56: the wait ends with the row that has all, and only if it is for the pod as it is now."""

    async def story(task):
        scene.write(VolumeRow("a", MOUNTED), VolumeRow("b", PENDING))
        await turns()
        scene.write(VolumeRow("a", MOUNTED), VolumeRow("b", MOUNTED), version=0)
        await turns()
        assert not task.done()
        scene.write(VolumeRow("a", MOUNTED), VolumeRow("b", MOUNTED))

    assert both(scene, story).version == 1
    assert scene.events == []


def test_a_failure_is_told_at_once_and_once(scene):
    """L-10: an event comes with the row that tells of a failure; the same one is not told again."""

    async def story(_task):
        for retry in (1, 2):
            late = VolumeRow("b", FAILED, reason="no server", retry_ns=NOW + retry)
            scene.write(VolumeRow("a", PENDING, reason="not yet"), late)
            await turns()
            assert len(scene.events) == 1
        waits = scene.worker.work.waits
        assert [wait.what for wait in waits] == ["volume a to be mounted", "volume b to be mounted"]
        assert waits[1].tried == "no server"
        assert waits[1].next_ns == NOW + 2
        scene.write(VolumeRow("a", MOUNTED), VolumeRow("b", FAILED, reason="another"))
        await turns()
        scene.write(VolumeRow("a", MOUNTED), VolumeRow("b", MOUNTED))

    both(scene, story)
    assert scene.events == [
        ("FailedMount", 'MountVolume.SetUp failed for volume "b" : no server', ""),
        ("FailedMount", 'MountVolume.SetUp failed for volume "b" : another', ""),
    ]


def test_a_wait_that_is_too_long_lists_what_is_missing(scene):
    """L-10: after 2m3s an event lists the volumes by what they lack, and it is tried again."""
    scene.write(VolumeRow("a", PENDING, device="d", reason="waiting to be attached"))

    async def story():
        task = asyncio.ensure_future(mounted(scene.worker, scene.pod, None))
        await turns()
        scene.now += 124 * 10**9
        scene.write(VolumeRow("a", FAILED, device="d", reason="AttachVolume.Attach failed"))
        with pytest.raises(RetryError, match="Unable to attach or mount volumes"):
            await task

    asyncio.run(story())
    text = (
        "Unable to attach or mount volumes: unmounted volumes=[a b], unattached volumes=[a], "
        "failed to process volumes=[b]: timed out waiting for the condition"
    )
    assert scene.events[-1] == ("FailedMount", text, "")


@pytest.mark.parametrize("ran", [False, True])
def test_a_volume_that_can_never_be_had_fails_the_pod(scene, ran):
    """L-17: the pod ends with the row's reason and message; one that ran keeps its past."""
    container = ContainerRecord("c1", "main")
    record = PodRecord(UID, containers=(container,)) if ran else None

    async def story(_task):
        fatal = "VolumeAttachmentLimitExceeded"
        scene.write(VolumeRow("a", FAILED, reason="no room for a", fatal=fatal))

    assert both(scene, story, record) is None
    assert scene.events == [("VolumeAttachmentLimitExceeded", "no room for a", "")]
    row = scene.worker.row
    assert row.state is WorkerState.TERMINATING
    assert (row.ending.failed, row.ending.reason) == (True, "VolumeAttachmentLimitExceeded")
    assert row.ending.message == "no room for a"
    assert bool(row.rejected) is not ran


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            VolumeRow("v", FAILED, reason="x"),
            Said("FailedMount", 'MountVolume.SetUp failed for volume "v" : x'),
        ),
        (
            VolumeRow("v", FAILED, reason="x", block=True),
            Said("FailedMapVolume", 'MapVolume.MapPodDevice failed for volume "v" : x'),
        ),
        (
            VolumeRow("v", FAILED, reason="x", spec="pv"),
            Said("FailedMount", 'MountVolume.SetUp failed for volume "pv" : x'),
        ),
        (
            VolumeRow("v", FAILED, reason=STAGING),
            Said("FailedMount", f'MountVolume.MountDevice failed for volume "v" : {STAGING}'),
        ),
        (
            VolumeRow("v", FAILED, reason=STAGING, block=True),
            Said("FailedMapVolume", f'MapVolume.SetUpDevice failed for volume "v" : {STAGING}'),
        ),
        (
            VolumeRow("v", FAILED, reason='MountVolume.MountDevice failed for volume "pv" : x'),
            Said("FailedMount", 'MountVolume.MountDevice failed for volume "pv" : x'),
        ),
        (
            VolumeRow("v", FAILED, reason='AttachVolume.Attach failed for volume "pv" : x'),
            Said("FailedAttachVolume", 'AttachVolume.Attach failed for volume "pv" : x'),
        ),
    ],
)
def test_the_event_about_a_volume(row, expected):
    """L-10: the event names the step that failed, where the volume's row says which."""
    assert failure(row) == expected


def test_missing_volumes_are_sorted_by_what_they_lack():
    """L-10: unmounted are all; unattached those of a controller; unprocessed those unknown yet."""
    rows = [
        VolumeRow("there", MOUNTED),
        VolumeRow("slow", PENDING, claim="n/c", operation="NodePublishVolume of d"),
        VolumeRow("far", PENDING, claim="n/c", device="d", reason="not attached yet"),
        VolumeRow("near", PENDING, claim="n/c", device="d", operation="NodeStageVolume of d"),
        VolumeRow("claimed", PENDING, claim="n/c", reason="claim n/c is not bound"),
    ]
    names = ["there", "slow", "far", "near", "claimed", "absent"]
    assert missing(names, rows) == Missing(
        ("absent", "claimed", "far", "near", "slow"), ("far",), ("absent", "claimed")
    )


def test_what_is_under_way_is_said_with_its_beginning():
    """``kubeletctl why`` says what a volume is at and since when, or when it is tried again."""
    busy = VolumeRow("v", PENDING, since_ns=1, operation="mount -t nfs", operation_ns=2)
    what = "volume v to be mounted: mount -t nfs under way"
    assert volume_wait(busy, "mounted") == Wait(what, 2)
    late = VolumeRow("v", FAILED, since_ns=1, reason="x", retry_ns=3)
    assert volume_wait(late, "unmounted") == Wait(
        "volume v to be unmounted", 1, "x", "it is tried again", 3
    )
    refused = VolumeRow("v", FAILED, since_ns=1, reason="x")
    assert volume_wait(refused, "mounted").next == (
        "it is tried when the pod or what it refers to is changed"
    )
