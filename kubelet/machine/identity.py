"""Who the machine is, and what runs on it (N-2, N-15)."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final

from kubelet.config import Effective
from kubelet.machine import files
from kubelet.machine.architecture import architecture

OS: Final = "linux"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
OS_LABELS: Final = ("kubernetes.io/os", "beta.kubernetes.io/os")
ARCH_LABELS: Final = ("kubernetes.io/arch", "beta.kubernetes.io/arch")
_MACHINE_IDS: Final = ("etc/machine-id", "var/lib/dbus/machine-id")
# The firmware's word for the machine, on PCs and on machines with a device tree.
_SYSTEM_UUIDS: Final = (
    "sys/class/dmi/id/product_uuid",
    "proc/device-tree/system-id",
    "proc/device-tree/vm,uuid",
    *_MACHINE_IDS,
)
_WHOLE_UID_MAP: Final = ["0", "0", "4294967295"]  # of a process that is in no user namespace


@dataclass(frozen=True, slots=True)
class Identity:
    """The machine in the words of nodeInfo; "" is "it does not say"."""

    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    kernel: str = ""
    os_image: str = ""
    architecture: str = ""
    user_namespace: bool = False  # we are inside one


def read(root: str = "/") -> Identity:
    """Return who this machine is."""
    return Identity(
        machine_id=_first(root, _MACHINE_IDS),
        system_uuid=_first(root, _SYSTEM_UUIDS),
        boot_id=files.line(root, "proc/sys/kernel/random/boot_id"),
        kernel=files.line(root, "proc/sys/kernel/osrelease"),
        os_image=os_image(root),
        architecture=architecture(),
        user_namespace=_in_user_namespace(root),
    )


def labels(config: Effective, node: str) -> dict[str, str]:
    """Return the labels that the node is created with (N-2)."""
    own: dict[str, str] = config.flag("node-labels")
    return {HOSTNAME_LABEL: node} | platform_labels() | own


def platform_labels() -> dict[str, str]:
    """Return the labels that only this machine can know (N-8)."""
    return dict.fromkeys(OS_LABELS, OS) | dict.fromkeys(ARCH_LABELS, architecture())


def os_image(root: str = "/") -> str:
    """Return the name of the operating system."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        for line in files.text(root, path).splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "PRETTY_NAME" and _unquoted(value):
                return _unquoted(value)
    return "Linux"


def _unquoted(text: str) -> str:
    """Return a value as a shell reads it, which is how that file is defined."""
    try:
        return " ".join(shlex.split(text))
    except ValueError:
        return text.strip(" \t\"'")


def _first(root: str, paths: tuple[str, ...]) -> str:
    return next(filter(None, (files.line(root, path) for path in paths)), "")


def _in_user_namespace(root: str) -> bool:
    words = files.line(root, "proc/self/uid_map").split()
    return bool(words) and words != _WHOLE_UID_MAP
