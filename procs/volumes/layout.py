"""Where the volumes of a pod are on disk (L-2)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

EMPTY_DIR: Final = "kubernetes.io/empty-dir"
HOST_PATH: Final = "kubernetes.io/host-path"
DOWNWARD_API: Final = "kubernetes.io/downward-api"
CONFIG_MAP: Final = "kubernetes.io/configmap"
SECRET: Final = "kubernetes.io/secret"  # noqa: S105 - a plugin
PROJECTED: Final = "kubernetes.io/projected"
LOCAL: Final = "kubernetes.io/local-volume"
NFS: Final = "kubernetes.io/nfs"
CSI: Final = "kubernetes.io/csi"
IMAGE: Final = "kubernetes.io/image"

# Volumes whose files the kubelet writes, and nobody else: containers only read them.
WRITTEN: Final = frozenset({DOWNWARD_API, CONFIG_MAP, SECRET, PROJECTED})

# Directories of a pod that are removed with everything in them: nothing there outlives the pod.
EPHEMERAL: Final = WRITTEN | {EMPTY_DIR}

_UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


_KINDS: Final = {
    EMPTY_DIR: "emptyDir",
    HOST_PATH: "hostPath",
    DOWNWARD_API: "downwardAPI",
    CONFIG_MAP: "configMap",
    SECRET: "secret",
    PROJECTED: "projected",
    LOCAL: "local",
    NFS: "nfs",
    CSI: "csi",
    IMAGE: "image",
}


def kind_of(plugin: str) -> str:
    """Return a plugin's kind of volume as a pod's author writes it."""
    return _KINDS.get(plugin, plugin)


def is_uid(text: str) -> bool:
    """Tell whether a pod's uid may become a directory's name."""
    return _UID.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Tell whether a volume's name may become a directory's name."""
    return _NAME.fullmatch(text) is not None


def is_path(text: str) -> bool:
    """Tell whether the kernel takes a text as a path: whatever it is, it has bytes and no NUL."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def escaped(plugin: str) -> str:
    """Return a plugin's name as a directory's name."""
    return plugin.replace("/", "~")


@dataclass(frozen=True, slots=True)
class Layout:
    """The pods' directories below the kubelet's root directory."""

    root: str

    @property
    def pods(self) -> str:
        """Where the directories of all pods are."""
        return f"{self.root}/pods"

    def pod(self, uid: str) -> str:
        """Where everything of a pod is."""
        return f"{self.pods}/{uid}"

    def volumes(self, uid: str) -> str:
        """Where the volumes of a pod are, by plugin."""
        return f"{self.pod(uid)}/volumes"

    def devices(self, uid: str) -> str:
        """Where the block volumes of a pod are, by plugin: links to devices (L-34)."""
        return f"{self.pod(uid)}/volumeDevices"

    def device(self, uid: str, plugin: str, name: str) -> str:
        """Where a block volume is."""
        return f"{self.devices(uid)}/{escaped(plugin)}/{name}"

    def shared(self, plugin: str) -> str:
        """Where a plugin keeps what is not of one pod alone."""
        return f"{self.root}/plugins/{plugin}"

    def plugins(self, uid: str) -> str:
        """Where plugins keep what they must know of a pod's volumes."""
        return f"{self.pod(uid)}/plugins"

    def subpaths(self, uid: str) -> str:
        """Where parts of volumes are mounted for containers (L-32)."""
        return f"{self.pod(uid)}/volume-subpaths"

    def volume(self, uid: str, plugin: str, name: str) -> str:
        """Where a volume is."""
        return f"{self.volumes(uid)}/{escaped(plugin)}/{name}"

    def marker(self, uid: str, name: str) -> str:
        """Where it is noted that an emptyDir is set up: a directory with a file ``ready``."""
        return f"{self.plugins(uid)}/{escaped(EMPTY_DIR)}/{name}"
