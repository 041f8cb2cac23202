"""What a pod wants mounted, as values that need no pod to be carried out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kubelet.cluster.rows import CsiDriverRow
from procs.volumes import layout
from procs.volumes.ownership import Policy

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
    of: Persistent | None = None  # where it is a persistent volume


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
class Persistent:
    """What every volume has that outlives its pods."""

    spec: str  # name of its directory: the persistent volume's, or the pod's name for it
    claim: str = ""  # namespace/name
    read_only: bool = False
    options: tuple[str, ...] = ()  # of the mount
    block: bool = False  # a device, not a file system
    gid: int = 0  # a group that containers need (P-160)
    fs_group: int | None = None
    policy: Policy = Policy.ALWAYS


@dataclass(frozen=True, slots=True)
class LocalWant:
    """A path or a device of this node, as a persistent volume (kubernetes.io/local-volume)."""

    name: str
    path: str
    of: Persistent
    fs_type: str = ""  # of a device that is to carry a file system


@dataclass(frozen=True, slots=True)
class NfsWant:
    """A path of an NFS server."""

    name: str
    server: str
    path: str
    of: Persistent


@dataclass(frozen=True, slots=True)
class Growth:
    """A claim that asks for more than its volume's file system had when it was last told (L-16)."""

    wanted: str  # as it is written: 2Gi
    known: str  # the capacity in the claim's status
    pending: bool = False  # a controller has grown the volume, and it is the node's turn


@dataclass(frozen=True, slots=True)
class CsiWant:
    """A volume of a CSI driver, with all that its calls need (L-42..L-47)."""

    name: str
    driver: str
    handle: str  # of an ephemeral one: csi-<hash>
    of: Persistent
    fs_type: str = ""
    access_mode: str = ""  # ReadWriteOnce, ...: of the persistent volume; "": of a pod's own
    attributes: tuple[tuple[str, str], ...] = ()
    stage_secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    publish_secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    expand_secrets: tuple[tuple[str, str], ...] | None = field(default=None, repr=False)
    tokens: str = field(default="", repr=False)  # JSON of the pod's tokens for the driver (L-45)
    ephemeral: bool = False
    growth: Growth | None = None
    gives: bool = False  # its files are to be given to the pod's group, if the driver does not
    info: CsiDriverRow | None = None  # None: the cluster has no such object
    device: str = ""  # its name in the node's status, if a controller attaches it (L-13)
    attached: bool = True  # the node's status says that it is; always, if nobody attaches it
    in_use: bool = True  # the node's status says that it is in use; always, if nobody attaches it


@dataclass(frozen=True, slots=True)
class ImageWant:
    """An image, which the runtime mounts: there is nothing to be done for it here."""

    name: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A volume of which something is not known yet, or that waits for somebody else."""

    name: str
    plugin: str
    reason: str
    waiting: bool = True  # nothing is wrong; else it has failed, until what it needs changes
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A volume that cannot be had as it is written."""

    name: str
    plugin: str
    reason: str


Want: TypeAlias = (
    EmptyDirWant
    | HostPathWant
    | FilesWant
    | LocalWant
    | NfsWant
    | CsiWant
    | ImageWant
    | Lacking
    | Waiting
    | Refused
)
_PLUGINS: Final[dict[type, str]] = {
    HostPathWant: layout.HOST_PATH,
    LocalWant: layout.LOCAL,
    NfsWant: layout.NFS,
    CsiWant: layout.CSI,
    ImageWant: layout.IMAGE,
}


def plugin_of(want: Want) -> str:
    """Return the name of the plugin that a volume belongs to."""
    match want:
        case FilesWant() | Lacking():
            return want.base.plugin
        case EmptyDirWant() | Waiting() | Refused():
            return want.plugin
    return _PLUGINS[type(want)]


Outliving: TypeAlias = LocalWant | NfsWant | CsiWant  # what a plugin sets up and takes down


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
        case LocalWant() | NfsWant() | CsiWant():
            return True
        case ImageWant() | Lacking() | Waiting() | Refused():
            return False
