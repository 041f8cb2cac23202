"""Removing directories without ever leaving them: no symlink is followed, no mount is entered.

What a pod has written may be anything: links to the host, trees of any depth, names of any bytes.
One directory is open at a time, and each way up is checked to lead where the way down came from.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from procs.volumes import mounts
from procs.volumes.errors import VolumeError, sentence

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str, points: Iterable[str]) -> None:
    """Remove a path and all below it; a VolumeError if that holds a mount or cannot be done."""
    held = mounts.below(mounts.real(path), points)
    if held:
        raise VolumeError(f"{held[0]} is still mounted")
    try:
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(path)
            return
        _clear(path, found.st_dev)
        os.rmdir(path)
    except FileNotFoundError:
        return
    except OSError as err:
        raise VolumeError(sentence(f"could not remove {path}", err)) from err


def remove_empty(path: str) -> bool:
    """Remove a directory if it is empty; whether it is gone."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


@dataclass(slots=True)
class _Level:
    """A directory on the way down."""

    name: bytes  # in the one above
    identity: tuple[int, int]
    pending: list[bytes] = field(default_factory=list)  # directories in it


def _clear(path: str, device: int) -> None:
    """Remove what is in a directory."""
    here = os.open(path, _DIRECTORY)
    try:
        levels = [_Level(b"", _identity(here), _unlink_files(here))]
        while True:
            level = levels[-1]
            if level.pending:
                name = level.pending.pop()
                here = _down(here, name, device)
                levels.append(_Level(name, _identity(here), _unlink_files(here)))
            elif len(levels) > 1:
                levels.pop()
                here = _up(here, levels[-1].identity)
                os.rmdir(level.name, dir_fd=here)
            else:
                return
    finally:
        with contextlib.suppress(OSError):
            os.close(here)


def _unlink_files(here: int) -> list[bytes]:
    """Remove all but directories; the names of these."""
    directories = []
    for name in os.listdir(here):
        if stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
            directories.append(os.fsencode(name))
        else:
            os.unlink(name, dir_fd=here)
    return directories


def _down(here: int, name: bytes, device: int) -> int:
    inner = os.open(name, _DIRECTORY, dir_fd=here)
    if os.fstat(inner).st_dev != device:
        os.close(inner)
        raise VolumeError(f"{os.fsdecode(name)} is on another file system: it is not removed")
    os.close(here)
    return inner


def _up(here: int, identity: tuple[int, int]) -> int:
    outer = os.open("..", _DIRECTORY, dir_fd=here)
    if _identity(outer) != identity:
        os.close(outer)
        raise VolumeError("a directory was moved while it was being removed")
    os.close(here)
    return outer


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino
