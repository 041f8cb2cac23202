"""What is done to log files. Everything here may wait for the disk: it is called in a thread."""

from __future__ import annotations

import contextlib
import gzip
import os
import stat
from collections.abc import Callable, Iterator
from typing import Final

from kubelet.logs.names import COMPRESSED, UNFINISHED, Form, rotated
from procs.syncloop.logs.decide import decide

_BLOCK: Final = 256 << 10
_LEVEL: Final = 6
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOG: Final = ".log"


class StoppedError(Exception):
    """The process is to end before the work is done; the next one begins it anew."""


def size(path: str) -> int | None:
    """Return the size of a log; None: it is not there. What is no plain file is never too large."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def names(path: str) -> list[str]:
    """Return what is beside a log."""
    return os.listdir(os.path.dirname(path))


def remove(directory: str, name: str) -> None:
    """Remove a file; one that is gone is gone."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, name))


def move_away(path: str, target: str) -> None:
    """Give a log another name, which nothing has yet."""
    if os.path.lexists(target):
        raise FileExistsError(f"{target} is there already")
    os.rename(path, target)


def move_back(target: str, path: str) -> bool:
    """Give a log its name back; False: there is a new one by now, which must not be overwritten.

    A link fails where there is something, a rename would not.
    """
    try:
        os.link(target, path, follow_symlinks=False)
    except FileExistsError:
        return False
    os.unlink(target)
    return True


def undo_half_moves(path: str, found: list[str]) -> list[str]:
    """Drop names that a log has besides its own, left by a death within ``move_back``."""
    directory, current = os.path.split(path)
    left = []
    for name in found:
        part = rotated(name, current)
        other = os.path.join(directory, name)
        if part is not None and part.form is Form.PLAIN and _same(path, other):
            os.unlink(other)
        else:
            left.append(name)
    return left


def _same(path: str, other: str) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except FileNotFoundError:
        return False


def compress(path: str, stopped: Callable[[], bool]) -> None:
    """Replace a file by its compressed form; at any moment one of the two is complete."""
    draft = path + UNFINISHED
    remove(*os.path.split(draft))
    try:
        _write_compressed(path, draft, stopped)
        os.rename(draft, path + COMPRESSED)
    except BaseException:
        remove(*os.path.split(draft))
        raise
    os.unlink(path)


def _write_compressed(path: str, draft: str, stopped: Callable[[], bool]) -> None:
    with open(os.open(path, _READ), "rb") as source:
        found = os.fstat(source.fileno())
        with open(os.open(draft, _WRITE, 0o600), "wb") as target:
            _copy_rights(target.fileno(), found)
            with gzip.GzipFile(
                filename="", mode="wb", compresslevel=_LEVEL, fileobj=target, mtime=found.st_mtime
            ) as packed:
                for block in _blocks(source.fileno(), stopped):
                    packed.write(block)
            target.flush()
            os.fsync(target.fileno())  # or the only copy may be lost with the power
        os.utime(draft, ns=(found.st_atime_ns, found.st_mtime_ns))


def _copy_rights(fd: int, found: os.stat_result) -> None:
    """Let the compressed form be read by whoever may read the log."""
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) != (found.st_uid, found.st_gid):
        os.fchown(fd, found.st_uid, found.st_gid)
    os.fchmod(fd, stat.S_IMODE(found.st_mode))


def _blocks(fd: int, stopped: Callable[[], bool]) -> Iterator[bytes]:
    while block := os.read(fd, _BLOCK):
        if stopped():
            raise StoppedError
        yield block


def sweep(logs_dir: str) -> list[str]:
    """Remove what a death within ``compress`` left, of every pod; return what could not be.

    The logs of containers that have ended are never rotated again: nobody else would.
    """
    failures = []
    for directory in _directories(logs_dir, 2):
        try:
            _sweep(directory)
        except OSError as err:
            failures.append(f"{directory}: {err.strerror}")
    return failures


def _sweep(directory: str) -> None:
    found = os.listdir(directory)
    for current in {f"{name.partition(_LOG)[0]}{_LOG}" for name in found if _LOG in name}:
        for name in decide(found, current, len(found) + 1, rotating=False).remove:
            remove(directory, name)


def _directories(top: str, depth: int) -> Iterator[str]:
    """Return the directories at a depth below one."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(top) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                continue
            if depth == 1:
                yield entry.path
            else:
                yield from _directories(entry.path, depth - 1)
