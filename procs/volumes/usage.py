"""How full a directory, a file system or a device is (L-50).

Runs in a process of its own where what it looks at may hang, so it needs the standard library
alone. Numbers are bytes and inodes; what nobody can tell is left out of an answer.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import Final

from procs.volumes import mounts

_BLOCK: Final = 512  # bytes: the unit of st_blocks, whatever the file system's own is
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEVICE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
# A name that is not what it was a moment ago: whoever uses the directory goes on using it.
_VANISHED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE})

Usage = dict[str, int]


class TooManyError(Exception):
    """A directory holds more than the caller wants to wait for."""


def of_directory(path: str, limit: int = 0) -> Usage:
    """Return what a directory and all below it take, and how full the file system around it is.

    Each inode counts once, by the blocks that it has; other file systems are not entered, and no
    link is followed. A TooManyError after ``limit`` entries; 0: there is no limit.
    """
    walk = _Walk(path, limit)
    try:
        walk.run()
        return {**_filesystem(os.fstatvfs(walk.top)), "used": walk.used, "inodes_used": walk.inodes}
    finally:
        walk.close()


def of_filesystem(path: str) -> Usage:
    """Return how full the file system is on which a path lies."""
    return _filesystem(os.statvfs(path))


def of_device(path: str) -> Usage:
    """Return the size of a block device: nothing else is known of what is on it."""
    device = os.open(path, _DEVICE)
    try:
        return {"capacity": os.lseek(device, 0, os.SEEK_END)}
    finally:
        os.close(device)


def _filesystem(found: os.statvfs_result) -> Usage:
    return {
        "capacity": found.f_blocks * found.f_frsize,
        "available": found.f_bavail * found.f_frsize,
        "used": (found.f_blocks - found.f_bfree) * found.f_frsize,
        "inodes": found.f_files,
        "inodes_free": found.f_ffree,
        "inodes_used": found.f_files - found.f_ffree,
    }


@dataclass(slots=True)
class _Level:
    """A directory on the way down."""

    name: str  # in the one above
    identity: tuple[int, int]
    path: str  # kept where there are mounts to be gone around
    pending: list[str] = field(default_factory=list)  # directories in it


class _Walk:
    """One walk through a tree that others change meanwhile; two directories are open at a time."""

    def __init__(self, path: str, limit: int) -> None:
        self._limit = limit
        # Even asking what a mount point is can hang, if what is mounted there does.
        real = mounts.real(path)
        self._held = frozenset(mounts.below(real, mounts.points())) - {real}
        self.top = os.open(path, _DIRECTORY)
        self._here = os.dup(self.top)
        found = os.fstat(self.top)
        self._device = found.st_dev
        self._levels = [_Level("", (found.st_dev, found.st_ino), real)]
        self._linked: set[int] = set()
        self.used = found.st_blocks * _BLOCK
        self.inodes = 1

    def close(self) -> None:
        """Let go of what is open."""
        os.close(self._here)
        os.close(self.top)

    def run(self) -> None:
        """Count everything."""
        self._levels[-1].pending = self._list(self._levels[-1])
        while True:
            level = self._levels[-1]
            if level.pending:
                self._down(level, level.pending.pop())
            elif len(self._levels) > 1:
                self._levels.pop()
                self._up()
            else:
                return

    def _list(self, level: _Level) -> list[str]:
        """Count what is in the directory that is open; the directories among it."""
        directories = []
        with os.scandir(self._here) as entries:
            for entry in entries:
                if self._held and f"{level.path}/{entry.name}" in self._held:
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError as err:
                    if err.errno not in _VANISHED:
                        raise
                    continue
                if self._count(found):
                    directories.append(entry.name)
        return directories

    def _count(self, found: os.stat_result) -> bool:
        """Count an inode, unless it was; whether it is a directory to be walked through."""
        directory = stat.S_ISDIR(found.st_mode)
        if found.st_dev != self._device:
            return False
        if not directory and found.st_nlink > 1:
            if found.st_ino in self._linked:
                return False
            self._linked.add(found.st_ino)
        self.used += found.st_blocks * _BLOCK
        self.inodes += 1
        if self._limit and self.inodes > self._limit:
            raise TooManyError(f"more than {self._limit} entries")
        return directory

    def _down(self, level: _Level, name: str) -> None:
        inner = _open_inside(self._here, name)
        if inner is None:
            return
        found = os.fstat(inner)
        if found.st_dev != self._device:  # something was mounted there just now
            os.close(inner)
            return
        os.close(self._here)
        self._here = inner
        path = f"{level.path}/{name}" if self._held else ""
        below = _Level(name, (found.st_dev, found.st_ino), path)
        self._levels.append(below)
        below.pending = self._list(below)

    def _up(self) -> None:
        """Go back to the level that is the last one now."""
        outer = _open_inside(self._here, "..")
        if outer is not None and _identity(outer) == self._levels[-1].identity:
            os.close(self._here)
            self._here = outer
            return
        if outer is not None:
            os.close(outer)
        self._again_from_the_top()

    def _again_from_the_top(self) -> None:
        """Find the way back after a directory was moved; what is not found has gone with it."""
        here = os.dup(self.top)
        for depth, level in enumerate(self._levels[1:], start=1):
            inner = _open_inside(here, level.name)
            if inner is None or _identity(inner) != level.identity:
                if inner is not None:
                    os.close(inner)
                del self._levels[depth:]
                break
            os.close(here)
            here = inner
        os.close(self._here)
        self._here = here


def _open_inside(above: int, name: str) -> int | None:
    try:
        return os.open(name, _DIRECTORY, dir_fd=above)
    except OSError as err:
        if err.errno not in _VANISHED:
            raise
        return None


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino
