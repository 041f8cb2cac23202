"""Binds a part of a volume to a place of our own, so that nobody can slip another one in (L-32).

The runtime resolves the path that it is given long after we did, and a container that shares the
volume can change what it leads to in between. So the part is opened below its volume first, and
what the descriptor holds is bound to a place that no container can reach.

Only the standard library: it runs in processes of single operations.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from contextlib import suppress
from typing import Final

from procs.volumes import walk
from procs.volumes.errors import VolumeError

_MS_BIND: Final = 4096
_MNT_DETACH: Final = 2
_UMOUNT_NOFOLLOW: Final = 8

_libc: Final = ctypes.CDLL(None, use_errno=True)


def prepare(root: str, path: str, target: str) -> str:
    """Bind what a path inside a volume leads to, and return where; it is made if it is missing.

    Doing it again changes nothing. A VolumeError says why it cannot be: it leads out of the volume,
    or the kernel's word.
    """
    try:
        mode = stat.S_IMODE(os.stat(root).st_mode)
        with walk.opened(root, path, create=mode) as fd:
            _bind(fd, target)
    except OSError as err:
        raise VolumeError(err.strerror or str(err)) from None
    return target


def release(target: str) -> None:
    """Free a place again; a VolumeError says why not."""
    try:
        _unmount(target)
        _remove(target)
    except OSError as err:
        raise VolumeError(err.strerror or str(err)) from None


def _bind(fd: int, target: str) -> None:
    wanted = os.fstat(fd)
    if _holds(target, wanted):
        return
    with suppress(FileNotFoundError):
        _unmount(target)  # another part was here, or this one was made anew
        if stat.S_ISDIR(os.lstat(target).st_mode) != stat.S_ISDIR(wanted.st_mode):
            _remove(target)
    _place(target, directory=stat.S_ISDIR(wanted.st_mode))
    _mount(f"/proc/self/fd/{fd}", target)


def _holds(target: str, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(target), wanted)
    except OSError:  # there is nothing, or what was bound is gone from its server
        return False


def _place(target: str, *, directory: bool) -> None:
    os.makedirs(os.path.dirname(target), mode=0o750, exist_ok=True)
    if directory:
        with suppress(FileExistsError):
            os.mkdir(target, 0o750)
        return
    os.close(os.open(target, os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640))


def _remove(place: str) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(place).st_mode):
            os.rmdir(place)
        else:
            os.unlink(place)


def _mount(source: str, target: str) -> None:
    flags = ctypes.c_ulong(_MS_BIND)
    if _libc.mount(os.fsencode(source), os.fsencode(target), None, flags, None) != 0:
        _fail(target)


def _unmount(target: str) -> None:
    """Take away what is mounted at a place; it is fine if nothing is."""
    while _libc.umount2(os.fsencode(target), _MNT_DETACH | _UMOUNT_NOFOLLOW) == 0:
        pass
    if ctypes.get_errno() not in (errno.EINVAL, errno.ENOENT):
        _fail(target)


def _fail(target: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), target)
