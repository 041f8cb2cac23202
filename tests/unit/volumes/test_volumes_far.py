"""Whether a path leads to a file system that may not answer, found without touching it."""

from __future__ import annotations

import os

import pytest

from procs.volumes.far import is_far


def line(point, fs_type):
    """One line of the kernel's table of mounts."""
    return f"20 1 0:5 / {point} rw - {fs_type} source rw\n"


ROOT = line("/", "ext4")


@pytest.mark.parametrize(
    "fs_type",
    [
        *("nfs", "nfs4", "cifs", "smb3", "fuse", "fuse.sshfs", "fuseblk", "ceph", "9p"),
        *("glusterfs", "lustre", "afs", "gfs2", "ocfs2", "beegfs", "virtiofs", "autofs", "new"),
    ],
)
def test_a_path_on_a_far_file_system_is_far(tmp_path, fs_type):
    """At its mount point, below it, and by way of links; beside it, nothing is."""
    table = ROOT + line(f"{tmp_path}/far", fs_type)
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    (tmp_path / "link").symlink_to("far/x")
    (tmp_path / "absolute").symlink_to(tmp_path / "link")
    for path in ("far", "far/x/y", "link", "absolute", "near/../far", "link/../.."):
        assert is_far(f"{tmp_path}/{path}", table), path
    for path in ("near", "farther", "none/at/all", "."):
        assert not is_far(f"{tmp_path}/{path}", table), path


def test_links_in_a_circle_lead_nowhere(tmp_path):
    """The kernel refuses them as well."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert not is_far(f"{tmp_path}/a", ROOT)


def test_the_way_through_another_process_is_far():
    """Where such a link leads is not what its text says."""
    table = ROOT + line("/proc", "proc")
    assert is_far("/proc/self/root/etc", table)
    assert not is_far("/proc/self/status", table)


def test_a_root_that_is_far_makes_everything_far():
    """A machine may have no disk at all."""
    assert is_far("/etc", line("/", "nfs"))


def test_no_component_of_a_far_file_system_is_looked_at(tmp_path, monkeypatch):
    """It is decided by the table alone: a look could take forever."""
    seen = []
    real = os.lstat
    monkeypatch.setattr(
        os, "lstat", lambda path, **more: (seen.append(path), real(path, **more))[1]
    )
    assert is_far(f"{tmp_path}/far/x", ROOT + line(f"{tmp_path}/far", "nfs"))
    assert seen
    assert not any(str(path).startswith(f"{tmp_path}/") for path in seen)


def test_what_is_mounted_now_is_what_counts(tmp_path):
    """Without a table, the kernel's own is read."""
    assert not is_far(str(tmp_path))
