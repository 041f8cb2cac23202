"""Devices as volumes (L-34): the link, the bind mount and the lock, and all of them gone again."""

from __future__ import annotations

import os

import pytest

from procs.volumes import blockdev, mounts, mounttable
from procs.volumes.errors import VolumeError
from procs.volumes.wants import Persistent
from tests.unit.volumes.disks import disk, needs_loops
from tests.unit.volumes.standing import UID
from tests.unit.volumes.test_volumes_local import Node

BLOCK = Persistent("pv-1", block=True)


@pytest.fixture
def node(layout):
    """A node with its root directory."""
    os.makedirs(layout.root)
    return Node(layout)


@needs_loops
def test_a_device_is_mapped_locked_and_given_back(node, tmp_path):
    """L-34: where the Go kubelet has them, so that either finds what the other has left."""
    root = node.layout.root
    held = f"{root}/plugins/kubernetes.io~local-volume/volumeDevices/pv-1/{UID}"
    with disk(tmp_path / "image") as device:
        (tmp_path / "link").symlink_to(device)
        done = node.set_up(tmp_path / "link", BLOCK)
        assert done.path == f"{root}/pods/{UID}/volumeDevices/kubernetes.io~local-volume/pv-1"
        assert done.changed
        assert os.readlink(done.path) == device
        assert os.stat(held).st_rdev == os.stat(device).st_rdev
        assert mounttable.at(held) is not None
        loop = blockdev.loop_of(held)
        assert loop.startswith("/dev/loop")
        assert not node.set_up(device, BLOCK).changed
        assert blockdev.loop_of(held) == loop
        node.tear_down(block=True)
        assert blockdev.loop_of(held) == ""
        assert not os.path.exists(os.path.dirname(held))
        assert mounts.below(root, mounts.points()) == []
        node.tear_down(block=True)


@needs_loops
def test_a_link_from_before_a_reboot_is_made_anew(node, tmp_path):
    """The device may have another name now, and nothing is mounted or locked any more."""
    link = node.layout.device(UID, "kubernetes.io/local-volume", "pv-1")
    os.makedirs(os.path.dirname(link))
    os.symlink("/dev/another", link)
    with disk(tmp_path / "image") as device:
        assert node.set_up(device, BLOCK).changed
        assert os.readlink(link) == device
        node.tear_down(block=True)


@pytest.mark.parametrize(
    ("path", "words"),
    [("/none", 'path "/none" does not exist'), ("/dev/null", "is not a block device")],
)
def test_what_is_no_device_is_not_mapped(node, path, words):
    """Nothing is made for it."""
    with pytest.raises(VolumeError, match=words):
        node.set_up(path, BLOCK)
    assert not os.path.exists(f"{node.layout.root}/plugins")


def test_what_is_no_link_is_not_removed(node):
    """Somebody else's file stays, and is named."""
    link = node.layout.device(UID, "kubernetes.io/local-volume", "pv-1")
    os.makedirs(link)
    with pytest.raises(VolumeError, match="is not removed: it is not a link"):
        node.tear_down(block=True)
    assert os.path.isdir(link)
