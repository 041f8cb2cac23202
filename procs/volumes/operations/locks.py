"""One operation at a time on each thing, whoever began it.

A lock is a file that the operation's process holds open. The kernel frees it when that process is
gone: one that cannot die, because the kernel does not let it go, keeps it, also when the process
that began it is long dead. So its successor knows, and does not begin the same again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from hashlib import sha256
from typing import NamedTuple


class Holder(NamedTuple):
    """Who holds a lock: what it does, since when, on the wall clock."""

    what: str
    since_ns: int


class Locks:
    """The locks in a directory, by what they are about."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def take(self, key: str, holder: Holder) -> int | Holder:
        """Return the descriptor that holds a lock, for as long as it is open; or who has it."""
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        path = self.path(key)
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found = _read(fd)
                os.close(fd)
                return found
            if _is_at(fd, path):  # it was not removed by the one who had it before
                os.truncate(fd, 0)
                os.pwrite(fd, json.dumps(holder).encode(), 0)
                return fd
            os.close(fd)

    def drop(self, key: str) -> None:
        """Remove the file of a lock whose holder is gone; one that is held stays."""
        path = self.path(key)
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(fd, path):
                    os.unlink(path)
            finally:
                os.close(fd)

    def is_free(self, key: str) -> bool:
        """Tell whether nobody holds a lock."""
        try:
            # Not for writing: that would be told to those who watch for its last writer.
            fd = os.open(self.path(key), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True

    def path(self, key: str) -> str:
        """Return where the file of a lock is, if there is one."""
        return f"{self._directory}/{sha256(key.encode(errors='surrogateescape')).hexdigest()}"


def _read(fd: int) -> Holder:
    try:
        what, since_ns = json.loads(os.pread(fd, 1 << 16, 0))
        return Holder(str(what), int(since_ns))
    except (ValueError, TypeError):  # it was taken at this moment
        return Holder("another operation", 0)


def _is_at(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False
