"""The last words of a container that ended (P-185..P-187, P-132)."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from kubelet.api.pod import Pod
from kubelet.pods.runtime import ContainerRecord, ContainerState
from procs.syncloop.configs.files import termination_log_path
from procs.syncloop.site import Site

PATH: Final = "io.kubernetes.container.terminationMessagePath"
POLICY: Final = "io.kubernetes.container.terminationMessagePolicy"
FALLBACK: Final = "FallbackToLogsOnError"

FILE_LIMIT: Final = 4096
LOG_LIMIT: Final = 2048
LOG_LINES: Final = 80
POD_LIMIT: Final = 12 * 1024
_CANNOT_RUN: Final = "ContainerCannotRun"  # it has no log then
_TAIL: Final = 64 * 1024  # more than 80 entries with 2048 bytes among them take
_FULL: Final = b"F"


def termination_message(pod: Pod, record: ContainerRecord, site: Site) -> str:
    """Return what the runtime says of a container's end, and what it said itself."""
    if record.state is not ContainerState.EXITED:
        return record.message
    words, silent = _last_words(pod.uid, record, site)
    wanted = record.annotations.get(POLICY) == FALLBACK and record.exit_code != 0
    if silent and wanted and record.reason != _CANNOT_RUN:
        words = _end_of_log(record.log_path)
    return ": ".join(part for part in (record.message, words) if part)


def capped(message: str, containers: int) -> str:
    """Return a container's part of what the messages of one pod may have in all (P-132)."""
    share = POD_LIMIT // max(1, containers)
    return message.encode()[:share].decode(errors="ignore")


def log_tail(data: bytes) -> str:
    """Return the text at the end of a log in the runtime's format; what is odd is left out.

    An entry is ``time stream tags text``; one whose tag is P is continued by the next.
    """
    text = b""
    for entry in data.split(b"\n")[-LOG_LINES - 1 :]:
        parts = entry.split(b" ", 3)
        if len(parts) == 4:
            text += parts[3] + (b"\n" if parts[2].split(b":")[0] == _FULL else b"")
    return _text(text[-LOG_LIMIT:])


def _last_words(uid: str, record: ContainerRecord, site: Site) -> tuple[str, bool]:
    """Return what a container wrote into its file, and whether it wrote nothing."""
    if not record.annotations.get(PATH):
        return "", True
    path = termination_log_path(uid, record.name, record.attempt, site)
    try:
        data = _end(path, FILE_LIMIT)
    except FileNotFoundError:
        return "", True
    except OSError as err:
        return f"Error on reading termination log {path}: {err.strerror}", False
    return _text(data), not data


def _end_of_log(path: str) -> str:
    if not path:
        return ""
    try:
        data = _end(path, _TAIL)
    except OSError as err:
        return f"Error on reading container log {path}: {err.strerror}"
    if len(data) == _TAIL:  # the first entry is cut
        data = data.partition(b"\n")[2]
    return log_tail(data)


def _end(path: str, limit: int) -> bytes:
    """Read the end of a plain file; nothing else is opened in earnest."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return os.pread(fd, limit, max(0, found.st_size - limit))
    finally:
        os.close(fd)


def _text(data: bytes) -> str:
    """Return bytes as text; a character that was cut in two at the front goes."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode(errors="replace")
