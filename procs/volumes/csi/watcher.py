"""Which sockets plugins have put into the registry directory (L-40).

The kernel's word that something happened there causes a look at all of it: the directory is small,
and what is found by a look cannot have been missed. A look now and then, without a cause, makes
good what the kernel did not tell.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from typing import Final, TypeAlias

from kubelet import inotify
from kubelet import logging as klog

log = klog.get_logger(__name__)

# What tells a socket from its successor at the same path: device, inode and when it was made. The
# time of the last change would also tell that somebody has changed its mode.
Stamp: TypeAlias = tuple[int, int, int]
Found: TypeAlias = Callable[[dict[str, Stamp]], None]

LOOK_SECONDS: Final = 10.0
BLIND_SECONDS: Final = 1.0  # where the kernel does not tell anything
_MODE: Final = 0o750
_MASK: Final = (
    inotify.CREATE
    | inotify.DELETE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
    | inotify.ONLYDIR
)


class Watcher:
    """Calls back with all sockets, by path, whenever something may have happened to them."""

    def __init__(self, root: str, found: Found, seconds: float = LOOK_SECONDS) -> None:
        self._root = root
        self._found = found
        self._seconds = seconds
        self._kernel: inotify.Inotify | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._complaints = klog.every(60)

    def start(self) -> None:
        """Watch from now on; what is there is found at once."""
        try:
            self._kernel = inotify.Inotify()
            asyncio.get_running_loop().add_reader(self._kernel.fileno(), self._happened)
        except OSError as err:
            self._blind(err)
        self._look()

    def close(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._kernel is not None:
            asyncio.get_running_loop().remove_reader(self._kernel.fileno())
            self._kernel.close()
            self._kernel = None

    def _happened(self) -> None:
        assert self._kernel is not None
        if self._kernel.read():
            self._look()

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._look)
        try:
            os.makedirs(self._root, mode=_MODE, exist_ok=True)
            sockets = self._sockets()
        except OSError as err:  # what was there may be there still: nobody is sent away for this
            if self._complaints.ready():
                log.error("Could not look for plugins", directory=self._root, err=err)
            return
        self._found(sockets)

    def _sockets(self) -> dict[str, Stamp]:
        """Look through the directories, each of which is watched before it is read."""
        sockets: dict[str, Stamp] = {}
        pending = [self._root]
        while pending:
            directory = pending.pop()
            try:
                self._watch(directory)
                with os.scandir(directory) as entries:
                    visible = [entry for entry in entries if not entry.name.startswith(".")]
            except (FileNotFoundError, NotADirectoryError):
                continue  # gone since its parent was read
            for entry in visible:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif (stamp := socket_stamp(entry.path)) is not None:
                    sockets[entry.path] = stamp
        return sockets

    def _watch(self, directory: str) -> None:
        if self._kernel is None:
            return
        try:
            self._kernel.add(directory, _MASK)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as err:
            self._blind(err)

    def _blind(self, err: OSError) -> None:
        if self._seconds > BLIND_SECONDS:
            log.warning(
                "Plugins are looked for each second: the kernel does not tell of them", err=err
            )
        self._seconds = min(self._seconds, BLIND_SECONDS)


def socket_stamp(path: str) -> Stamp | None:
    """Return what tells a socket from another; None: there is none at that path."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISSOCK(found.st_mode):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
