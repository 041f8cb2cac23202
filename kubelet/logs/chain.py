"""The files that a log is in, one after the other: the current one, then what replaces it (H-61).

A file stays open while it is read, so that what was written to it before it was moved away, and
after, is read to its end. Parts that were moved away while the reader was busy with an older one
come in their turn, unless they were compressed in the meantime.
"""

from __future__ import annotations

import os
import stat
from typing import Final, NamedTuple

from kubelet.logs.errors import LogError, NoLogError
from kubelet.logs.names import Form, Rotated, all_rotated, rotated

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # nobody hangs at what is no file


class Successor(NamedTuple):
    """A file of a log that is open, and comes next."""

    name: str
    fd: int


class Chain:
    """Reads a log through all of its files; nothing in it waits."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)  # a link may lead to another directory
        self.directory, self._name = os.path.split(self.path)
        self._fd = -1
        self._at = 0
        self._floor = ""  # stamp of the last part that is not after the current file

    def open(self) -> bool:
        """Open the log if it is not yet; False: there is none. LogError says what is wrong.

        While it is being moved away there is only what was moved away: that is the log then.
        """
        if self._fd >= 0:
            return True
        plain = [part for part in self._parts() if part.form is Form.PLAIN]
        for name in (self._name, *(part.name for part in reversed(plain))):
            fd = self._open(name)
            if fd is not None:
                self._take(name, fd)
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

    def successor(self) -> Successor | None:
        """Open the file that comes after the current one; None: there is none yet.

        The current one is not given up: what was written to it at the last moment can be read.
        """
        if self._fd < 0:
            return None
        current = os.fstat(self._fd)
        if _is(self.path, current):
            return None
        found = self._open_later(current) or self._open_current(current)
        # It may have been moved away, and others after it, between the listing and the opening.
        earlier = self._open_later(current) if found and found.name == self._name else None
        if found is None or earlier is None:
            return found
        os.close(found.fd)
        return earlier

    def _open_later(self, current: os.stat_result) -> Successor | None:
        for name in self._later(current):
            fd = self._open(name)
            if fd is not None:
                return Successor(name, fd)
        return None

    def _open_current(self, current: os.stat_result) -> Successor | None:
        fd = self._open(self._name)
        if fd is None:
            return None
        if os.path.samestat(os.fstat(fd), current):
            os.close(fd)
            return None
        return Successor(self._name, fd)

    def switch(self, successor: Successor) -> None:
        """Go on with another file, from its beginning."""
        self.close()
        self._take(*successor)

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _take(self, name: str, fd: int) -> None:
        self._fd, self._at = fd, 0
        part = rotated(name, self._name) or self._own_part(os.fstat(fd))
        stamps = [part.stamp] if part is not None else [one.stamp for one in self._parts()]
        self._floor = max(stamps, default="")

    def _own_part(self, current: os.stat_result) -> Rotated | None:
        """Return the part that the current file has become, if it was moved away."""
        own = (part for part in self._parts() if _is(f"{self.directory}/{part.name}", current))
        return next(own, None)

    def _open(self, name: str) -> int | None:
        return _open(f"{self.directory}/{name}")

    def _parts(self) -> list[Rotated]:
        """Return the parts that were moved away, oldest first."""
        try:
            return all_rotated(os.listdir(self.directory), self._name)
        except OSError:
            return []

    def _later(self, current: os.stat_result) -> list[str]:
        """Return the parts that were moved away after the current file was, in their order.

        Where the current file itself is no longer to be found, they are those that were not there
        when it was opened.
        """
        own = self._own_part(current)
        floor = own.stamp if own is not None else self._floor
        plain = (part for part in self._parts() if part.form is Form.PLAIN)
        return [part.name for part in plain if part.stamp > floor]


def _is(path: str, current: os.stat_result) -> bool:
    """Whether a path stands for a file that is open."""
    try:
        return os.path.samestat(os.stat(path), current)
    except OSError:
        return False


def _open(path: str) -> int | None:
    """Open a log; None: it is not there."""
    try:
        fd = os.open(path, _FLAGS)
    except FileNotFoundError:
        return None
    except OSError as err:
        raise LogError(f"failed to open log file {path}: {err.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise LogError(f"failed to open log file {path}: it is no plain file")
    return fd
