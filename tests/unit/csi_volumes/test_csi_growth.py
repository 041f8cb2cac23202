"""Growing volumes of a CSI driver (L-16), and devices for pods (L-34)."""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import replace

import pytest

from procs.volumes.wants import Growth
from tests.unit.csi_volumes.scene import BLOCK, DRIVER, POD, PODS, WANT
from tests.unit.volumes.standing import needs_mounts, there

pytestmark = needs_mounts
GROWING = replace(WANT, growth=Growth("128Mi", "64Mi", pending=True), expand_secrets=())
INTERNAL, OUT_OF_RANGE, PRECONDITION = 13, 11, 9


def test_a_volume_grows_while_it_is_mounted(play):
    """L-16: after it is published, with its paths; the claim and two events say so, once."""

    async def act(scene):
        done = await scene.up(GROWING)
        assert scene.new_calls() == ["StageVolume", "PublishVolume", "ExpandVolume"]
        request = scene.last("NodeExpandVolume")
        assert request["volume_path"] == done.path
        assert request["staging_target_path"].endswith("/globalmount")
        assert int(request["capacity_range"]["required_bytes"]) == 128 << 20
        assert scene.node.notes() == ["begun", "done"]
        for kind in ("Pod", "PersistentVolumeClaim"):
            assert scene.node.events(kind) == ["FileSystemResizeSuccessful"]
        assert (await scene.up(GROWING)).again == 0
        assert scene.new_calls() == []

    play(act)


def test_a_volume_grows_while_it_is_in_use(play):
    """L-16: once, though two pods have it."""

    async def act(scene):
        for pod in PODS:
            await scene.up(pod=pod)
        scene.new_calls()
        await asyncio.gather(*(scene.up(GROWING, pod) for pod in PODS))
        assert scene.new_calls() == ["ExpandVolume"]
        assert scene.node.notes() == ["begun", "done"]

    play(act)


@pytest.mark.parametrize(
    ("code", "infeasible", "again"),
    [(INTERNAL, False, True), (OUT_OF_RANGE, True, True), (PRECONDITION, False, False)],
)
def test_a_volume_in_use_stays_when_it_does_not_grow(play, code, infeasible, again):
    """L-16: it is told and tried again, unless the driver wants it out of use first."""

    async def act(scene):
        await scene.up()
        scene.driver.fault("NodeExpandVolume", "fail", code=code)
        done = await scene.up(GROWING)
        assert (not done.changed, bool(done.again)) == (True, again)
        assert scene.node.notes() == ["begun", "failed"]
        note = next(n for n in scene.node.asked if getattr(n, "step", "") == "failed")
        assert note.infeasible is infeasible
        assert scene.node.events() == (["VolumeResizeFailed"] if again else [])
        scene.new_calls()
        await scene.up(GROWING)
        assert scene.new_calls() == (["ExpandVolume"] if again else [])

    play(act)


def test_a_volume_that_does_not_grow_while_it_is_mounted_keeps_its_pod_waiting(play):
    """L-16: the next attempt begins with publishing, which changes nothing."""

    async def act(scene):
        scene.driver.fault("NodeExpandVolume", "fail", code=INTERNAL)
        assert "NodeExpandVolume" in str(await scene.fails(GROWING))
        scene.new_calls()
        assert (await scene.up(GROWING)).changed
        assert scene.new_calls() == ["PublishVolume", "ExpandVolume"]
        await scene.down(GROWING)
        assert scene.left() == []

    play(act)


def test_a_driver_that_cannot_grow_volumes_is_named(play):
    """L-16: the claim is told why."""

    async def act(scene):
        text = f"NodeExpand is not supported by the CSI driver {DRIVER}"
        assert str(await scene.fails(GROWING)) == text
        assert scene.node.notes() == ["begun", "failed"]

    play(act, "--no-expand")


def test_what_is_read_only_does_not_grow(play):
    """L-16: an event says so, and the pod has its volume."""
    wanted = replace(GROWING, of=replace(GROWING.of, read_only=True))

    async def act(scene):
        assert (await scene.up(wanted)).changed
        assert scene.new_calls() == ["StageVolume", "PublishVolume"]
        assert scene.node.events() == ["FileSystemResizeFailed"]

    play(act)


@pytest.mark.parametrize(("step", "calls"), [("begun", ["ExpandVolume"]), ("done", [])])
def test_a_claim_that_was_not_told_is_told_later(play, step, calls):
    """L-16: nothing is begun unsaid, and nothing is done twice because nobody listened."""

    async def act(scene):
        await scene.up()
        scene.node.note_errors[step] = "no API server"
        assert (await scene.up(GROWING)).again > 0
        scene.new_calls()
        scene.node.note_errors.clear()
        assert (await scene.up(GROWING)).again == 0
        assert scene.new_calls() == calls
        assert scene.node.notes()[-1] == "done"

    play(act)


# Devices.


def test_a_device_is_published_and_linked_to(play):
    """L-34: staged, published, bound, locked; the pod's link leads to a block device."""

    async def act(scene):
        done = await scene.up(BLOCK)
        assert scene.new_calls() == ["StageVolume", "PublishVolume"]
        devices = f"{scene.layout.root}/plugins/kubernetes.io/csi/volumeDevices"
        assert done.path == scene.standing(BLOCK)
        assert os.readlink(done.path) == f"{devices}/publish/pv1/{POD.uid}"
        assert stat.S_ISBLK(os.stat(done.path).st_mode)
        assert scene.last("NodeStageVolume")["staging_target_path"] == f"{devices}/staging/pv1"
        assert "block" in scene.last("NodePublishVolume")["volume_capability"]
        assert there(f"{devices}/pv1/data/vol_data.json")
        scene.restart()
        assert not (await scene.up(BLOCK)).changed
        assert scene.new_calls() == []
        await scene.down(BLOCK)
        assert scene.new_calls() == ["UnpublishVolume", "UnstageVolume"]
        assert (scene.mounted(), scene.left()) == ([], [])

    play(act)


def test_two_pods_have_one_device(play):
    """L-34: it is staged once and unstaged after the last one."""

    async def act(scene):
        await asyncio.gather(*(scene.up(BLOCK, pod) for pod in PODS))
        assert sorted(scene.new_calls()) == ["PublishVolume", "PublishVolume", "StageVolume"]
        await scene.down(BLOCK, PODS[0])
        assert scene.new_calls() == ["UnpublishVolume"]
        await scene.down(BLOCK, PODS[1])
        assert scene.new_calls() == ["UnpublishVolume", "UnstageVolume"]
        assert (scene.mounted(), scene.left()) == ([], [])

    play(act)


@pytest.mark.parametrize("method", ["NodeStageVolume", "NodePublishVolume"])
@pytest.mark.parametrize("code", [INTERNAL, 14])
def test_a_device_that_failed_is_had_by_a_retry_or_undone(play, method, code):
    """L-43: the same for devices, by a successor."""

    async def act(scene):
        for give_up in (True, False):
            scene.driver.fault(method, "fail", code=code)
            await scene.fails(BLOCK)
            scene.restart()
            if not give_up:
                await scene.up(BLOCK)
            await scene.down(BLOCK)
            assert (scene.mounted(), scene.left()) == ([], [])

    play(act)
