"""The kernel's word on what happens to files and directories: inotify(7), as a descriptor.

The descriptor becomes readable when something has happened: poll it, or give it to an event loop.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

# Of sys/inotify.h.
MODIFY: Final = 0x2
CLOSE_WRITE: Final = 0x8
MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
DELETE_SELF: Final = 0x400
MOVE_SELF: Final = 0x800
OVERFLOW: Final = 0x4000
IGNORED: Final = 0x8000
ONLYDIR: Final = 0x01000000

_HEAD: Final = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_BUFFER: Final = 64 << 10

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to what is watched, or to what is called ``name`` in it."""

    watch: int
    mask: int
    name: str


class Inotify:
    """Watches; never waits unless ``wait`` is called."""

    def __init__(self) -> None:
        self._fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable."""
        return self._fd

    def add(self, path: str, mask: int) -> int:
        """Watch a path and return its number: the same one for the same file."""
        name = os.fsencode(path)
        return _checked(_libc.inotify_add_watch(self._fd, name, mask), "inotify_add_watch")

    def remove(self, watch: int) -> None:
        """Watch something no more; what is gone has no watch any more."""
        _libc.inotify_rm_watch(self._fd, watch)

    def read(self) -> list[Event]:
        """Return what has happened since the last call, in order; nothing if nothing has."""
        events: list[Event] = []
        while True:
            try:
                data = os.read(self._fd, _BUFFER)
            except BlockingIOError:
                return events
            events += parse(data)

    def wait(self, seconds: float) -> bool:
        """Wait until something has happened; False if nothing has in that time."""
        return bool(select.select([self._fd], [], [], seconds)[0])

    def close(self) -> None:
        """Watch nothing any more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


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
