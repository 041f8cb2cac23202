"""Volumes of a real CSI driver: staged, published, shared, and killed half way (L-42, L-43)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
from dataclasses import replace

import pytest

from kubelet.channels.messages import Attachment
from kubelet.cluster.rows import CsiDriverRow
from procs.volumes.csi.attach import AttachLimitError
from procs.volumes.csi.saved import RESERVED
from procs.volumes.errors import VolumeError, WaitingError
from tests.unit.csi_volumes.scene import DRIVER, INLINE, NO_ATTACH, NODE, POD, PODS, WANT, write
from tests.unit.volumes.standing import content, needs_mounts, there

pytestmark = needs_mounts
UP = ["StageVolume", "PublishVolume"]
DOWN = ["UnpublishVolume", "UnstageVolume"]
UNAVAILABLE, INTERNAL = 14, 13
DEVICE = f"kubernetes.io/csi/{DRIVER}^vol-1"
ATTACHED = replace(WANT, info=CsiDriverRow(DRIVER), device=DEVICE)


def stage_directory(scene):
    name = hashlib.sha256(b"vol-1").hexdigest()
    return f"{scene.layout.root}/plugins/kubernetes.io/csi/{DRIVER}/{name}"


def test_a_volume_is_staged_and_published_where_every_kubelet_has_it(play):
    """L-42: paths and records are those of the Go kubelet; then no call is made any more."""

    async def act(scene):
        done = await scene.up()
        assert done.path == f"{scene.standing()}/mount"
        assert done.changed
        assert scene.new_calls() == UP
        assert scene.last("NodeStageVolume")["staging_target_path"] == (
            f"{stage_directory(scene)}/globalmount"
        )
        attachment = hashlib.sha256(f"vol-1{DRIVER}{NODE}".encode()).hexdigest()
        data = scene.data()
        assert data.pop("state").startswith("published")
        assert data == {
            "specVolID": "pv1",
            "volumeHandle": "vol-1",
            "driverName": DRIVER,
            "nodeName": NODE,
            "volumeLifecycleMode": "Persistent",
            "attachmentID": f"csi-{attachment}",
        }
        staged = json.loads(content(f"{stage_directory(scene)}/vol_data.json"))
        assert staged == {"driverName": DRIVER, "volumeHandle": "vol-1"}
        again = await scene.up()
        assert (again.path, again.changed, again.again) == (done.path, False, 0.0)
        scene.restart()
        assert not (await scene.up()).changed
        scene.drivers.remove(DRIVER)
        assert not (await scene.up()).changed
        assert scene.new_calls() == []

    play(act)


def test_nothing_is_left_of_a_volume_that_is_taken_down(play):
    """L-43: unpublished, unstaged, no mount and no file; again it is no error."""

    async def act(scene):
        await scene.up()
        scene.new_calls()
        await scene.down()
        assert scene.new_calls() == DOWN
        assert (scene.mounted(), scene.left()) == ([], [])
        assert not there(scene.standing())
        assert not there(stage_directory(scene))
        assert scene.said == [f"Node{call} of {DRIVER}" for call in (*UP, *DOWN)]
        await scene.down()
        assert scene.new_calls() == []

    play(act)


def test_two_pods_share_what_is_staged(play):
    """L-42: staged once, though both come together; unstaged after the last one, in any order."""

    async def act(scene):
        await asyncio.gather(*(scene.up(pod=pod) for pod in PODS))
        assert sorted(scene.new_calls()) == ["PublishVolume", "PublishVolume", "StageVolume"]
        await scene.down(pod=PODS[0])
        assert scene.new_calls() == ["UnpublishVolume"]
        await scene.up(pod=PODS[0])
        assert scene.new_calls() == ["PublishVolume"]
        await asyncio.gather(*(scene.down(pod=pod) for pod in PODS))
        assert sorted(scene.new_calls()) == ["UnpublishVolume", "UnpublishVolume", "UnstageVolume"]
        assert (scene.mounted(), scene.left()) == ([], [])

    play(act)


def test_a_driver_that_does_not_stage_is_not_asked_to(play):
    """L-43: without STAGE_UNSTAGE_VOLUME there is no stage at all."""

    async def act(scene):
        await scene.up()
        await scene.down()
        assert scene.new_calls() == ["PublishVolume", "UnpublishVolume"]
        assert scene.left() == []

    play(act, "--no-stage")


def test_an_inline_volume_is_only_published(play):
    """L-45, L-47: with the pod's data, and without a stage."""

    async def act(scene):
        done = await scene.up(INLINE)
        assert done.path == f"{scene.standing(INLINE)}/mount"
        assert scene.data(INLINE)["volumeLifecycleMode"] == "Ephemeral"
        context = scene.last("NodePublishVolume")["volume_context"]
        assert context["csi.storage.k8s.io/ephemeral"] == "true"
        assert context["csi.storage.k8s.io/pod.uid"] == POD.uid
        await scene.down(INLINE)
        assert scene.new_calls() == ["PublishVolume", "UnpublishVolume"]
        assert scene.left() == []

    play(act)


@pytest.mark.parametrize("method", ["NodeStageVolume", "NodePublishVolume"])
@pytest.mark.parametrize("do", ["fail", "fail-after"])
@pytest.mark.parametrize("code", [INTERNAL, UNAVAILABLE])
def test_after_any_failure_it_is_tried_again_or_undone(play, method, do, code):
    """L-43: whatever the driver did in secret, a retry has it, and giving up leaves nothing."""

    async def act(scene):
        for give_up in (True, False):
            scene.driver.fault(method, do, code=code)
            assert method in str(await scene.fails())
            scene.restart()
            if not give_up:
                assert (await scene.up()).changed
            await scene.down()
            assert (scene.mounted(), scene.left()) == ([], [])

    play(act)


def test_what_finally_is_not_staged_leaves_nothing(play):
    """L-43: a final answer means that nothing is under way: our directories go at once."""

    async def act(scene):
        scene.driver.fault("NodeStageVolume", "fail", code=INTERNAL)
        await scene.fails()
        assert scene.left() == []
        assert not there(scene.standing())

    play(act)


def test_what_finally_is_not_published_is_not_unpublished(play):
    """L-43: it stays staged for the next attempt; taken down, it is only unstaged."""

    async def act(scene):
        scene.driver.fault("NodePublishVolume", "fail", code=INTERNAL)
        await scene.fails()
        assert scene.data()["state"] == RESERVED
        scene.new_calls()
        await scene.down()
        assert scene.new_calls() == ["UnstageVolume"]
        assert scene.left() == []

    play(act)


def test_what_may_be_published_is_unpublished(play):
    """L-43: after an answer that settles nothing the record stays, and with it the duty."""

    async def act(scene):
        scene.driver.fault("NodePublishVolume", "fail-after", code=UNAVAILABLE)
        await scene.fails()
        scene.restart()
        scene.new_calls()
        await scene.down()
        assert scene.new_calls() == DOWN
        assert (scene.mounted(), scene.left()) == ([], [])

    play(act)


@pytest.mark.parametrize("method", ["NodeUnpublishVolume", "NodeUnstageVolume"])
def test_taking_down_goes_on_where_it_failed(play, method):
    """What is done is not done again; the record goes last, so nothing is forgotten."""

    async def act(scene):
        await scene.up()
        scene.driver.fault(method, "fail")
        with pytest.raises(VolumeError, match=method):
            await scene.down()
        assert there(f"{scene.standing()}/vol_data.json")
        scene.restart()
        scene.new_calls()
        await scene.down()
        assert scene.new_calls() == (DOWN if method == "NodeUnpublishVolume" else DOWN[1:])
        assert (scene.mounted(), scene.left()) == ([], [])

    play(act)


@pytest.mark.parametrize("method", ["NodeStageVolume", "NodePublishVolume"])
def test_a_successor_finishes_what_was_cut_off(play, method):
    """Killed in a call: the record was there before it, and the call is made again."""

    async def act(scene):
        scene.driver.fault(method, "hang")
        task = asyncio.ensure_future(scene.up())
        await asyncio.to_thread(scene.driver.await_call, method, ended=False)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert there(f"{scene.standing()}/vol_data.json")
        scene.driver.clear(method)
        # The driver does what it was asked for by the one that died, and only then what we ask.
        await asyncio.to_thread(scene.driver.await_call, method)
        scene.restart()
        assert (await scene.up()).changed
        await scene.down()
        assert (scene.mounted(), scene.left()) == ([], [])

    play(act)


def test_a_lost_mount_is_made_again(play):
    """After a reboot, or an unmount by hand, the record alone counts for nothing."""

    async def act(scene):
        done = await scene.up()
        for path in (done.path, f"{stage_directory(scene)}/globalmount"):
            await scene._ops.command(["umount", path], key=path)
        scene.new_calls()
        assert (await scene.up()).changed
        assert scene.new_calls() == UP

    play(act)


def test_a_record_of_another_kubelet_is_taken_over(play):
    """Without our mark the volume is published again, which changes nothing, and taken down."""

    async def act(scene):
        await scene.up()
        data = scene.data()
        del data["state"]
        write(f"{scene.standing()}/vol_data.json", json.dumps(data))
        scene.restart()
        scene.new_calls()
        await scene.up()
        assert scene.new_calls() == UP
        await scene.down()
        assert scene.new_calls() == DOWN

    play(act)


def test_records_that_say_nothing_are_named(play):
    """A broken file is an error with its name; an empty directory is simply removed."""

    async def act(scene):
        os.makedirs(scene.standing())
        await scene.down()
        assert not there(scene.standing())
        path = f"{scene.standing()}/vol_data.json"
        for broken in ("{", "[]", '{"driverName": "", "volumeHandle": "x"}'):
            os.makedirs(scene.standing(), exist_ok=True)
            write(path, broken)
            with pytest.raises(VolumeError, match=r"vol_data\.json"):
                await scene.down()
        os.unlink(path)
        await scene.up()
        os.unlink(path)
        with pytest.raises(VolumeError, match=r"is mounted, but .*vol_data\.json is missing"):
            await scene.down()
        assert scene.mounted()

    play(act)


def test_a_driver_that_is_not_there_is_named(play):
    """Nothing is written or removed without it, and it goes on when it registers."""

    async def act(scene):
        missing = f"driver name {DRIVER} not found in the list of registered CSI drivers"
        scene.drivers.remove(DRIVER)
        assert str(await scene.fails()) == missing
        assert scene.left() == []
        scene.register()
        await scene.up()
        scene.drivers.remove(DRIVER)
        with pytest.raises(VolumeError, match=missing):
            await scene.down()
        assert scene.data()["volumeHandle"] == "vol-1"
        scene.register()
        await scene.down()
        assert scene.left() == []

    play(act)


def test_what_is_staged_for_nobody_is_unstaged_when_its_driver_comes(play):
    """A pod's record may be lost with its disk: the stage's own tells; what is wanted stays."""

    async def act(scene):
        await scene.up()
        await scene._ops.command(["umount", f"{scene.standing()}/mount"], key="u")
        os.unlink(f"{scene.standing()}/vol_data.json")
        scene.restart()
        scene.new_calls()
        await scene.plugin.unstage_unused(frozenset({(DRIVER, "vol-1")}))
        assert scene.new_calls() == []
        scene.drivers.remove(DRIVER)
        task = asyncio.ensure_future(scene.plugin.unstage_unused(frozenset()))
        await asyncio.sleep(0)
        scene.register()
        await task
        assert scene.new_calls() == ["UnstageVolume"]
        assert scene.mounted() == []

    play(act)


def test_attaching_is_waited_for_and_its_data_are_passed_on(play):
    """L-13, L-44: not before it is in use and attached; then with the attachment's metadata."""

    async def act(scene):
        for lacking in ({"in_use": False}, {"attached": False}):
            assert isinstance(await scene.fails(replace(ATTACHED, **lacking)), WaitingError)
        assert scene.node.asked == []
        assert "there is no volume attachment csi-" in str(await scene.fails(ATTACHED))
        scene.node.attachment = Attachment(found=True, attach_error="no such disk")
        assert "no such disk" in str(await scene.fails(ATTACHED))
        scene.node.attachment = Attachment(found=True, error="timeout")
        assert "could not be read: timeout" in str(await scene.fails(ATTACHED))
        assert scene.left() == []
        scene.node.attachment = Attachment(found=True, attached=True, metadata={"path": "/dev/x"})
        await scene.up(ATTACHED)
        for method in ("NodeStageVolume", "NodePublishVolume"):
            assert scene.last(method)["publish_context"] == {"path": "/dev/x"}

    play(act)


def test_a_full_node_fails_the_pod_after_a_while(play):
    """L-17: the attacher's words are told soon, and its ResourceExhausted is final later."""

    async def act(scene):
        now = [1000.0]
        await scene.up(INLINE)
        scene.plugin._volumes.attachments._clock = lambda: now[0]
        waiting = replace(ATTACHED, attached=False)
        scene.node.attachment = Attachment(found=True, attach_error="full", attach_code=8)
        assert "full" not in str(await scene.fails(waiting))
        now[0] += 6
        err = await scene.fails(waiting)
        assert "full" in str(err)
        assert isinstance(err, WaitingError)
        now[0] += 120
        err = await scene.fails(waiting)
        assert isinstance(err, AttachLimitError)
        assert err.reason == "VolumeAttachmentLimitExceeded"

    play(act)


@pytest.mark.parametrize("flags", [(), ("--mount-group",)])
def test_files_are_given_to_the_group_unless_the_driver_does_it(play, flags):
    """L-33: by us through the mount, or by the driver that is told the group."""
    wanted = replace(WANT, of=replace(WANT.of, fs_group=4711), gives=True, fs_type="")

    async def act(scene):
        done = await scene.up(wanted)
        found = os.stat(done.path)
        assert found.st_gid == 4711
        assert found.st_mode & stat.S_ISGID
        mount = scene.last("NodePublishVolume")["volume_capability"].get("mount", {})
        assert mount.get("volume_mount_group") == ("4711" if flags else None)
        assert ("change of ownership" in scene.said) is not bool(flags)

    play(act, *flags)


def test_a_driver_that_wants_it_is_asked_again_and_again(play):
    """L-15: requiresRepublish; a failure is told and leaves the pod its volume."""
    wanted = replace(WANT, info=replace(NO_ATTACH, requires_republish=True))

    async def act(scene):
        done = await scene.up(wanted)
        assert 60 <= done.again <= 90
        scene.new_calls()
        again = await scene.up(wanted)
        assert (again.changed, again.again) == (False, done.again)
        assert scene.new_calls() == ["PublishVolume"]
        scene.driver.fault("NodePublishVolume", "fail")
        failed = await scene.up(wanted)
        assert failed.path == done.path
        assert 0 < failed.again < 60
        assert scene.node.events() == ["FailedMount"]
        assert done.path in scene.mounted()
        assert scene.data()["state"].startswith("published")

    play(act)


def test_a_driver_tells_how_full_a_volume_is(play):
    """L-50: where it can; and not where it cannot."""

    async def act(scene):
        done = await scene.up()
        stage = scene.plugin.stage_path(DRIVER, "vol-1", "pv1")
        assert stage == f"{stage_directory(scene)}/globalmount"
        found = await scene.plugin.volume_stats(DRIVER, "vol-1", done.path, stage)
        assert found.usage

    async def silent(scene):
        done = await scene.up()
        assert await scene.plugin.volume_stats(DRIVER, "vol-1", done.path, "") is None

    play(act)
    play(silent, "--no-stats")
