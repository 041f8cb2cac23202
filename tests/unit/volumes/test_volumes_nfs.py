"""NFS volumes: what is asked of the mount program, what is made of its words, and unmounting."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest

from procs.volumes import mounts, nfs
from procs.volumes.errors import HangingError, VolumeError
from procs.volumes.layout import NFS
from procs.volumes.nfs import NfsPlugin
from procs.volumes.operations.runner import Operations
from procs.volumes.plugin import PodInfo, Standing
from procs.volumes.wants import NfsWant, Persistent
from tests.unit.volumes.standing import UID, needs_mounts

WANT = NfsWant("data", "server", "/export", Persistent("pv-1"))


def _quiet(_text):
    """Hear nothing."""


class Node:
    """A kubelet's NFS volumes."""

    def __init__(self, layout, ops=None):
        self.layout = layout
        self.path = layout.volume(UID, NFS, "pv-1")
        self._ops = ops

    def _with(self, work):
        async def run_it():
            ops = Operations(f"{self.layout.root}/locks")
            try:
                return await work(NfsPlugin(self.layout, self._ops or ops))
            finally:
                ops.close()

        return asyncio.run(run_it())

    def set_up(self, want=WANT):
        """Set a volume up."""
        return self._with(lambda plugin: plugin.set_up(want, PodInfo(UID), _quiet))

    def tear_down(self):
        """Take it down."""
        volume = Standing(UID, NFS, "pv-1", self.path)
        self._with(lambda plugin: plugin.tear_down(volume, _quiet))


@pytest.fixture
def node(layout):
    """A node with its root directory."""
    os.makedirs(layout.root)
    return Node(layout)


@pytest.mark.parametrize(
    ("server", "of", "expected"),
    [
        ("server", {}, ["-t", "nfs", "server:/export", "/t"]),
        ("10.0.0.1", {"read_only": True}, ["-t", "nfs", "-o", "ro", "10.0.0.1:/export", "/t"]),
        (
            "fd00::1",
            {"options": ("vers=4.1", "hard", "ro"), "read_only": True},
            ["-t", "nfs", "-o", "hard,ro,vers=4.1", "[fd00::1]:/export", "/t"],
        ),
    ],
)
def test_the_mount_program_is_asked_as_go_asks_it(server, of, expected):
    """An address of IPv6 is in brackets; options are each there once."""
    want = replace(WANT, server=server, of=replace(WANT.of, **of))
    assert nfs.mount_arguments(want, "/t") == expected


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"server": ""}, "nfs.server '' is no name"),
        ({"server": "-o"}, "nfs.server '-o' is no name"),
        ({"server": "a b"}, "nfs.server 'a b' is no name"),
        ({"path": "x"}, "nfs.path 'x' is not an absolute path"),
        ({"path": "/a/.."}, "must not contain '..'"),
        ({"path": "/a\0"}, "is not an absolute path"),
        ({"of": Persistent("pv-1", block=True)}, "volumeMode Block is not supported"),
        ({"of": Persistent("../x")}, "is no name of a volume"),
    ],
)
def test_what_no_program_should_be_given_is_refused(more, words):
    """Each sentence names the field and its value."""
    with pytest.raises(VolumeError) as caught:
        nfs.check(replace(WANT, **more))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("bad option; for several you might need a /sbin/mount.<type> helper program", "nfs-utils"),
        ("mount: /x: unknown filesystem type 'nfs'.", "needs module nfs"),
        ("mount failed with exit status 127: mount: No such file", "install util-linux"),
        ("mount.nfs: access denied by server", ""),
    ],
)
def test_words_of_the_program_come_with_what_helps(said, advice):
    """The program's own words are never replaced."""
    text = nfs.failure(said, ["-t", "nfs", "s:/x", "/t"])
    assert text.startswith(said)
    assert "Mounting arguments: -t nfs s:/x /t" in text
    assert text.endswith("/t") if not advice else advice in text


@needs_mounts
def test_a_mount_that_fails_leaves_nothing_but_a_sentence(node):
    """A real mount program, and an option that no NFS has."""
    want = replace(WANT, server="127.0.0.1", of=replace(WANT.of, options=("no-such-option",)))
    with pytest.raises(VolumeError, match=r"(?s)mount failed with exit status \d+: .*mount.*nfs"):
        node.set_up(want)
    assert not os.path.exists(node.path)
    assert os.path.isdir(os.path.dirname(node.path))


@needs_mounts
def test_what_is_mounted_is_neither_mounted_again_nor_looked_at(node):
    """The kernel's table tells; then it is unmounted, and its directory goes."""
    os.makedirs(node.path)
    mounts.mount("tmpfs", node.path, "tmpfs", ["size=4096"])
    assert not node.set_up().changed
    node.tear_down()
    assert not os.path.exists(node.path)
    assert mounts.below(node.layout.root, mounts.points()) == []
    node.tear_down()


@needs_mounts
def test_a_busy_volume_is_not_forced(node):
    """A time-out is what force is for; somebody who uses the volume is told of."""
    os.makedirs(node.path)
    mounts.mount("tmpfs", node.path, "tmpfs", ["size=4096"])
    here = os.open(node.path, os.O_RDONLY)
    try:
        with pytest.raises(VolumeError, match=r"could not unmount .*busy"):
            node.tear_down()
    finally:
        os.close(here)
    node.tear_down()


def test_a_directory_with_files_in_it_is_not_removed(node):
    """Nothing is mounted there: what was written is on the node's own disk, and stays."""
    os.makedirs(node.path)
    with open(f"{node.path}/f", "w", encoding="ascii"):
        pass
    with pytest.raises(VolumeError, match=r"could not remove .*Directory not empty"):
        node.tear_down()
    assert os.path.exists(f"{node.path}/f")


class Hanging:
    """Operations of a node whose server is gone: only force helps."""

    def __init__(self, error):
        self.error = error
        self.asked = []

    async def thread(self, work):
        """Do something at once."""
        return work()

    async def command(self, argv, *, key, seconds=0.0):
        """Unmount by force alone."""
        assert seconds > 0
        self.asked.append((tuple(argv), key))
        if "-f" not in argv:
            raise self.error
        mounts.unmount(argv[-1])


@needs_mounts
@pytest.mark.parametrize(
    "error",
    [
        HangingError("umount, begun 70 s ago, has not come back yet"),
        VolumeError("umount did not come back within 60 s and was ended"),
    ],
)
def test_a_server_that_is_gone_is_left_by_force(layout, error):
    """As Go does after its time-out; under a key of its own, for the first may hang on."""
    ops = Hanging(error)
    node = Node(layout, ops)
    os.makedirs(node.path)
    mounts.mount("tmpfs", node.path, "tmpfs", ["size=4096"])
    node.tear_down()
    (plain, key), (forced, other) = ops.asked
    assert (plain, forced) == (("umount", node.path), ("umount", "-f", node.path))
    assert key != other
    assert not os.path.exists(node.path)


@needs_mounts
def test_the_time_out_of_a_real_program_is_known_by_its_words(tmp_path):
    """What the runner says when time is up is what the force waits for."""

    async def late():
        ops = Operations(str(tmp_path / "locks"))
        try:
            with pytest.raises(VolumeError) as caught:
                await ops.command(["sleep", "60"], key="k", seconds=0.05)
        finally:
            ops.close()
        return str(caught.value)

    assert nfs._TIME_IS_UP in asyncio.run(late())
