"""The files that a log is in, one after the other: the current one, then what replaces it (H-61).

A file stays open while it is read, so that what was written to it before it was moved away, and
after, is read to its end. Parts that were moved away while the reader was busy with an older one
come in their turn, unless they were compressed in the meantime.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from kubelet.logs.errors import LogError, NoLogError
from kubelet.logs.names import Form, all_rotated

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # nobody hangs at what is no file


class Chain:
    """Reads a log through all of its files; nothing in it waits."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)  # a link may lead to another directory
        self.directory, self._name = os.path.split(self.path)
        self._fd = -1
        self._at = 0

    def open(self) -> bool:
        """Open the log if it is not yet; False: there is none. LogError says what is wrong.

        While it is being moved away there is only what was moved away: that is the log then.
        """
        if self._fd >= 0:
            return True
        for path in (self.path, *reversed(self._moved())):
            try:
                self._fd = _open(path)
            except FileNotFoundError:
                continue
            self._at = 0
            return True
        return False

    def require(self) -> None:
        """Open the log; NoLogError if there is none."""
        if not self.open():
            raise NoLogError(f"failed to open log file {self.path}: there is no such file")

    @property
    def fd(self) -> int:
        """The descriptor of the file that is read now."""
        return self._fd

    def seek(self, position: int) -> None:
        """Go on at a position of the current file."""
        self._at = position

    def read(self, size: int) -> bytes:
        """Return what comes next in the current file; nothing at its end."""
        if self._fd < 0:
            return b""
        try:
            data = os.pread(self._fd, size, self._at)
        except OSError as err:
            raise LogError(f"failed to read log file {self.path}: {err.strerror}") from None
        self._at += len(data)
        return data

    def was_cut(self) -> bool:
        """Whether the file is shorter than what was read of it; then it begins anew."""
        if self._fd >= 0 and os.fstat(self._fd).st_size < self._at:
            self._at = 0
            return True
        return False

    def successor(self) -> int | None:
        """Open the file that comes after the current one; None: there is none yet.

        The current one is not given up: what was written to it at the last moment can be read.
        """
        if self._fd < 0:
            return None
        current = os.fstat(self._fd)
        if self._is(current):
            return None
        for path in (*self._later(current), self.path):
            try:
                fd = _open(path)
            except FileNotFoundError:
                continue
            if not os.path.samestat(os.fstat(fd), current):
                return fd
            os.close(fd)
        return None

    def switch(self, fd: int) -> None:
        """Go on with another file, from its beginning."""
        self.close()
        self._fd, self._at = fd, 0

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _moved(self) -> list[str]:
        """Return the parts that were moved away and are as they were, oldest first."""
        try:
            names = os.listdir(self.directory)
        except OSError:
            return []
        found = all_rotated(names, self._name)
        return [f"{self.directory}/{one.name}" for one in found if one.form is Form.PLAIN]

    def _is(self, current: os.stat_result) -> bool:
        """Whether a file is still what the log's own name stands for."""
        try:
            return os.path.samestat(os.stat(self.path), current)
        except OSError:
            return False

    def _later(self, current: os.stat_result) -> list[str]:
        """Return the parts that were moved away after the current file was.

        Where the current file itself is no longer to be found, the last writes tell.
        """
        moved = []
        for path in self._moved():
            try:
                found = os.stat(path)
            except FileNotFoundError:
                continue
            moved.append((path, found))
        for index, (_, found) in enumerate(moved):
            if os.path.samestat(found, current):
                return [path for path, _ in moved[index + 1 :]]
        return [path for path, found in moved if found.st_mtime_ns > current.st_mtime_ns]


def _open(path: str) -> int:
    try:
        fd = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise
    except OSError as err:
        raise LogError(f"failed to open log file {path}: {err.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise LogError(f"failed to open log file {path}: it is no plain file")
    return fd
