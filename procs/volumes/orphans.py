"""Directories of pods that nobody knows any more, and why they are still there (L-18).

For people who would otherwise remove them by hand, and with them whatever is mounted below. It
looks at the kubelet's own disk and at the kernel's list of mounts alone: nothing that is mounted is
entered or even asked for, so it comes back when every file server is dead. All of it is bounded.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

from procs.volumes import mounts, usage
from procs.volumes.layout import CSI, EPHEMERAL, HOST_PATH, IMAGE, LOCAL, NFS, Layout, escaped

# What is taken down when its pod is gone.
_KNOWN: Final = EPHEMERAL | {CSI, NFS, LOCAL, HOST_PATH, IMAGE}
_OURS: Final = frozenset(map(escaped, EPHEMERAL))
_DATA_FILE: Final = "vol_data.json"
_MOST_DATA: Final = 64 << 10  # bytes of such a file
_MOST_ENTRIES: Final = 1000  # that are counted
_MOST_VOLUMES: Final = 100  # of a pod that are looked at
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_DIRECTORY: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Cause(StrEnum):
    """Why a directory is still there."""

    MOUNTED = "mounted"  # something is mounted below it
    UNSUPPORTED = "unsupported"  # it holds a volume that cannot be taken down here
    DATA = "data"  # it holds files that are not the kubelet's to remove
    SOURCE = "source"  # its pod may come yet: a source has not given its pods
    ERROR = "error"  # the last try failed
    ENDING = "ending"  # it is being removed
    NEXT = "next"  # nothing is in its way


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that keeps a directory, in words."""

    cause: Cause
    text: str


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of the kernel's list of mounts."""

    path: str
    fs_type: str
    source: str


@dataclass(frozen=True, slots=True)
class Orphan:
    """The directory of a pod that nobody wants."""

    uid: str
    path: str
    pod: str = ""  # namespace/name, where that is known
    adopted: bool = False  # syncloop has a row for it, and has its volumes taken down
    mounts: tuple[Mount, ...] = ()
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Staged:
    """A device that a CSI driver has staged, and that no pod on disk uses."""

    driver: str
    handle: str  # "" if nothing on disk tells
    path: str
    mounted: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What the tables say."""

    pods: Mapping[str, str]  # uid -> namespace/name, of all rows of table pods
    adopted: Collection[str] = ()  # those of them that are only directories to be removed
    errors: Mapping[str, tuple[str, ...]] | None = None  # uid -> what was said of its volumes
    undelivered: tuple[str, ...] = ()  # sources that have not given their pods


@dataclass(frozen=True, slots=True)
class Found:
    """All that nobody wants."""

    pods: tuple[Orphan, ...]
    staged: tuple[Staged, ...]


def read_mounts(text: str) -> list[Mount]:
    """Return the kernel's list of mounts, in the order in which they were made. Pure."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, more = before.split(" "), after.split(" ")
        if len(fields) > 4 and len(more) > 1:
            found.append(Mount(_plain(fields[4]), more[0], _plain(more[1])))
    return found


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda octal: chr(int(octal[1], 8)), text)


def find(layout: Layout, known: Known, mounted: list[Mount]) -> Found:
    """Look at the disk once. ``layout`` has the path as the kernel writes it."""
    disk = _Disk(mounted, (layout.pods, layout.shared(CSI)))
    pods = tuple(
        _orphan(disk, layout, known, uid)
        for uid in disk.directories(layout.pods)
        if uid not in known.pods or uid in known.adopted
    )
    return Found(pods, tuple(_staged(disk, layout)))


class _Disk:
    """The kubelet's own disk: what is mounted on it is not entered."""

    def __init__(self, mounted: list[Mount], tops: tuple[str, ...]) -> None:
        """``tops``: where it is looked; these may be disks of their own, what is below may not."""
        self._mounted = [
            one for one in mounted if any(one.path.startswith(f"{top}/") for top in tops)
        ]
        self._points = frozenset(one.path for one in self._mounted)

    def is_point(self, path: str) -> bool:
        """Tell whether something is mounted at a path."""
        return path in self._points

    def below(self, path: str) -> tuple[Mount, ...]:
        """Return what is mounted at a path and below it."""
        return tuple(
            one for one in self._mounted if one.path == path or one.path.startswith(f"{path}/")
        )

    def directories(self, path: str) -> list[str]:
        """Return the directories in one."""
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as entries:
            return sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))
        return []

    def content(self, path: str) -> list[str]:
        """Return what is in a directory; nothing of a link, or of what something is mounted on."""
        if any(path == point or path.startswith(f"{point}/") for point in self._points):
            return []
        try:
            here = os.open(path, _DIRECTORY)
        except OSError as err:
            if err.errno in _NO_DIRECTORY:
                return []
            raise
        try:
            return sorted(os.listdir(here))
        finally:
            os.close(here)

    def amount(self, path: str) -> str:
        """Say how much is in a directory, without going through too much of it."""
        try:
            found = usage.of_directory(path, _MOST_ENTRIES)
        except usage.TooManyError:
            return f"more than {_MOST_ENTRIES} entries"
        except OSError:
            return "files"
        entries = found["inodes_used"] - 1
        return f"{entries} {'entry' if entries == 1 else 'entries'}, {found['used'] >> 10} KiB"


# --- a pod's directory ---


def _orphan(disk: _Disk, layout: Layout, known: Known, uid: str) -> Orphan:
    path = layout.pod(uid)
    held = disk.below(path)
    reasons = [
        *_mounted(held),
        *_volumes(disk, layout, uid),
        *_left_of_subpaths(disk, layout, uid),
        *(Reason(Cause.ERROR, text) for text in (known.errors or {}).get(uid, ())),
    ]
    adopted = uid in known.adopted
    reasons += _what_next(known, adopted=adopted, held=bool(reasons))
    return Orphan(uid, path, known.pods.get(uid, ""), adopted, held, tuple(reasons))


def _mounted(held: tuple[Mount, ...]) -> Iterator[Reason]:
    for one in held:
        yield Reason(Cause.MOUNTED, f"{one.fs_type} {one.source} is mounted at {one.path}")


def _what_next(known: Known, *, adopted: bool, held: bool) -> Iterator[Reason]:
    if adopted and not held:
        yield Reason(Cause.ENDING, "its volumes are being taken down, and then it is removed")
    elif not adopted and known.undelivered:
        names = ", ".join(known.undelivered)
        yield Reason(Cause.SOURCE, f"its pod may come yet: {names} has not given its pods")
    elif not adopted and not held:
        yield Reason(Cause.NEXT, "nothing is in its way: syncloop removes it when it looks next")


def _volumes(disk: _Disk, layout: Layout, uid: str) -> Iterator[Reason]:
    for above in (layout.volumes(uid), layout.devices(uid)):
        for plugin in disk.content(above):
            for name in disk.content(f"{above}/{plugin}")[:_MOST_VOLUMES]:
                yield from _volume(disk, plugin, f"{above}/{plugin}/{name}")


def _volume(disk: _Disk, plugin: str, path: str) -> Iterator[Reason]:
    if plugin in _OURS:
        return  # goes with all that is in it, once nothing is mounted there
    kind = plugin.replace("~", "/")
    if kind not in _KNOWN:
        yield Reason(Cause.UNSUPPORTED, f"{path} is a volume of {kind}, which is not supported")
    # That of a CSI driver is mounted one level lower, beside the kubelet's note of it.
    inside = disk.content(path)
    data = f"{path}/mount" if kind == CSI else path
    if "mount" in inside and disk.content(data) if kind == CSI else inside:
        yield Reason(
            Cause.DATA,
            f"{data} is not mounted and holds {disk.amount(data)}, which nobody but you may remove",
        )


def _left_of_subpaths(disk: _Disk, layout: Layout, uid: str) -> Iterator[Reason]:
    """Tell of parts of volumes that are no mounts and not empty: these are never removed."""
    above = layout.subpaths(uid)
    for volume in disk.content(above)[:_MOST_VOLUMES]:
        for container in disk.content(f"{above}/{volume}"):
            for index in disk.content(f"{above}/{volume}/{container}"):
                path = f"{above}/{volume}/{container}/{index}"
                if disk.content(path):
                    text = f"{path} is not mounted and holds {disk.amount(path)}"
                    yield Reason(Cause.DATA, f"{text}, which nobody but you may remove")


# --- what CSI drivers have staged ---


def _staged(disk: _Disk, layout: Layout) -> Iterator[Staged]:
    top = layout.shared(CSI)
    used = set(_used(disk, layout)) if os.path.lexists(top) else set()
    for driver in disk.content(top):
        for name in disk.content(f"{top}/{driver}"):
            place = f"{top}/{driver}/{name}"
            target = f"{place}/globalmount"
            if not _SHA256.fullmatch(name) or (driver, name) in used:
                continue
            if disk.is_point(target) or "globalmount" in disk.content(place):
                handle = _noted(f"{place}/{_DATA_FILE}").get("volumeHandle", "")
                yield Staged(driver, handle, target, disk.is_point(target))


def _used(disk: _Disk, layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield driver and hash of the handle of each CSI volume that a pod on disk has."""
    plugin = escaped(CSI)
    for uid in disk.directories(layout.pods):
        for name in disk.content(f"{layout.volumes(uid)}/{plugin}"):
            noted = _noted(f"{layout.volume(uid, CSI, name)}/{_DATA_FILE}")
            handle = noted.get("volumeHandle", "")
            yield noted.get("driverName", ""), sha256(handle.encode()).hexdigest()


def _noted(path: str) -> dict[str, str]:
    """Return the texts in the kubelet's note of a CSI volume; none of one that makes no sense."""
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, _FILE)) as file:
            found = json.loads(file.read(_MOST_DATA))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def look(root: str, known: Known) -> Found:
    """Look at the node: its list of mounts, then the disk below the kubelet's root directory."""
    with open(mounts.MOUNTINFO, encoding="utf-8", errors="surrogateescape") as file:
        mounted = read_mounts(file.read())
    return find(Layout(os.path.realpath(root)), known, mounted)
