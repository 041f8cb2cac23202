"""How full directories, file systems and devices are, on real ones (L-50)."""

from __future__ import annotations

import os
import subprocess

import pytest

from procs.volumes import mounts, usage
from tests.unit.volumes.standing import needs_mounts, unmount_below

KIB = 1 << 10


@pytest.fixture
def top(tmp_path):
    """A directory to be measured."""
    path = tmp_path / "top"
    path.mkdir()
    yield path
    unmount_below(tmp_path)


def du(path):
    """What the system's own program says: bytes and inodes, on one file system."""
    said = [
        subprocess.run(
            ["du", "-sx", *how, str(path)], check=True, capture_output=True, text=True
        ).stdout.split()[0]
        for how in (["-B1"], ["--inodes"])
    ]
    return int(said[0]), int(said[1])


def measured(path):
    """The same two numbers, by us."""
    found = usage.of_directory(str(path))
    return found["used"], found["inodes_used"]


def test_a_tree_takes_what_du_says(top):
    """Directories, files, links and empty files count by their blocks, with the top itself."""
    for number in range(20):
        inner = top / f"d{number % 3}" / f"e{number}"
        inner.mkdir(parents=True)
        (inner / "file").write_bytes(b"x" * number * KIB)
        (inner / "empty").touch()
        (inner / "link").symlink_to("/usr")
    assert measured(top) == du(top)


def test_a_hard_link_counts_once(top):
    """Two names of one inode are one inode, and its blocks are counted once."""
    (top / "a").write_bytes(b"x" * 64 * KIB)
    alone = measured(top)
    (top / "below").mkdir()
    (top / "below" / "b").hardlink_to(top / "a")
    used, inodes = measured(top)
    assert (used, inodes) == du(top)
    assert inodes == alone[1] + 1  # the directory
    assert used < alone[0] + 32 * KIB


def test_a_sparse_file_takes_only_its_blocks(top):
    """What was never written takes no room, however long the file says that it is."""
    with open(top / "sparse", "wb") as file:
        file.truncate(1 << 30)
    used, inodes = measured(top)
    assert used < 1 << 20
    assert inodes == 2


def test_a_link_at_the_top_is_not_followed(top, tmp_path):
    """A path that became a link says so, and nothing behind it is counted."""
    (tmp_path / "link").symlink_to(top)
    with pytest.raises(OSError, match="link"):
        usage.of_directory(str(tmp_path / "link"))


def test_the_file_system_around_a_tree_is_told_too(top):
    """Capacity, what is available and inodes are those of the disk, as with Go's du metrics."""
    found, disk = usage.of_directory(str(top)), os.statvfs(top)
    assert found["capacity"] == disk.f_blocks * disk.f_frsize
    assert found["inodes"] == disk.f_files
    assert 0 < found["available"] <= found["capacity"]
    assert found["used"] < found["capacity"]


def test_a_walk_ends_where_the_caller_has_enough(top):
    """A limit is on entries: one more than it is too many."""
    for number in range(10):
        (top / str(number)).touch()
    assert usage.of_directory(str(top), limit=11)["inodes_used"] == 11
    with pytest.raises(usage.TooManyError, match="more than 10 entries"):
        usage.of_directory(str(top), limit=10)


def test_a_tree_deeper_than_a_path_can_say_is_walked_through(top):
    """Neither the length of a path nor the number of open files bounds the depth."""
    depth, name = 2500, "d" * 20
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    try:
        assert usage.of_directory(str(top))["inodes_used"] == depth + 1
    finally:
        subprocess.run(["rm", "-rf", str(top)], check=True)


def test_a_directory_that_moves_away_takes_only_itself_along(top, tmp_path):
    """When the way up leads elsewhere, the walk goes on from the top with what is still there."""
    for name in ("a", "b", "c"):
        (top / name / "inner").mkdir(parents=True)
    walk = usage._Walk(str(top), 0)
    real, moved = walk._list, []

    def list_and_move(level):
        found = real(level)
        if level.name == "inner" and not moved:
            moved.append(walk._levels[1].name)
            (top / moved[0]).rename(tmp_path / "elsewhere")
        return found

    walk._list = list_and_move
    walk.run()
    walk.close()
    assert moved
    assert walk.inodes == 7


@needs_mounts
def test_what_is_mounted_below_is_not_counted(top):
    """Another file system in a tree is gone around, whether it is on a directory or on a file."""
    (top / "inner" / "mounted").mkdir(parents=True)
    (top / "inner" / "beside").write_bytes(b"x" * 8 * KIB)
    before = measured(top)
    mounts.mount("tmpfs", str(top / "inner" / "mounted"), "tmpfs", ["size=1m"])
    (top / "inner" / "mounted" / "large").write_bytes(b"x" * 512 * KIB)
    used, inodes = measured(top)
    assert inodes == before[1] - 1  # the directory below the mount cannot be seen
    assert used <= before[0]


@needs_mounts
def test_a_file_system_in_memory_knows_how_full_it_is(top):
    """Of a tmpfs nobody walks through the files: its size is its limit."""
    mounts.mount("tmpfs", str(top), "tmpfs", ["size=1m"])
    (top / "file").write_bytes(b"x" * 512 * KIB)
    found = usage.of_filesystem(str(top))
    assert found["capacity"] == 1 << 20
    assert found["used"] == 512 * KIB
    assert found["available"] == 512 * KIB
    assert found["inodes_used"] == 2


def test_the_size_of_a_device_is_where_it_ends(tmp_path):
    """A device has a capacity and nothing else; a file stands in for one."""
    path = tmp_path / "device"
    with open(path, "wb") as file:
        file.truncate(3 << 20)
    assert usage.of_device(str(path)) == {"capacity": 3 << 20}
