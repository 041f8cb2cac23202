"""The published checker finds nothing wrong with the driver that kubelets are tried with."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.csi.process import CsiDriverProcess, needs_mounts

# What our driver does not offer, and why no test of a kubelet needs it: snapshots, clones, changes
# of parameters, groups and metadata are calls of the cluster's controllers.
NOT_OFFERED = (
    "CreateSnapshot not supported",
    "DeleteSnapshot not supported",
    "ListSnapshots not supported",
    "Snapshot not supported",
    "Volume Cloning not supported",
    "Modify volume not supported",
    "Modify Volume not supported",
    "ControllerModifyVolume not supported",
    "GroupControllerService not supported",
    "testnodevolumeattachlimit not enabled",  # the checker's own switch
)
# And what it leaves out where it is told to.
NOT_WANTED = {
    "--no-stage": ("NodeStageVolume not supported", "NodeUnstageVolume not supported"),
    "--no-attach": (
        "ControllerPublishVolume not supported",
        "ControllerUnpublishVolume not supported",
        "Controller Publish, UnpublishVolume not supported",
        "ControllerPublishVolume.readonly field not supported",
    ),
}


def checked(sanity, place, access, *flags):
    """Run the checker against a driver; its words."""
    with CsiDriverProcess(place, *flags) as driver:
        command = [
            sanity,
            f"-csi.endpoint=unix://{driver.endpoint}",
            f"-csi.mountdir={place}/target",
            f"-csi.stagingdir={place}/staging",
            f"-csi.testvolumeaccesstype={access}",
            f"-csi.testvolumesize={16 << 20}",
            f"-csi.testvolumeexpandsize={32 << 20}",
            "-ginkgo.no-color",
            "-ginkgo.v",
        ]
        run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        driver.stop()
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    return run.stdout


def outcome(text):
    """Return how many specs passed, and the reasons of those that were skipped."""
    passed = re.search(r"(\d+) Passed \| 0 Failed", text)
    assert passed, text[-2000:]
    return int(passed[1]), set(re.findall(r"^  \[SKIPPED\] (?!in )(.+)$", text, re.MULTILINE))


@needs_mounts
@pytest.mark.parametrize(
    ("access", "flags", "least"),
    [("mount", (), 57), ("block", (), 57), ("mount", tuple(NOT_WANTED), 40)],
)
def test_the_published_checker_passes(sanity, place, access, flags, least):
    """Every spec of what the driver offers passes, for directories and for devices (L-43)."""
    passed, skipped = outcome(checked(sanity, place, access, *flags))
    assert passed >= least
    assert skipped <= {*NOT_OFFERED, *(reason for flag in flags for reason in NOT_WANTED[flag])}
