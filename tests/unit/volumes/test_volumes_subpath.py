"""Parts of volumes, which nobody may lead astray, whatever they do meanwhile (L-32)."""

from __future__ import annotations

import asyncio
import ctypes
import os
import stat
import subprocess
import sys
import threading

import pytest

from kubelet.channels.messages import PrepareSubPath
from kubelet.channels.server import Caller
from procs.volumes import walk
from procs.volumes.binding import prepare
from procs.volumes.errors import VolumeError
from procs.volumes.operations.runner import Operations
from procs.volumes.subpath import SubPaths, is_quick
from tests.unit.volumes.standing import UID, needs_mounts, unmount_below

SYNCLOOP = Caller("syncloop", 0, 1, 0)


@pytest.fixture
def volume(tmp_path):
    """A volume with a directory, a file, and a secret beside it."""
    made = tmp_path / "volume"
    (made / "a" / "b").mkdir(parents=True)
    (made / "a" / "file").write_text("inside")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("outside")
    return made


# --- walking -----------------------------------------------------------------------------------

both_ways = pytest.mark.parametrize("at_once", [True, False], ids=["kernel", "steps"])


def reached(root, path, create=None, at_once=True):
    """Return the real path that a walk leads to."""
    with walk.opened(str(root), path, create, at_once=at_once) as fd:
        return os.readlink(f"/proc/self/fd/{fd}")


@both_ways
@pytest.mark.parametrize(
    ("links", "path", "expected"),
    [
        ({}, "", ""),
        ({}, "a/b", "a/b"),
        ({}, "./a//b/.", "a/b"),
        ({}, "a/file", "a/file"),
        ({"up": "a/b/../file"}, "up", "a/file"),
        ({"a/b/back": "../../a"}, "a/b/back/file", "a/file"),
        ({"one": "a"}, "one/b", "a/b"),
        ({"whole": "."}, "whole/a", "a"),
    ],
)
def test_links_inside_a_volume_are_followed(volume, links, path, expected, at_once):
    """Links that stay in the volume are followed, as volumes of secrets need it."""
    for link, target in links.items():
        (volume / link).symlink_to(target)
    assert reached(volume, path, at_once=at_once) == str(volume / expected)


def test_the_kernel_resolves_what_it_can(volume):
    """A path without links out of the volume is resolved by the kernel, in one step."""
    root = os.open(volume, os.O_PATH)
    try:
        found = walk.beneath(root, "a/file")
        if found is None:
            pytest.skip("this kernel has no openat2")
        assert os.readlink(f"/proc/self/fd/{found}") == str(volume / "a" / "file")
        os.close(found)
        (volume / "evil").symlink_to("/etc")
        assert walk.beneath(root, "evil") is None
        assert walk.beneath(root, "..") is None
    finally:
        os.close(root)


@both_ways
def test_absolute_link_into_the_volume(volume, at_once):
    """A link that names a place in the volume in full leads there."""
    (volume / "a" / "now").symlink_to(volume / "a" / "b")
    assert reached(volume, "a/now", at_once=at_once) == str(volume / "a" / "b")


@both_ways
@pytest.mark.parametrize(
    "target",
    ["/etc", "/", "../secret", "a/../../secret", "../volume/a", "{}/../secret", "/proc/self/root"],
)
def test_links_out_are_refused(volume, target, at_once):
    """L-32: a link that leads out of the volume is refused, however it is written."""
    (volume / "evil").symlink_to(target.format(volume))
    for path in ("evil", "evil/key", "a/../evil"):
        with pytest.raises(OSError, match=r"leads out of the volume|must not contain"):
            reached(volume, path, 0o755, at_once=at_once)


def test_a_volume_beside_with_the_same_beginning(volume, tmp_path):
    """A path that begins like the volume's is not inside it for that."""
    (tmp_path / "volume-2").mkdir()
    (volume / "evil").symlink_to(tmp_path / "volume-2")
    with pytest.raises(walk.EscapeError):
        reached(volume, "evil")


@both_ways
def test_endless_links(volume, at_once):
    """Links in a circle end in an error."""
    (volume / "x").symlink_to("y")
    (volume / "y").symlink_to("x")
    with pytest.raises(OSError, match="symbolic links"):
        reached(volume, "x", at_once=at_once)


def test_missing_parts_are_made(volume):
    """L-32: missing components become directories with the volume's mode, whatever our umask."""
    before = os.umask(0o077)
    try:
        assert reached(volume, "new/deep", 0o2775) == str(volume / "new" / "deep")
    finally:
        os.umask(before)
    for made in (volume / "new", volume / "new" / "deep"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o2775
    with pytest.raises(FileNotFoundError):
        reached(volume, "other")


def test_nothing_is_made_outside(volume, tmp_path):
    """L-32: a link out of the volume is no way to make directories elsewhere."""
    (volume / "evil").symlink_to(tmp_path / "secret")
    with pytest.raises(walk.EscapeError):
        reached(volume, "evil/made", 0o755)
    assert not (tmp_path / "secret" / "made").exists()


def test_no_descriptor_is_left(volume):
    """A walk closes all that it opened, whether it arrives or not."""
    before = len(os.listdir("/proc/self/fd"))
    (volume / "evil").symlink_to("/etc")
    reached(volume, "a/b")
    with pytest.raises(OSError, match="leads out"):
        reached(volume, "evil")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/etc", "must be a relative path"),
        ("a/../../b", "must not contain '..'"),
        ("a\0b", "must not contain a zero byte"),
        ("a" * 5000, "must have less than 4096 bytes"),
        ("\ud83d", "must be valid UTF-8"),
        ("a..b/...", None),
    ],
)
def test_what_is_wrong_with_a_path(path, wrong):
    """L-32: what no path can be is refused before anybody walks it."""
    assert walk.problem(path) == wrong


# --- binding -----------------------------------------------------------------------------------


@pytest.fixture
def mounting(tmp_path):
    """Whatever is mounted below the test's directory goes with it."""
    yield
    unmount_below(tmp_path)


def test_a_part_that_leads_out_binds_nothing(volume, tmp_path):
    """L-32: a part that leads out of its volume is refused, and leaves nothing behind."""
    (volume / "evil").symlink_to(tmp_path / "secret")
    with pytest.raises(VolumeError, match="leads out of the volume"):
        prepare(str(volume), "evil", str(tmp_path / "pod" / "0"))
    assert not (tmp_path / "pod").exists()


@needs_mounts
@pytest.mark.usefixtures("mounting")
def test_what_was_bound_stays_bound(volume, tmp_path):
    """L-32: what was found is bound, and no later link changes what a container gets."""
    first, second = str(tmp_path / "pod" / "0"), str(tmp_path / "pod" / "1")
    root = str(volume)
    assert prepare(root, "a/file", first) == first
    with open(first, encoding="ascii") as file:
        assert file.read() == "inside"
    prepare(root, "a/file", first)  # again changes nothing
    prepare(root, "a/new", second)
    (volume / "a").rename(volume / "moved")
    (volume / "a").symlink_to("/etc")
    assert os.listdir(second) == []
    (volume / "a").unlink()
    (volume / "a").mkdir()
    (volume / "a" / "file").write_text("other")
    prepare(root, "a/file", first)  # what was made anew is bound anew
    with open(first, encoding="ascii") as file:
        assert file.read() == "other"
    prepare(root, "a", first)  # a directory in place of a file
    assert os.listdir(first) == ["file"]
    with open("/proc/self/mounts", encoding="utf-8") as file:
        assert file.read().count(f"{tmp_path}/pod/") == 2


_SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
one, other = (os.fsencode(name) for name in sys.argv[1:])
print("swapping", flush=True)
while True:
    libc.renameat2(-100, one, -100, other, 2)  # RENAME_EXCHANGE: never a moment without either
"""


@needs_mounts
@pytest.mark.usefixtures("mounting")
@pytest.mark.parametrize("target", ["/", "../secret", "{outside}"])
def test_no_race_leads_out_of_a_volume(volume, tmp_path, target):
    """L-32: while a directory is swapped for a link out as fast as can be, what is bound is inside.

    The walk is begun at every possible moment of the swap; what it finds is a part of the volume or
    an error.
    """
    outside = tmp_path / "secret"
    (volume / "x").mkdir()
    (volume / "x" / "inside").mkdir()
    (outside / "inside").mkdir()
    (volume / "link").symlink_to(target.format(outside=outside))
    device = os.stat(volume).st_dev
    allowed = {(device, os.stat(volume / "x" / "inside").st_ino)}
    arguments = [str(volume / "x"), str(volume / "link")]
    with subprocess.Popen(
        [sys.executable, "-c", _SWAPPER, *arguments], stdout=subprocess.PIPE
    ) as swapper:
        try:
            assert swapper.stdout.readline() == b"swapping\n"
            ends = [_bound(volume, tmp_path, allowed) for _ in range(1500)]
        finally:
            swapper.kill()
    assert set(ends) <= {"bound", "refused"}
    assert "bound" in ends
    assert not (tmp_path / "secret" / "made").exists()


def _bound(volume, tmp_path, allowed):
    """Prepare a part in the middle of a race; how it ended."""
    place = str(tmp_path / "place")
    try:
        prepare(str(volume), "x/inside", place)
    except VolumeError:
        return "refused"
    found = os.stat(place)
    ctypes.CDLL(None).umount2(place.encode(), 2)
    return "bound" if (found.st_dev, found.st_ino) in allowed else f"escaped to {found.st_ino}"


@both_ways
def test_no_race_makes_directories_outside(volume, tmp_path, at_once):
    """L-32: a missing part is never made outside the volume, however its parents are swapped."""
    (volume / "x").mkdir()
    (volume / "link").symlink_to("../secret")
    stop = threading.Event()
    libc = ctypes.CDLL(None)
    names = str(volume / "x").encode(), str(volume / "link").encode()

    def swap():
        while not stop.is_set():
            libc.renameat2(-100, names[0], -100, names[1], 2)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(1000):
            try:
                found = reached(volume, f"x/made{number}", 0o755, at_once=at_once)
            except OSError:
                continue
            assert found.startswith(f"{volume}/")
    finally:
        stop.set()
        swapping.join()
    assert os.listdir(tmp_path / "secret") == ["key"]


# --- answering ---------------------------------------------------------------------------------


@pytest.fixture
def answering(process, layout, volume):
    """What answers requests for parts of a volume ``v``, which is mounted."""
    operations = Operations(f"{layout.root}/locks")
    there = {(UID, "v"): str(volume)}
    made = SubPaths(process, layout, operations, lambda uid, name: there.get((uid, name), ""))
    made.there = there
    yield made
    operations.close()


def asked(path="a", volume="v", container="main", index=0, pod=UID):
    """A request for a part of a volume."""
    return PrepareSubPath(pod, container, index, volume, path)


@needs_mounts
def test_a_part_is_bound_where_the_layout_says(answering, layout):
    """L-32: the place is below the pod's directory, by volume, container and mount."""
    found = asyncio.run(answering.handle(asked("a/b", index=3), SYNCLOOP))
    assert (found.path, found.error) == (f"{layout.subpaths(UID)}/v/main/3", "")
    assert os.listdir(found.path) == []


@needs_mounts
def test_parts_are_bound_side_by_side(answering):
    """L-32: all parts of a container can be asked for at once, and the same one twice."""

    async def all_of_them():
        requests = [asked("a", index=n % 5) for n in range(20)]
        return await asyncio.gather(*(answering.handle(one, SYNCLOOP) for one in requests))

    found = asyncio.run(all_of_them())
    assert {one.error for one in found} == {""}
    assert len({one.path for one in found}) == 5
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        assert sum("volume-subpaths/v/main" in line for line in mounts) == 5


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (asked(volume="w"), 'of volume "w" for volumeMount 0 of container "main": the volume is'),
        (asked("evil"), "leads out of the volume"),
        (asked("/etc"), "path: '/etc' must be a relative path"),
        (asked("../secret"), "must not contain '..'"),
        (asked(container="../../x"), "container: '../../x' is not a container's name"),
        (asked(volume=".."), "volume: '..' is not a volume's name"),
        (asked(pod="../x"), "pod: '../x' is not a pod's uid"),
        (asked(index=-1), "index: -1 is not that of a volume mount"),
    ],
)
def test_a_request_that_is_refused_says_why(answering, layout, volume, request_, message):
    """L-32: nothing in a request is taken for a place of the node; the reply says what is wrong."""
    (volume / "evil").symlink_to("/etc")
    found = asyncio.run(answering.handle(request_, SYNCLOOP))
    assert found.path == ""
    assert message in found.error
    assert not os.path.exists(layout.subpaths(UID))


@needs_mounts
def test_a_part_of_a_volume_with_mounts_inside(answering, volume, mounting):
    """L-32: where a path may lead into another file system, a process of its own goes there."""
    assert mounting is None
    inner = str(volume / "a")
    subprocess.run(["mount", "-t", "tmpfs", "none", inner], check=True)
    os.mkdir(f"{inner}/deep")
    assert not is_quick(str(volume))
    assert is_quick(inner)
    found = asyncio.run(answering.handle(asked("a/deep"), SYNCLOOP))
    assert found.error == ""
    assert os.path.samefile(found.path, f"{inner}/deep")
    found = asyncio.run(answering.handle(asked("evil/../a"), SYNCLOOP))
    assert "must not contain '..'" in found.error


@needs_mounts
def test_a_part_of_a_pod_that_ended_meanwhile(answering, layout, volume):
    """L-32: what is bound too late, after the pod's volumes went, is freed again."""
    asks = []

    def path_of(uid, name):
        asks.append((uid, name))
        return str(volume) if len(asks) == 1 else ""

    answering._path_of = path_of
    found = asyncio.run(answering.handle(asked(), SYNCLOOP))
    assert "not mounted any more" in found.error
    assert os.listdir(f"{layout.subpaths(UID)}/v/main") == []
