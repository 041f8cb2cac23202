"""Lock files: one kubelet per run directory, and the operator's ``--lock-file`` (C-11)."""

from __future__ import annotations

import fcntl
import os
import time

from supervisor import linux

_IN_OPEN = 0x20
_IN_DELETE_SELF = 0x400


class LockHeldError(Exception):
    """Another process holds the lock."""


def take(path: str, patience: float) -> int:
    """Take the lock, waiting at most ``patience`` seconds for a dying predecessor to let go."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
                os.close(fd)
                raise LockHeldError(holder) from None
            time.sleep(0.02)  # flock has no way to wait with a time limit
        else:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            return fd


def wait_for(path: str) -> int:
    """Take the operator's lock file, waiting for as long as it takes, as the Go kubelet does."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def contention(path: str) -> int:
    """A descriptor that becomes readable when somebody opens or deletes the lock file."""
    return linux.inotify_watch(path, _IN_OPEN | _IN_DELETE_SELF)
