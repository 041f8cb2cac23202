"""Parts of volumes, mounted so that nobody can slip another part of the node in (L-32).

The runtime resolves the path that it is given long after we did, and a container that shares the
volume can change what it leads to in between. So the part is opened below its volume first, and
what the descriptor holds is bound to a place of our own, which no container can reach. The places
are freed together with the pod's volumes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from procs.syncloop.configs import walk
from procs.syncloop.configs.errors import ConfigError

DIRECTORY: Final = "volume-subpaths"
_MS_BIND: Final = 4096
_MNT_DETACH: Final = 2
_UMOUNT_NOFOLLOW: Final = 8

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class SubPath:
    """A part of a volume that a container mounts."""

    pod_dir: str
    container: str
    index: int  # of the container's volume mounts
    volume: str  # its name
    root: str  # where it is
    path: str  # inside it, already expanded

    @property
    def target(self) -> str:
        """Where the part is bound to, for the runtime to mount from there."""
        return f"{self.pod_dir}/{DIRECTORY}/{self.volume}/{self.container}/{self.index}"


def prepare(part: SubPath) -> str:
    """Bind a part of a volume to its place and return that; a missing part becomes a directory.

    Doing it again changes nothing. ConfigError: the part leads out of the volume, or cannot be had.
    """
    try:
        mode = stat.S_IMODE(os.stat(part.root).st_mode)
        with walk.opened(part.root, part.path, create=mode) as fd:
            _bind(fd, part.target)
    except OSError as err:
        why = err.strerror or str(err)
        raise ConfigError(
            f'failed to prepare subPath "{part.path}" of volume "{part.volume}" for volumeMount '
            f'{part.index} of container "{part.container}": {why}'
        ) from None
    return part.target


def _bind(fd: int, target: str) -> None:
    wanted = os.fstat(fd)
    with suppress(FileNotFoundError):
        if os.path.samestat(os.stat(target), wanted):
            return
        _unmount(target)  # another part was here, or this one was made anew
        if stat.S_ISDIR(os.lstat(target).st_mode) != stat.S_ISDIR(wanted.st_mode):
            _remove(target)
    _place(target, directory=stat.S_ISDIR(wanted.st_mode))
    _mount(f"/proc/self/fd/{fd}", target)


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
