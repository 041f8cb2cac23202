"""Paths of the host: what they must be, or are made (L-31). Standard library alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Final

from procs.volumes.errors import VolumeError

_Check = Callable[[int], bool]
# What a path must be, and how it is said that it is not.
_TYPES: Final[dict[str, tuple[_Check, str]]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "File": (lambda mode: not stat.S_ISDIR(mode), "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


def check(name: str, path: str, wanted: str) -> bool:
    """Check that a path is of its type, or make it; whether it was made."""
    if not wanted:
        return False
    type_ = wanted
    if type_ in ("DirectoryOrCreate", "FileOrCreate"):
        type_ = type_.removesuffix("OrCreate")
        if not os.path.exists(path):
            _create(path, type_)
            return True
    if type_ not in _TYPES:
        raise VolumeError(f'volume "{name}": {wanted} is an invalid volume type')
    fits, words = _TYPES[type_]
    if not fits(_mode(path, type_)):
        raise VolumeError(f"hostPath type check failed: {path} is not {words}")
    return False


def _create(path: str, type_: str) -> None:
    if type_ == "Directory":
        os.makedirs(path, mode=0o755, exist_ok=True)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
    os.close(os.open(path, flags, 0o644))


def _mode(path: str, type_: str) -> int:
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        # What is not there is of no type: a directory is no file, and nothing is no directory.
        return stat.S_IFDIR if type_ == "File" else 0
