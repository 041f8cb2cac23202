"""Calls to a driver that works, refuses, hangs and dies; and what a node without drivers loads."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from procs.volumes.csi.driver import Driver
from procs.volumes.csi.errors import CsiError
from procs.volumes.csi.wire import csi_pb2 as pb
from tests.csi.controls import DIE_AFTER, DIE_BEFORE, FAIL, HANG
from tests.csi.process import CsiDriverProcess, needs_mounts

INFO = ("NodeGetInfo", pb.NodeGetInfoRequest(), pb.NodeGetInfoResponse)


def told(place, story, *flags):
    """Run a story with a driver and its process."""

    async def run():
        with CsiDriverProcess(place, *flags) as process:
            driver = Driver(process.name, process.endpoint)
            try:
                await story(driver, process)
            finally:
                driver.retire()

    asyncio.run(run())


async def refused(driver, method=INFO[0], seconds=30.0, request=INFO[1], reply=INFO[2]):
    with pytest.raises(CsiError) as caught:
        await driver.call(method, request, reply, seconds)
    return caught.value


def test_capabilities_are_asked_for_once(place):
    """L-43: what a driver can do stays for the life of its registration."""

    async def story(driver, process):
        kinds = pb.NodeServiceCapability.RPC
        wanted = {kinds.GET_VOLUME_STATS, kinds.VOLUME_CONDITION, kinds.EXPAND_VOLUME}
        assert await driver.capabilities() == wanted
        assert await driver.capabilities() == wanted
        assert len(process.calls("NodeGetCapabilities")) == 1

    told(place, story, "--no-stage")


@pytest.mark.parametrize(("code", "final"), [(13, True), (5, True), (10, False), (14, False)])
def test_a_refusal_has_code_and_words(place, code, final):
    """L-43: what the driver said is in the error, and whether it may still be at it."""

    async def story(driver, process):
        process.fault("NodeGetInfo", FAIL, code=code, message="not today")
        error = await refused(driver)
        assert (error.code, error.final, error.method) == (code, final, "NodeGetInfo")
        assert "not today" in str(error)
        assert (await driver.call(*INFO)).node_id == "this-node"

    told(place, story)


@pytest.mark.parametrize("when", [DIE_BEFORE, DIE_AFTER])
def test_a_driver_that_dies_in_a_call_is_noticed_and_its_successor_is_found(place, when):
    """L-43: the call ends as unavailable, not at its time-out; the next finds the new driver."""

    async def story(driver, process):
        process.fault("NodeGetInfo", when)
        error = await refused(driver, seconds=1000.0)
        assert (error.code, error.final) == (14, False)
        process.wait()
        error = await refused(driver, seconds=1000.0)
        assert (error.code, error.final) == (14, False)
        process.start()
        assert (await driver.call(*INFO)).node_id == "this-node"

    told(place, story)


def test_a_call_that_hangs_costs_only_itself(place):
    """L-43: others are answered meanwhile, and it ends uncertain when its time is over."""

    async def story(driver, process):
        process.fault("NodeGetInfo", HANG)
        hanging = asyncio.create_task(refused(driver, seconds=2.0))
        await asyncio.to_thread(process.await_call, "NodeGetInfo", ended=False)
        await driver.capabilities()
        assert not hanging.done()
        error = await hanging
        assert (error.code, error.final) == (4, False)
        process.clear("NodeGetInfo")

    told(place, story)


def test_a_retired_driver_ends_the_calls_it_has_and_takes_more(place):
    """Who still holds a driver that was replaced can finish with it."""

    async def story(driver, process):
        process.fault("NodeGetInfo", HANG)
        waiting = asyncio.create_task(driver.call(*INFO))
        await asyncio.to_thread(process.await_call, "NodeGetInfo", ended=False)
        driver.retire()
        process.clear("NodeGetInfo")
        assert (await waiting).node_id == "this-node"
        assert (await driver.call(*INFO)).node_id == "this-node"

    told(place, story)


def test_secrets_are_in_no_error_and_in_no_log(place):
    """What a driver repeats of what it was told in confidence is taken out."""

    async def story(driver, process):
        tokens = "csi.storage.k8s.io/serviceAccount.tokens"
        request = pb.NodePublishVolumeRequest(
            volume_id="v", secrets={"key": "hush-hush"}, volume_context={tokens: "token-text"}
        )
        words = "bad key hush-hush with token-text"
        process.fault("NodePublishVolume", FAIL, code=16, message=words)
        reply = pb.NodePublishVolumeResponse
        error = await refused(driver, "NodePublishVolume", request=request, reply=reply)
        assert "bad key <secret> with <secret>" in str(error)
        assert "hush" not in str(error) + repr(error) + repr(driver)
        (call,) = process.calls("NodePublishVolume")
        assert call["request"]["secrets"] == ["key"]
        assert "token-text" not in str(call)

    told(place, story)


def volume_at(place, fs_type):
    """The requests of a volume's life on a node."""
    staging, target = place / "staging", place / "pod" / "mount"
    staging.mkdir()
    target.parent.mkdir()
    how = pb.VolumeCapability(mount={"fs_type": fs_type}, access_mode={"mode": 1})
    places = {"volume_id": "v", "staging_target_path": str(staging)}
    size = {"required_bytes": 256 << 20}
    return target, {
        "NodeStageVolume": pb.NodeStageVolumeRequest(**places, volume_capability=how),
        "NodePublishVolume": pb.NodePublishVolumeRequest(
            **places, target_path=str(target), volume_capability=how
        ),
        "NodeExpandVolume": pb.NodeExpandVolumeRequest(
            volume_id="v", volume_path=str(target), capacity_range=size
        ),
        "NodeUnpublishVolume": pb.NodeUnpublishVolumeRequest(
            volume_id="v", target_path=str(target)
        ),
        "NodeUnstageVolume": pb.NodeUnstageVolumeRequest(**places),
    }


async def make(driver, requests, *methods):
    """Make these calls of a volume's life."""
    for method in methods:
        await driver.call(method, requests[method], getattr(pb, f"{method}Response"))


@needs_mounts
@pytest.mark.parametrize("fs_type", ["", "ext4", "tmpfs"])
def test_our_driver_really_mounts_and_remembers(place, fs_type):
    """A volume is staged and published, survives the driver's death, and leaves nothing."""

    async def story(driver, process):
        target, requests = volume_at(place, fs_type)
        await make(driver, requests, "NodeStageVolume", "NodePublishVolume")
        (target / "file").write_text("kept")
        process.kill()
        process.start()
        await make(driver, requests, "NodeStageVolume", "NodePublishVolume")
        assert (target / "file").read_text() == "kept"
        assert (await stats(driver, target)).usage[0].total
        await make(driver, requests, "NodeUnpublishVolume", "NodeUnstageVolume")
        assert not target.exists()
        assert list((place / "staging").iterdir()) == []

    told(place, story, "--create-unknown")


@needs_mounts
def test_a_volume_of_our_driver_grows_and_falls_ill(place):
    """L-16, L-46: there is more room after NodeExpandVolume; a condition is what a test says."""

    async def story(driver, process):
        target, requests = volume_at(place, "tmpfs")
        await make(driver, requests, "NodeStageVolume", "NodePublishVolume")
        assert (await stats(driver, target)).usage[0].total == 64 << 20
        await make(driver, requests, "NodeExpandVolume")
        process.set(conditions={"v": "a disk is broken"})
        now = await stats(driver, target)
        assert now.usage[0].total == 256 << 20
        assert now.volume_condition.abnormal
        assert now.volume_condition.message == "a disk is broken"
        await make(driver, requests, "NodeUnpublishVolume", "NodeUnstageVolume")

    told(place, story, "--create-unknown")


async def stats(driver, target):
    request = pb.NodeGetVolumeStatsRequest(volume_id="v", volume_path=str(target))
    return await driver.call("NodeGetVolumeStats", request, pb.NodeGetVolumeStatsResponse)


@pytest.mark.parametrize("module", ["registration", "drivers", "driver"])
def test_a_node_without_drivers_loads_no_grpc(module):
    """What every node imports costs it neither gRPC nor protobuf."""
    code = f"import sys, procs.volumes.csi.{module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"grpc", "google.protobuf"} & set(run.stdout.split())
