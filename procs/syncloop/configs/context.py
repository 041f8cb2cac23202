"""What a container's configuration depends on besides its pod."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kubelet.cri import api_pb2 as pb
from kubelet.pods.rows import VolumeRow
from kubelet.pods.runtime import Handler
from procs.syncloop.configs.lookup import NOTHING, Lookup
from procs.syncloop.configs.policy import DEFAULT, Policy

# Called with the reason and the message of a warning event about the pod.
Warn = Callable[[str, str], None]


def _quiet(_reason: str, _message: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """An image that is there: what the runtime calls it, and the user that it runs as."""

    ref: str  # as the runtime resolved it
    spec: str  # as the pod names it
    uid: int | None = None  # None: the user is a name
    user: str = ""


def image_info(image: pb.Image, ref: str, spec: str) -> ImageInfo:
    """Return what a container needs to know of its image; no user at all is root (P-159)."""
    if image.HasField("uid"):
        return ImageInfo(ref, spec, uid=image.uid.value)
    if image.username:
        return ImageInfo(ref, spec, user=image.username)
    return ImageInfo(ref, spec, uid=0)


class FileKey(NamedTuple):
    """A variable in a file of a volume (P-174)."""

    volume: str
    path: str
    key: str


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """Where a container is to run."""

    sandbox_id: str
    sandbox: pb.PodSandboxConfig
    pod_ips: tuple[str, ...] = ()  # of host network pods: the node's
    volumes: dict[str, VolumeRow] = field(default_factory=dict)  # by name
    images: dict[str, ImageInfo] = field(default_factory=dict)  # of image volumes, by volume
    target_id: str = ""  # container whose processes an ephemeral container is to see
    handler: Handler | None = None  # the runtime handler and what it can do
    subpaths: dict[int, str] = field(default_factory=dict)  # volume mount -> prepared path
    file_keys: dict[FileKey, str | None] = field(default_factory=dict)  # as read; None: not there
    lookup: Lookup = NOTHING
    policy: Policy = DEFAULT
    warn: Warn = _quiet
