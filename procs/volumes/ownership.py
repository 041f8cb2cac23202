"""Giving a volume to the pod's group (L-33).

A volume may be in use while it is given: files come and go, and a container may put a link where a
file was. Nothing here follows a link, and what is changed is what was looked at.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from procs.volumes.errors import VolumeError, sentence

_READ_WRITE: Final = 0o660
_READ: Final = 0o440
_ENTER: Final = 0o110
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REPORT_NS: Final = 10**9
# The file is not what it was, or is no more: somebody works in the volume.
_MOVED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE})

Report = Callable[[Any], None]
Listing: TypeAlias = Generator[os.DirEntry[str], None, None]


class Policy(StrEnum):
    """When the ownership of everything in a volume is changed.

    It only matters for volumes that outlive their pod: those that the kubelet makes are always
    given as a whole.
    """

    ALWAYS = "Always"
    ON_ROOT_MISMATCH = "OnRootMismatch"


def give(path: str, group: int, *, read_only: bool = False, policy: Policy = Policy.ALWAYS) -> bool:
    """Let a group own a volume and have its new files; whether anything had to be done."""
    if policy is Policy.ON_ROOT_MISMATCH and _fits(os.stat(path), group, read_only):
        return False
    giving = _Giving(group, read_only)
    giving.run(path)
    if giving.failed:
        raise VolumeError(giving.error)
    return True


def give_volume(
    path: str, group: int, read_only: bool, policy: str, report: Report | None = None
) -> bool:
    """Let a group own a volume of any size; whether anything had to be done.

    About each second ``{"done": <files>}`` is reported. A file that cannot be changed does not keep
    the pod from its volume: the last report then says how many there were, and the first error.
    """
    if policy == Policy.ON_ROOT_MISMATCH and _fits(os.stat(path), group, read_only):
        return False
    _allow_many_descriptors()
    giving = _Giving(group, read_only, report)
    giving.run(path)
    if report is not None and giving.failed:
        report({"done": giving.done, "failed": giving.failed, "error": giving.error})
    return True


def wanted_mode(mode: int, read_only: bool) -> int:
    """Return the mode of a file or directory that the group can use."""
    added = _READ if read_only else _READ_WRITE
    if stat.S_ISDIR(mode):
        added |= _ENTER | stat.S_ISGID
    return stat.S_IMODE(mode) | added


def _fits(found: os.stat_result, group: int, read_only: bool) -> bool:
    """Tell whether a root looks given; what is no directory never does."""
    if not stat.S_ISDIR(found.st_mode) or found.st_gid != group:
        return False
    return wanted_mode(found.st_mode, read_only) == stat.S_IMODE(found.st_mode)


def _allow_many_descriptors() -> None:
    """Let a tree be as deep as this process may: each level holds a directory open."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@dataclass(slots=True)
class _Level:
    """A directory on the way down."""

    fd: int
    listing: Listing
    name: str = ""  # in the one above

    def close(self) -> None:
        """Hold it no more."""
        self.listing.close()
        os.close(self.fd)


@dataclass(slots=True)
class _Giving:
    """One walk through a volume. What it keeps grows with the depth of the tree, not its size."""

    group: int
    read_only: bool
    report: Report | None = None
    done: int = 0
    failed: int = 0
    error: str = ""
    _levels: list[_Level] = field(default_factory=list)
    _reported_ns: int = field(default_factory=time.monotonic_ns)

    def run(self, path: str) -> None:
        """Give all of it, the root last: a walk that was cut short is not like a finished one."""
        try:
            if stat.S_ISDIR(os.lstat(path).st_mode):
                self._enter(path, None)
            while self._levels:
                self._step()
        finally:
            for level in self._levels:
                level.close()
        self._change(path, None)

    def _step(self) -> None:
        """Give the next entry, or enter it, or leave the directory if there is none."""
        level = self._levels[-1]
        try:
            entry = next(level.listing, None)
        except OSError as err:
            raise VolumeError(sentence(f"could not list {self._where('')}", err)) from err
        if entry is None:
            self._leave()
        elif entry.is_dir(follow_symlinks=False):
            self._enter(entry.name, level.fd)
        else:
            self._change(entry.name, level.fd)

    def _enter(self, name: str, here: int | None) -> None:
        try:
            fd = os.open(name, _DIRECTORY, dir_fd=here)
        except OSError as err:
            if here is None or err.errno not in _MOVED:
                raise VolumeError(sentence(f"could not enter {self._where(name)}", err)) from err
            return
        self._levels.append(_Level(fd, _listed(fd), name))

    def _leave(self) -> None:
        level = self._levels.pop()
        level.close()
        if self._levels:
            self._change(level.name, self._levels[-1].fd)

    def _where(self, name: str) -> str:
        return "/".join([*(level.name for level in self._levels), name])

    def _change(self, name: str, here: int | None) -> None:
        try:
            _give_one(name, here, self.group, self.read_only)
        except OSError as err:
            if err.errno not in _MOVED or here is None:
                self.failed += 1
                self.error = self.error or sentence(self._where(name), err)
        self.done += 1
        now = time.monotonic_ns()
        if self.report is not None and now - self._reported_ns >= _REPORT_NS:
            self._reported_ns = now
            self.report({"done": self.done})


def _listed(fd: int) -> Listing:
    with os.scandir(fd) as entries:
        yield from entries


def _give_one(name: str, here: int | None, group: int, read_only: bool) -> None:
    found = os.stat(name, dir_fd=here, follow_symlinks=False)
    link = stat.S_ISLNK(found.st_mode)
    if found.st_gid == group and (link or _has_mode(found, read_only)):
        return
    if link:  # its mode means nothing, and changing it would change what it points to
        os.chown(name, -1, group, dir_fd=here, follow_symlinks=False)
        return
    # Held by a descriptor, it stays the same file even if somebody puts a link in its place.
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    try:
        found = os.fstat(fd)
        if stat.S_ISLNK(found.st_mode):
            return
        held = f"/proc/self/fd/{fd}"
        refused: OSError | None = None
        if found.st_gid != group:
            try:
                os.chown(held, -1, group)
            except OSError as err:  # the mode may be all that is needed
                refused = err
        # Also when only the group changed: that takes the set-id bits away.
        os.chmod(held, wanted_mode(found.st_mode, read_only))
        if refused is not None:
            raise refused
    finally:
        os.close(fd)


def _has_mode(found: os.stat_result, read_only: bool) -> bool:
    return wanted_mode(found.st_mode, read_only) == stat.S_IMODE(found.st_mode)
