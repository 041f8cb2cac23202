"""Table files on disk: opening, locking, creating and replacing them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import time
from pathlib import Path
from typing import Final

from shm import layout
from shm.errors import TableLocked, TableUnavailable
from shm.tables import Declaration

START_BYTES: Final = 64 * 1024
LOCK_WAIT: Final = 1.0  # seconds; a killed writer holds its lock until it is reaped
_LOCK_POLL: Final = 0.002
_MODE: Final = 0o600


def open_table(path: Path, name: str, flags: int) -> int | None:
    """Open a table's file; None if there is none."""
    try:
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as err:
        raise TableUnavailable(name, f"cannot open {path}: {err.strerror}") from err


def read_header(fd: int) -> tuple[bytes, int]:
    """Return the header page, as far as there is one, and the file's size."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return b"", 0
    return os.pread(fd, layout.PAGE, 0), status.st_size


def lock(fd: int, name: str, wait: float = LOCK_WAIT) -> None:
    """Become the writer of this file, or say who is.

    The kernel drops the lock of a killed process when it takes the process down, which may be a
    little after its successor was started.
    """
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                head, _size = read_header(fd)
                pid = layout.header_word(head, layout.W_PID) if len(head) == layout.PAGE else 0
                raise TableLocked(name, pid) from None
            time.sleep(_LOCK_POLL)
        else:
            return


def is_at(fd: int, path: Path) -> bool:
    """Tell whether the open file is still the one that the path names."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(fd), there)


def create(path: Path, declaration: Declaration, generation: int, *, replace: bool) -> int | None:
    """Make an empty table, locked, and return its descriptor.

    It gets its name only when it is whole. Without ``replace``, None means that somebody else
    was quicker.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    except OSError as err:
        raise TableUnavailable(declaration.name, f"cannot create {new}: {err.strerror}") from err
    try:
        _fill(fd, declaration, generation)
        lock(fd, declaration.name)
        if replace:
            new.rename(path)
        else:
            os.link(new, path)
    except (FileExistsError, FileNotFoundError):
        os.close(fd)
        return None
    except OSError as err:
        os.close(fd)
        raise TableUnavailable(declaration.name, f"cannot create {path}: {err.strerror}") from err
    finally:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
    return fd


def supersede(fd: int) -> None:
    """Tell the readers of a replaced file to look for its successor."""
    _head, size = read_header(fd)
    if size >= layout.PAGE:
        os.pwrite(fd, struct.pack("=Q", layout.SUPERSEDED), layout.W_SUPERSEDED * 8)


def sweep(path: Path) -> None:
    """Remove what a writer that was killed while it made a file left; its lock is ours now."""
    for leftover in path.parent.glob(f".{path.name}.*.new"):
        with contextlib.suppress(FileNotFoundError):
            leftover.unlink()


def process_start(pid: int) -> int:
    """Return the start time of a process in clock ticks, or 0 where it cannot be told."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def _fill(fd: int, declaration: Declaration, generation: int) -> None:
    os.posix_fallocate(fd, 0, START_BYTES)
    head = bytearray(layout.PAGE)
    constants = layout.encode_header(declaration)
    head[: len(constants)] = constants
    struct.pack_into("=QQ", head, layout.W_SIZE * 8, START_BYTES, generation)
    os.pwrite(fd, head, 0)
