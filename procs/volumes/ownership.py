"""Giving a volume to the pod's group (L-33)."""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from typing import Final

_READ_WRITE: Final = 0o660
_READ: Final = 0o440
_ENTER: Final = 0o110


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
    for _path, directories, files, here in os.fwalk(path, follow_symlinks=False):
        for name in (*directories, *files):
            _give_one(name, here, group, read_only)
    # The root last: a walk that was cut short does not look like a finished one.
    _give_one(path, None, group, read_only)
    return True


def wanted_mode(mode: int, read_only: bool) -> int:
    """Return the mode of a file or directory that the group can use."""
    added = _READ if read_only else _READ_WRITE
    if stat.S_ISDIR(mode):
        added |= _ENTER | stat.S_ISGID
    return stat.S_IMODE(mode) | added


def _fits(found: os.stat_result, group: int, read_only: bool) -> bool:
    return found.st_gid == group and wanted_mode(found.st_mode, read_only) == stat.S_IMODE(
        found.st_mode
    )


def _give_one(name: str, here: int | None, group: int, read_only: bool) -> None:
    found = os.stat(name, dir_fd=here, follow_symlinks=False)
    if found.st_gid != group:
        os.chown(name, -1, group, dir_fd=here, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        return  # its mode means nothing, and changing it would change what it points to
    mode = wanted_mode(found.st_mode, read_only)
    if mode != stat.S_IMODE(found.st_mode) or found.st_gid != group:
        os.chmod(name, mode, dir_fd=here)
