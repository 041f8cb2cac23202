"""Reading a file only when nobody is writing it.

A lease of the kernel (fcntl(2), F_SETLEASE) is given for reading when no process has the file open
for writing, and holds back whoever wants to write until it is returned. What is read under one is
whole. The lease lasts for the microseconds of the reading.

Some file systems have none (most network ones), and the files of other users need a capability.
There, a file counts as whole when its writer was seen closing it, or when it has not changed for a
second and does not change while it is read.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_BYTES: Final = 10 << 20  # P-5
QUIET_NS: Final = 10**9
_F_SETSIG: Final = 10  # of fcntl.h; the standard library has no name for it
# Whose leases say nothing about writers elsewhere; they refuse them with EAGAIN for good.
_NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3"})

# What tells one content from another without reading it.
Stamp = tuple[int, int, int, int, int]


class BusyError(Exception):
    """Somebody is writing the file, or may be.

    ``again`` is when another try makes sense, in seconds; 0: when its writer closes it.
    """

    def __init__(self, again: float = 0.0) -> None:
        super().__init__("is open for writing, and is read when its writer closes it")
        self.again = again


class RefusedError(Exception):
    """The file cannot be read or is nothing to read; says why."""


@dataclass(frozen=True, slots=True)
class Content:
    """A whole file, and the stamp that it had."""

    data: bytes
    stamp: Stamp


def stamp_of(found: os.stat_result) -> Stamp:
    """Return what changes when a file's content does."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def read(path: str, *, closed: bool, wall: Callable[[], int] = time.time_ns) -> Content:
    """Read a file whole; ``closed``: its writer was seen closing it.

    BusyError: try again later. RefusedError: it is not for reading. FileNotFoundError: it is gone.
    """
    fd = _open(path)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise RefusedError("is not a regular file")
        if found.st_size > MAX_BYTES:
            raise RefusedError(f"has {found.st_size} bytes, at most {MAX_BYTES} are allowed")
        if not _lease(fd, found.st_dev):
            return _read_quiet(fd, wall() if not closed else None)
        return Content(_read(fd), stamp_of(os.fstat(fd)))
    finally:
        os.close(fd)  # returns the lease


def _open(path: str) -> int:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a device may do something
            raise RefusedError("is not a regular file")
        # What became a FIFO meanwhile must not hold us up.
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        raise
    except BlockingIOError:
        raise BusyError from None  # somebody has a lease for writing
    except OSError as err:
        raise RefusedError(f"cannot be read: {err.strerror}") from None


def _read(fd: int) -> bytes:
    parts = []
    left = MAX_BYTES + 1
    try:
        while left and (part := os.read(fd, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
    except OSError as err:
        raise RefusedError(f"cannot be read: {err.strerror}") from None
    if not left:
        raise RefusedError(f"has more than {MAX_BYTES} bytes")
    return b"".join(parts)


def _lease(fd: int, device: int) -> bool:
    """Take a lease for reading; False where there is none, BusyError where somebody writes."""
    try:
        # Who wants to write has us told by a signal, which must be one that nobody minds: the
        # usual one would end this process.
        fcntl.fcntl(fd, _F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as err:
        if err.errno == errno.EAGAIN and _file_system(device) not in _NETWORK:
            raise BusyError from None
        return False
    return True


def _read_quiet(fd: int, now_ns: int | None) -> Content:
    """Read without a lease; ``now_ns`` None: the writer has closed it."""
    before = os.fstat(fd)
    if now_ns is not None and now_ns - before.st_mtime_ns < QUIET_NS:
        raise BusyError(QUIET_NS / 1e9)
    data = _read(fd)
    after = os.fstat(fd)
    if stamp_of(before) != stamp_of(after):
        raise BusyError(QUIET_NS / 1e9)
    return Content(data, stamp_of(after))


def _file_system(device: int) -> str:
    """Return the type of the file system on a device; "" if nobody knows."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                fields = line.split()
                if fields[2] == wanted:
                    return fields[fields.index("-") + 1]
    except (OSError, ValueError, IndexError):
        return ""
    return ""
