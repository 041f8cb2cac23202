"""The kernel's table of mounts, with all that it says of each; reading it touches none of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from procs.volumes import mounts

_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_FIELDS: Final = 6  # before the optional ones
_TAIL: Final = 3  # after the dash: type, source, options of the file system


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount."""

    device: str  # major:minor
    root: str  # what of the file system is mounted
    point: str  # where
    options: tuple[str, ...]  # of this mount
    fs_type: str
    source: str = ""

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written through it."""
        return "ro" in self.options


def parse(text: str) -> list[Mount]:
    """Return what a text like that of ``/proc/self/mountinfo`` lists, in the order of mounting."""
    found = []
    for line in text.splitlines():
        head, dash, tail = line.partition(" - ")
        first, last = head.split(" "), tail.split(" ")
        if not dash or len(first) < _FIELDS or len(last) < _TAIL:
            continue
        device, root, point, options = first[2:_FIELDS]
        fs_type, source = map(_plain, last[:2])
        chosen = tuple(options.split(","))
        found.append(Mount(device, _plain(root), _plain(point), chosen, fs_type, source))
    return found


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


def read() -> list[Mount]:
    """Return what is mounted now."""
    with open(mounts.MOUNTINFO, encoding="utf-8", errors="surrogateescape") as file:
        return parse(file.read())


def at(path: str) -> Mount | None:
    """Return what is mounted on a path, the uppermost; a link at its end is no mount."""
    real = mounts.real(path)
    return next((mount for mount in reversed(read()) if mount.point == real), None)


def holding(path: str, table: list[Mount]) -> Mount | None:
    """Return the mount that a path without links is in: the innermost, and of those the last."""
    inside = [m for m in table if m.point == path or path.startswith(m.point.rstrip("/") + "/")]
    longest = max((len(m.point) for m in inside), default=0)
    return next((m for m in reversed(inside) if len(m.point) == longest), None)


def same(path: str, table: list[Mount]) -> list[str]:
    """Return where else that is mounted which is at a path without links."""
    mount = holding(path, table)
    if mount is None:
        return []
    inner = path[len(mount.point.rstrip("/")) :]
    root = (mount.root.rstrip("/") + inner).rstrip("/") or "/"
    return [
        m.point for m in table if (m.device, m.root) == (mount.device, root) and m.point != path
    ]
