"""Whether looking at a path may take forever, found out without looking at what may.

A file server that is gone holds whoever touches its file system, for as long as it is gone. So
the path is walked by hand: no component is looked at before the table of mounts has told what kind
of file system it is on.
"""

from __future__ import annotations

import os
import posixpath
import stat
from typing import Final

from procs.volumes import mounts, mounttable

# File systems of this machine alone. One that is not known here may be anybody's.
_NEAR: Final = frozenset(
    [
        "bcachefs",
        "bdev",
        "binfmt_misc",
        "bpf",
        "btrfs",
        "cgroup",
        "cgroup2",
        "configfs",
        "cramfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "erofs",
        "exfat",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "fusectl",
        "hfs",
        "hfsplus",
        "hugetlbfs",
        "iso9660",
        "jfs",
        "mqueue",
        "msdos",
        "nilfs2",
        "nsfs",
        "ntfs3",
        "overlay",
        "pipefs",
        "proc",
        "pstore",
        "ramfs",
        "reiserfs",
        "rootfs",
        "rpc_pipefs",
        "securityfs",
        "selinuxfs",
        "sockfs",
        "squashfs",
        "sysfs",
        "tmpfs",
        "tracefs",
        "ubifs",
        "udf",
        "vfat",
        "xfs",
        "zfs",
    ]
)
_PROC: Final = "proc"
_MOST_LINKS: Final = 40  # as the kernel has it


def is_far(path: str, mountinfo: str | None = None) -> bool:
    """Tell whether resolving a path would touch a file system that may not answer.

    ``mountinfo`` is the text of the kernel's table of mounts; None: as it is now.
    """
    if mountinfo is None:
        with open(mounts.MOUNTINFO, encoding="utf-8", errors="surrogateescape") as file:
            mountinfo = file.read()
    types = {mount.point: mount.fs_type for mount in mounttable.parse(mountinfo)}
    if not is_near("/", types):
        return True
    return _Walk(types).is_far(path)


def is_near(point: str, types: dict[str, str]) -> bool:
    """Tell whether no far file system is mounted on a path itself."""
    return types.get(point, "ext4") in _NEAR


class _Walk:
    """One way through the directories."""

    def __init__(self, types: dict[str, str]) -> None:
        self._types = types
        self._links = 0

    def is_far(self, path: str) -> bool:
        here = "/"
        ahead = _parts(path)
        while ahead:
            name = ahead.pop()
            if name == "..":
                here = posixpath.dirname(here)
                continue
            there = posixpath.join(here, name)
            if not is_near(there, self._types):
                return True
            link = _link(there)
            if link is None:
                here = there
                continue
            self._links += 1
            if self._links > _MOST_LINKS:
                return False  # the kernel refuses it, too, without going anywhere
            if link.startswith("/"):
                if self._type_of(here) == _PROC:
                    return True  # it leads into another process's world, whatever its text says
                here = "/"
            ahead += _parts(link)
        return False

    def _type_of(self, path: str) -> str:
        while path not in self._types and path != "/":
            path = posixpath.dirname(path)
        return self._types.get(path, "")


def _parts(path: str) -> list[str]:
    """Return the components of a path, the last first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _link(path: str) -> str | None:
    """Return where a path leads to; None: it is no link, or is not there."""
    try:
        return os.readlink(path) if stat.S_ISLNK(os.lstat(path).st_mode) else None
    except (OSError, ValueError):  # ValueError: no path at all
        return None
