"""The kernel's word on what happens in directories: inotify(7), on the event loop."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# Of sys/inotify.h.
CLOSE_WRITE: Final = 0x8
MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
DELETE_SELF: Final = 0x400
MOVE_SELF: Final = 0x800
OVERFLOW: Final = 0x4000
IGNORED: Final = 0x8000
_ONLYDIR: Final = 0x01000000
_WANTED: Final = (
    CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF | _ONLYDIR
)

_HEAD: Final = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_BUFFER: Final = 64 << 10

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a directory, or to what is called ``name`` in it."""

    watch: int
    mask: int
    name: str


class Inotify:
    """Watches directories; calls back with what happened, in order."""

    def __init__(self, heard: Callable[[list[Event]], None]) -> None:
        self._heard = heard
        self._fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")
        asyncio.get_running_loop().add_reader(self._fd, self._ready)

    def add(self, directory: str) -> int:
        """Watch a directory and return its number: the same one for the same directory."""
        path = os.fsencode(directory)
        return _checked(_libc.inotify_add_watch(self._fd, path, _WANTED), "inotify_add_watch")

    def remove(self, watch: int) -> None:
        """Watch a directory no more; one that is gone has no watch any more."""
        _libc.inotify_rm_watch(self._fd, watch)

    def close(self) -> None:
        """Watch nothing any more."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _ready(self) -> None:
        events: list[Event] = []
        while True:
            try:
                data = os.read(self._fd, _BUFFER)
            except BlockingIOError:
                break
            events += parse(data)
        if events:
            self._heard(events)


def parse(data: bytes) -> list[Event]:
    """Return the events in what the kernel gave."""
    events = []
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length
        events.append(Event(watch, mask, name))
    return events


def _checked(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        why = os.strerror(number)
        if number in (errno.ENOSPC, errno.EMFILE):  # the kernel's words mean something else here
            why = "the limit of fs.inotify.max_user_watches or max_user_instances is reached"
        raise OSError(number, f"{call}: {why}")
    return result
