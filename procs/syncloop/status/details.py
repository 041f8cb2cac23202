"""Smaller parts of a container's status: its user and its mounts (P-130)."""

from __future__ import annotations

from kubelet.api.container import Container, VolumeMount
from kubelet.api.status import ContainerUser, LinuxContainerUser, VolumeMountStatus
from kubelet.pods.runtime import ContainerRecord


def user(record: ContainerRecord) -> ContainerUser | None:
    """Return the user that a container's first process was started as, if the runtime says so."""
    if record.user is None:
        return None
    linux = LinuxContainerUser(
        uid=record.user.uid, gid=record.user.gid, supplemental_groups=record.user.groups
    )
    return ContainerUser(linux=linux)


def mounts(container: Container, recursive: bool) -> tuple[VolumeMountStatus, ...]:
    """Return what of a container's mounts is shown; ``recursive``: the runtime can do that."""
    return tuple(
        VolumeMountStatus(
            name=mount.name,
            mount_path=mount.mount_path,
            read_only=mount.read_only or None,
            recursive_read_only=_recursion(mount, recursive) if mount.read_only else "",
        )
        for mount in container.volume_mounts
    )


def _recursion(mount: VolumeMount, recursive: bool) -> str:
    """Return whether what is mounted below a read-only mount is read-only too."""
    wanted = mount.recursive_read_only in ("Enabled", "IfPossible")
    return "Enabled" if wanted and recursive else "Disabled"
