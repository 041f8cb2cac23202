"""Where a container sees the pod's volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubelet.api.container import Container, VolumeDevice, VolumeMount
from kubelet.api.validation.names import descending_path, each, no_backsteps, one_of
from kubelet.api.validation.texts import forbidden, invalid, not_found, required, unsupported
from kubelet.api.volumes import Volume

_PROPAGATION: Final = ("None", "HostToContainer", "Bidirectional")
_RECURSIVE: Final = ("Disabled", "IfPossible", "Enabled")


def mounts(path: str, container: Container, volumes: dict[str, Volume]) -> Iterator[str]:
    """Check the mounts and the block devices of a container."""
    devices = {device.name: device.device_path for device in container.volume_devices}
    places: set[str] = set()
    for i, mount in enumerate(container.volume_mounts):
        where = f"{path}.volumeMounts[{i}]"
        yield from _mount_name(where, mount, volumes, devices)
        yield from _mount_path(where, mount, places, devices)
        places.add(mount.mount_path)
        yield from _sub_path(where, mount)
        yield from _propagation(where, mount, container)
        yield from _recursive(where, mount)
    yield from _devices(f"{path}.volumeDevices", container, volumes)


def _mount_name(
    path: str, mount: VolumeMount, volumes: dict[str, Volume], devices: dict[str, str]
) -> Iterator[str]:
    if not mount.name:
        yield required(f"{path}.name")
    elif mount.name not in volumes:
        yield not_found(f"{path}.name", mount.name)
    elif mount.name in devices:
        yield invalid(f"{path}.name", mount.name, "must not already exist in volumeDevices")


def _mount_path(
    path: str, mount: VolumeMount, places: set[str], devices: dict[str, str]
) -> Iterator[str]:
    place = mount.mount_path
    if not place:
        yield required(f"{path}.mountPath")
        return
    if place in places:
        yield invalid(f"{path}.mountPath", place, "must be unique")
    if place in devices.values():
        detail = "must not already exist as a path in volumeDevices"
        yield invalid(f"{path}.mountPath", place, detail)


def _sub_path(path: str, mount: VolumeMount) -> Iterator[str]:
    yield from each(f"{path}.subPath", mount.sub_path, descending_path)
    if mount.sub_path and mount.sub_path_expr:
        yield invalid(
            f"{path}.subPathExpr",
            mount.sub_path_expr,
            "subPathExpr and subPath are mutually exclusive",
        )
    yield from each(f"{path}.subPathExpr", mount.sub_path_expr, descending_path)


def _propagation(path: str, mount: VolumeMount, container: Container) -> Iterator[str]:
    if not mount.mount_propagation:
        return
    yield from one_of(f"{path}.mountPropagation", mount.mount_propagation, _PROPAGATION)
    context = container.security_context
    if mount.mount_propagation == "Bidirectional" and not (context and context.privileged):
        yield forbidden(
            f"{path}.mountPropagation",
            "Bidirectional mount propagation is available only to privileged containers",
        )


def _recursive(path: str, mount: VolumeMount) -> Iterator[str]:
    where, value = f"{path}.recursiveReadOnly", mount.recursive_read_only
    if value in {"", "Disabled"}:
        return
    if value not in _RECURSIVE:
        yield unsupported(where, value, _RECURSIVE)
        return
    if not mount.read_only:
        yield forbidden(where, "may only be specified when readOnly is true")
    if mount.mount_propagation not in {"", "None"}:
        detail = "may only be specified when mountPropagation is None or not specified"
        yield forbidden(where, detail)


def _devices(path: str, container: Container, volumes: dict[str, Volume]) -> Iterator[str]:
    mounted = {mount.name: mount.mount_path for mount in container.volume_mounts}
    names: set[str] = set()
    places: set[str] = set()
    for i, device in enumerate(container.volume_devices):
        where = f"{path}[{i}]"
        yield from _device_name(f"{where}.name", device, volumes, names)
        yield from _device_path(f"{where}.devicePath", device.device_path, places)
        if device.name and device.name in mounted:
            detail = "must not already exist in volumeMounts"
            yield invalid(f"{where}.name", device.name, detail)
        if device.device_path and device.device_path in mounted.values():
            detail = "must not already exist as a path in volumeMounts"
            yield invalid(f"{where}.devicePath", device.device_path, detail)
        names.add(device.name)
        places.add(device.device_path)


def _device_name(
    path: str, device: VolumeDevice, volumes: dict[str, Volume], names: set[str]
) -> Iterator[str]:
    if not device.name:
        yield required(path)
        return
    if device.name in names:
        yield invalid(path, device.name, "must be unique")
    volume = volumes.get(device.name)
    if volume is None:
        yield not_found(path, device.name)
    elif volume.persistent_volume_claim is None and volume.ephemeral is None:
        yield invalid(
            path,
            device.name,
            "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
        )


def _device_path(path: str, place: str, places: set[str]) -> Iterator[str]:
    if not place:
        yield required(path)
        return
    if place in places:
        yield invalid(path, place, "must be unique")
    if any(no_backsteps(place)):
        yield invalid(path, place, "can not contain backsteps ('..')")
