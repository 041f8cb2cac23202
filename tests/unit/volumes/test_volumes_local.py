"""Local volumes with real mounts: directories, devices, two pods, and what was cut off."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest

from procs.volumes import disks, mounts, mounttable
from procs.volumes.errors import VolumeError
from procs.volumes.layout import LOCAL
from procs.volumes.local import LocalPlugin
from procs.volumes.operations.runner import Operations
from procs.volumes.plugin import PodInfo, Standing
from procs.volumes.wants import LocalWant, Persistent
from tests.unit.volumes.disks import disk, needs_loops, run
from tests.unit.volumes.standing import UID, needs_mounts
from tests.unit.volumes.test_volumes_ownership import Events

OTHER = UID.replace("0b5c", "1b5c")
OF = Persistent("pv-1")
needs = needs_mounts


class Node:
    """A kubelet's local volumes."""

    def __init__(self, layout):
        self.layout = layout
        self.events = None

    def _with(self, work):
        async def run_it():
            ops, self.events = Operations(f"{self.layout.root}/locks"), Events()
            try:
                return await work(LocalPlugin(self.events, self.layout, ops))
            finally:
                ops.close()

        return asyncio.run(run_it())

    def set_up(self, path, of=OF, uid=UID, fs_type=""):
        """Set a volume up for a pod."""
        want = LocalWant("data", str(path), of, fs_type)
        return self._with(lambda plugin: plugin.set_up(want, PodInfo(uid, "p", "ns"), _quiet))

    def tear_down(self, uid=UID, block=False):
        """Take it down."""
        place = self.layout.device if block else self.layout.volume
        path = place(uid, LOCAL, "pv-1")
        volume = Standing(uid, LOCAL, "pv-1", path, block)
        self._with(lambda plugin: plugin.tear_down(volume, _quiet))
        assert not os.path.lexists(path)


def _quiet(_text):
    """Hear nothing."""


@pytest.fixture
def node(layout):
    """A node with its root directory."""
    os.makedirs(layout.root)
    return Node(layout)


@pytest.fixture
def source(tmp_path):
    """A directory of the node."""
    path = tmp_path / "disk"
    path.mkdir()
    (path / "f").write_text("kept")
    return path


@needs
def test_a_directory_is_bound_for_the_pod_and_only_unmounted_afterwards(node, source):
    """What is in it is the volume's, and outlives the pod."""
    done = node.set_up(source)
    assert done.path == f"{node.layout.root}/pods/{UID}/volumes/kubernetes.io~local-volume/pv-1"
    assert done.changed
    assert not node.set_up(source).changed
    assert [m.point for m in mounttable.read()].count(done.path) == 1
    with open(f"{done.path}/f", encoding="ascii") as file:
        assert file.read() == "kept"
    node.tear_down()
    assert (source / "f").read_text() == "kept"
    assert mounts.below(node.layout.root, mounts.points()) == []
    node.tear_down()


@needs
def test_read_only_and_other_options_are_the_mounts_own(node, source):
    """The source can still be written; the pod's mount cannot, and keeps its other options."""
    of = replace(OF, read_only=True, options=("nosuid",), fs_group=4711)
    path = node.set_up(source, of).path
    assert {"ro", "nosuid"} <= set(mounttable.at(path).options)
    (source / "g").write_text("")
    assert source.stat().st_gid == 0, "what is read-only is not given (L-33)"
    node.tear_down()


@needs
def test_a_mount_that_was_cut_off_before_it_was_read_only_becomes_so(node, source):
    """A successor finds the mount, and sees that it is not finished."""
    path = node.set_up(source).path
    assert node.set_up(source, replace(OF, read_only=True)).changed
    assert mounttable.at(path).read_only
    node.tear_down()


@needs
def test_the_first_pod_decides_whose_the_files_are(node, source):
    """L-33: a second pod with another group is warned, in Go's words, and gets it as it is."""
    node.set_up(source, replace(OF, fs_group=4711))
    assert (source / "f").stat().st_gid == 4711
    node.set_up(source, replace(OF, fs_group=4712), OTHER)
    assert (source / "f").stat().st_gid == 4711
    (event,) = node.events.told
    assert (event.type, event.reason, event.uid) == ("Warning", "AlreadyMountedVolume", OTHER)
    assert event.message == (
        "The requested fsGroup is 4712, but the volume pv-1 has GID 4711."
        " The volume may not be shareable."
    )
    node.tear_down()
    node.tear_down(OTHER)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/none/such", 'path "/none/such" does not exist'),
        ("/dev/null", "only directory and block device are supported"),
        ("", "local path is not set"),
        ("relative", "is not an absolute path"),
        ("/a/../b", "must not contain '..'"),
        ("/a\0b", "is not an absolute path"),
    ],
)
def test_a_path_that_cannot_be_a_volume_is_a_sentence(node, path, words):
    """Go's own words where it has some; nothing is left of the attempt."""
    with pytest.raises(VolumeError, match=words.replace(".", r"\.")):
        node.set_up(path)
    assert not os.path.exists(node.layout.volume(UID, LOCAL, "pv-1"))


@needs
def test_a_mount_that_is_refused_leaves_nothing(node, source, tmp_path):
    """The program's words, its arguments, and no directory."""
    target = node.layout.volume(UID, LOCAL, "pv-1")
    with pytest.raises(VolumeError, match=r"mount failed: exit status \d+\. .*Output: mount: "):
        disks.bind(str(tmp_path / "none"), target, node.layout.pod(UID), False, [])
    assert not os.path.exists(target)
    assert source.exists()


@needs_loops
def test_a_device_is_formatted_once_and_unmounted_with_its_last_pod(node, tmp_path):
    """It gets a file system only if it has none, and one mount for all pods."""
    place = f"{node.layout.root}/plugins/kubernetes.io/local-volume/mounts/pv-1"
    with disk(tmp_path / "image") as device:
        path = node.set_up(device).path
        assert mounttable.at(path).fs_type == mounttable.at(place).fs_type == "ext4"
        with open(f"{path}/f", "w", encoding="ascii") as file:
            file.write("kept")
        node.set_up(device, uid=OTHER)
        node.tear_down()
        assert mounttable.at(place) is not None
        node.tear_down(OTHER)
        assert not os.path.exists(place)
        assert mounts.below(node.layout.root, mounts.points()) == []
        with open(f"{node.set_up(device).path}/f", encoding="ascii") as file:
            assert file.read() == "kept"
        node.tear_down()


@needs_loops
def test_an_empty_device_is_not_formatted_for_a_reader(node, tmp_path):
    """Go's words; the device stays empty and nothing is mounted."""
    with disk(tmp_path / "image") as device:
        with pytest.raises(VolumeError, match=r"cannot mount unformatted disk .* read-only mode"):
            node.set_up(device, replace(OF, read_only=True))
        assert disks.format_of(device) == ""
    assert mounts.below(node.layout.root, mounts.points()) == []


@needs_loops
def test_data_of_another_kind_is_never_formatted_over(node, tmp_path):
    """A partition table or another file system ends in a sentence that says what is there."""
    with disk(tmp_path / "image") as device:
        run("mkfs.ext4", "-q", device)
        with pytest.raises(VolumeError, match=r"\(fstype: xfs\).*\(it carries ext4\)"):
            node.set_up(device, fs_type="xfs")
        assert disks.format_of(device) == "ext4"
        with pytest.raises(VolumeError, match="is no name of a file system"):
            node.set_up(device, fs_type="../sh")
