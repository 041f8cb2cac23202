"""What a pod wants mounted, as values that need no pod to be carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from procs.volumes import layout


@dataclass(frozen=True, slots=True)
class File:
    """One file of a volume whose content the kubelet writes."""

    path: str  # below the volume
    data: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class EmptyDirWant:
    """A directory that lives as long as its pod."""

    name: str
    plugin: str = layout.EMPTY_DIR
    fs_type: str = ""  # "" is a directory on the kubelet's disk
    options: tuple[str, ...] = ()  # of the mount
    mode: int = 0o777
    fs_group: int | None = None
    wrapped: bool = False  # it carries another volume

    @property
    def marker(self) -> str:
        """Under which name it is noted that it is set up."""
        return f"wrapped_{self.name}" if self.wrapped else self.name


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
class Refused:
    """A volume that cannot be had as it is written."""

    name: str
    plugin: str
    reason: str


Want: TypeAlias = EmptyDirWant | HostPathWant | FilesWant | Refused


def plugin_of(want: Want) -> str:
    """Return the name of the plugin that a volume belongs to."""
    if isinstance(want, HostPathWant):
        return layout.HOST_PATH
    return want.base.plugin if isinstance(want, FilesWant) else want.plugin


def may_block(want: Want) -> bool:
    """Tell whether setting it up can wait for something: a mount, a walk, a dead file server.

    Making a directory on the kubelet's own disk does not count.
    """
    match want:
        case EmptyDirWant():
            return bool(want.fs_type) or want.fs_group is not None
        case HostPathWant():
            return bool(want.type)
        case FilesWant():
            return True
        case Refused():
            return False
