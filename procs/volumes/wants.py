"""What a pod wants mounted, as values that need no pod to be carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from procs.volumes import layout

# Writing this much takes about a millisecond, in memory and in the page cache alike.
_FEW: Final = 64  # files
_SMALL: Final = 256 << 10  # bytes


@dataclass(frozen=True, slots=True)
class File:
    """One file of a volume whose content the kubelet writes."""

    path: str  # below the volume
    data: bytes
    mode: int
    user: int | None = None  # who it belongs to; None is root


@dataclass(frozen=True, slots=True)
class EmptyDirWant:
    """A directory that lives as long as its pod."""

    name: str
    plugin: str = layout.EMPTY_DIR
    fs_type: str = ""  # "" is a directory on the kubelet's disk
    options: tuple[str, ...] = ()  # of the mount
    mode: int = 0o777
    fs_group: int | None = None
    wrapped: bool = False  # it carries another volume, whose files tell that it is set up


@dataclass(frozen=True, slots=True)
class HostPathWant:
    """A path of the host."""

    name: str
    path: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class FilesWant:
    """A volume of files that the kubelet writes, on top of an emptyDir (L-20)."""

    base: EmptyDirWant
    files: tuple[File, ...]
    nested: tuple[str, ...] = ()  # directories that other mounts need inside

    @property
    def name(self) -> str:
        """The volume's name."""
        return self.base.name


@dataclass(frozen=True, slots=True)
class Lacking:
    """A volume of files whose content is not to be had now; what was written before stays."""

    base: EmptyDirWant
    reason: str
    waiting: bool = False  # nothing is wrong: it is not there yet

    @property
    def name(self) -> str:
        """The volume's name."""
        return self.base.name


@dataclass(frozen=True, slots=True)
class Refused:
    """A volume that cannot be had as it is written."""

    name: str
    plugin: str
    reason: str


Want: TypeAlias = EmptyDirWant | HostPathWant | FilesWant | Lacking | Refused


def plugin_of(want: Want) -> str:
    """Return the name of the plugin that a volume belongs to."""
    if isinstance(want, HostPathWant):
        return layout.HOST_PATH
    return want.base.plugin if isinstance(want, FilesWant | Lacking) else want.plugin


def may_block(want: Want) -> bool:
    """Tell whether setting it up can wait for something: a mount, a walk, a dead file server.

    Making a directory on the kubelet's own disk does not count, nor does a tmpfs with a few files:
    what it takes is less than what handing it to somebody else takes.
    """
    match want:
        case EmptyDirWant():
            return bool(want.fs_type) or want.fs_group is not None
        case HostPathWant():
            return bool(want.type)
        case FilesWant():
            return len(want.files) > _FEW or sum(len(f.data) for f in want.files) > _SMALL
        case Lacking() | Refused():
            return False
