"""Mounting, unmounting, and knowing what is mounted: thin over the kernel."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable
from typing import Final

MOUNTINFO: Final = "/proc/self/mountinfo"
_UMOUNT_NOFOLLOW: Final = 8  # linux/fs.h
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_libc: Final = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, fs_type: str, options: Iterable[str]) -> None:
    """Mount a file system; OSError says why not."""
    data = ",".join(options).encode()
    done = _libc.mount(source.encode(), os.fsencode(target), fs_type.encode(), 0, data or None)
    if done != 0:
        raise _error(target)


def unmount(target: str) -> None:
    """Unmount what is on a path; OSError says why not."""
    if _libc.umount2(os.fsencode(target), _UMOUNT_NOFOLLOW) != 0:
        raise _error(target)


def _error(target: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), target)


def is_point(path: str) -> bool:
    """Tell whether another file system begins at a path: all that volumes mount are their own."""
    try:
        return os.lstat(path).st_dev != os.lstat(os.path.dirname(path)).st_dev
    except OSError:
        return False


def parse(text: str) -> list[str]:
    """Return the mount points in the kernel's list, in the order in which they were made."""
    points = []
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) > 4:
            points.append(_OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4]))
    return points


def below(path: str, points: Iterable[str]) -> list[str]:
    """Return the mount points at and below a path, the innermost first."""
    found = [p for p in points if p == path or p.startswith(path + "/")]
    return sorted(found, key=lambda point: -point.count("/"))


def real(path: str) -> str:
    """Return a path as the kernel lists it. A link at its end is not followed: it is no mount."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def points() -> list[str]:
    """Return what is mounted now."""
    with open(MOUNTINFO, encoding="utf-8", errors="surrogateescape") as file:
        return parse(file.read())
