"""The kubelet's root directory as a mount whose mounts others are told of (L-2).

A container that mounts something in a volume for all to see (mountPropagation Bidirectional), as
drivers of storage do, can do so only below a mount that is shared. Where the machine's root is
shared, so is everything in it, and nothing is to be done.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

from kubelet.startup import Finding, Severity

MOUNTINFO: Final = "/proc/self/mountinfo"
_BIND: Final = 1 << 12  # linux/mount.h
_RECURSIVE: Final = 1 << 14
_SHARED: Final = 1 << 20
_POINT: Final = 4  # fields of a line of mountinfo
_TAGS: Final = 6
_LOSS: Final = "mounts that containers make in volumes are not seen by others"

_libc: Final = ctypes.CDLL(None, use_errno=True)


def share(directory: str) -> Finding | None:
    """Make a directory shared, unless it is; a finding says what was done, or why it was not.

    Without root nothing can be mounted in it, by whomever.
    """
    if os.geteuid() != 0:
        return None
    try:
        os.makedirs(directory, mode=0o750, exist_ok=True)
        path = os.path.realpath(directory)
        with open(MOUNTINFO, encoding="utf-8", errors="surrogateescape") as file:
            table = file.read()
        return _share(path, table)
    except OSError as err:
        text = f"Cannot make {directory} a shared mount: {err.strerror}; {_LOSS}"
        return Finding(Severity.WARNING, text)


def _share(path: str, table: str) -> Finding | None:
    point, shared = holding(path, table)
    if shared:
        return None
    if point != path:
        inside = below(path, table)
        if inside:  # what is mounted there would be hidden, and could not be unmounted any more
            text = f"{path} is not a shared mount, and {inside[0]} is in use: {_LOSS}"
            return Finding(Severity.WARNING, text)
        _mount(path, path, _BIND)
    _mount("", path, _SHARED | _RECURSIVE)
    return Finding(Severity.INFO, f"Made {path} a shared mount")


def holding(path: str, table: str) -> tuple[str, bool]:
    """Return the mount that a path is in, and whether it is shared. Pure."""
    found = ("/", False)
    for point, tags in _mounts(table):
        inside = path == point or path.startswith(f"{point.rstrip('/')}/")
        if inside and len(point) >= len(found[0]):
            found = (point, any(tag.startswith("shared:") for tag in tags))
    return found


def below(path: str, table: str) -> list[str]:
    """Return what is mounted inside a directory. Pure."""
    return [point for point, _ in _mounts(table) if point.startswith(f"{path}/")]


def _mounts(table: str) -> list[tuple[str, list[str]]]:
    lines = (line.split(" ") for line in table.splitlines())
    whole = (fields for fields in lines if "-" in fields[_TAGS:])
    return [(_plain(f[_POINT]), f[_TAGS : f.index("-", _TAGS)]) for f in whole]


def _plain(point: str) -> str:
    """Return a path that the kernel has written with its odd characters as octal numbers."""
    for code in (" ", "\t", "\n", "\\"):
        point = point.replace(f"\\{ord(code):03o}", code)
    return point


def _mount(source: str, target: str, flags: int) -> None:
    given = os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None
    if _libc.mount(*given) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)
