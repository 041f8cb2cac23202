"""What a container mounts: volumes, /etc/hosts, the file of its last words (P-165, P-175, P-185).

Pure: volumes, and parts of them, are there already, where process ``volumes`` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubelet.api.container import Container, VolumeMount
from kubelet.api.pod import Pod
from kubelet.cri import api_pb2 as pb
from kubelet.pods.rows import VolumeRow
from procs.syncloop.configs import files
from procs.syncloop.configs.context import ContainerContext
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.configs.expand import expand, missing
from procs.syncloop.site import Site

HOSTS: Final = "/etc/hosts"
_PROPAGATION: Final = {
    "": pb.PROPAGATION_PRIVATE,
    "None": pb.PROPAGATION_PRIVATE,
    "HostToContainer": pb.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": pb.PROPAGATION_BIDIRECTIONAL,
}


@dataclass(frozen=True, slots=True)
class SubPath:
    """A part of a volume that a container mounts (L-32)."""

    container: str
    index: int  # of the container's volume mounts
    volume: str  # its name
    path: str  # inside it, already expanded


def container_mounts(
    pod: Pod, container: Container, env: Mapping[str, str], context: ContainerContext
) -> list[pb.Mount]:
    """Return the mounts of a container's volumes."""
    images = _image_volumes(pod)
    found = []
    for index, mount in enumerate(container.volume_mounts):
        part = _sub_path(container, mount, env)
        made = _mount(container, mount, context)
        if mount.name in images:
            _set_image(made, pod, container, mount, part, context)
        else:
            _set_volume(made, container, mount, context)
            if part:
                made.host_path = _prepared(container, index, part, context)
        found.append(_mapped(made, context))
    return found


def own_mounts(
    pod: Pod, container: Container, attempt: int, context: ContainerContext, site: Site
) -> list[pb.Mount]:
    """Return the mounts that every container has: its hosts file, the file of its last words."""
    found = {}
    if context.pod_ips and not any(_absolute(m) == HOSTS for m in container.volume_mounts):
        found[HOSTS] = files.hosts_path(pod.uid, site)
    if container.termination_message_path:
        path = files.termination_log_path(pod.uid, container.name, attempt, site)
        found[container.termination_message_path] = path
    relabel = context.policy.selinux
    return [
        _mapped(pb.Mount(container_path=at, host_path=path, selinux_relabel=relabel), context)
        for at, path in found.items()
    ]


def subpaths(
    pod: Pod, container: Container, env: Mapping[str, str], volumes: Mapping[str, VolumeRow]
) -> tuple[SubPath, ...]:
    """Return the parts of volumes that a container mounts; of an image the runtime takes it."""
    images = _image_volumes(pod)
    found = []
    for index, mount in enumerate(container.volume_mounts):
        path = _sub_path(container, mount, env)
        if path and mount.name not in images:
            _mounted(container, mount.name, volumes)
            found.append(SubPath(container.name, index, mount.name, path))
    return tuple(found)


def container_devices(container: Container, volumes: Mapping[str, VolumeRow]) -> list[pb.Device]:
    """Return the raw block volumes of a container."""
    found = []
    for device in container.volume_devices:
        volume = _mounted(container, device.name, volumes)
        if not volume.block:
            raise ConfigError(
                f'volume "{device.name}" of volumeDevice "{device.device_path}" of container '
                f'"{container.name}" is not a block device'
            )
        permissions = "r" if volume.read_only else "mrw"
        found.append(
            pb.Device(
                container_path=device.device_path,
                host_path=volume.host_path,
                permissions=permissions,
            )
        )
    return found


def _sub_path(container: Container, mount: VolumeMount, env: Mapping[str, str]) -> str:
    path = mount.sub_path
    if mount.sub_path_expr:
        unknown = missing(mount.sub_path_expr, env)
        if unknown:
            raise ConfigError(
                f'subPathExpr "{mount.sub_path_expr}" of volumeMount "{mount.name}" of container '
                f'"{container.name}": missing value for {", ".join(unknown)}'
            )
        path = expand(mount.sub_path_expr, env)
    wrong = _problem(path)
    if wrong is not None:
        raise ConfigError(
            f'subPath "{path}" of volumeMount "{mount.name}" of container "{container.name}" '
            f"{wrong}"
        )
    return path


def _problem(path: str) -> str | None:
    """Say what is wrong with a path inside a volume; ``volumes`` checks it again."""
    if path.startswith("/"):
        return "must be a relative path"
    if ".." in path.split("/"):
        return "must not contain '..'"
    return "must not contain a zero byte" if "\0" in path else None


def _prepared(container: Container, index: int, path: str, context: ContainerContext) -> str:
    found = context.subpaths.get(index)
    if not found:
        raise ConfigError(
            f'subPath "{path}" of volumeMount {index} of container "{container.name}" has not '
            "been prepared"
        )
    return found


def _image_volumes(pod: Pod) -> frozenset[str]:
    return frozenset(volume.name for volume in pod.spec.volumes if volume.image is not None)


def _mounted(container: Container, name: str, volumes: Mapping[str, VolumeRow]) -> VolumeRow:
    volume = volumes.get(name)
    if volume is None or not volume.host_path:
        raise ConfigError(f'cannot find volume "{name}" to mount into container "{container.name}"')
    return volume


def _mount(container: Container, mount: VolumeMount, context: ContainerContext) -> pb.Mount:
    """Return what a mount says of itself, whatever its volume is."""
    path = mount.mount_path
    absolute = path if path.startswith("/") else f"/{path}"
    found = pb.Mount(container_path=absolute, propagation=_propagation(container, mount))
    if context.policy.bind_mount_options:
        found.mount_options.extend(mount.bind_mount_options)
    return found


def _set_volume(
    found: pb.Mount, container: Container, mount: VolumeMount, context: ContainerContext
) -> None:
    volume = _mounted(container, mount.name, context.volumes)
    if volume.block:
        raise ConfigError(
            f'volume "{mount.name}" of container "{container.name}" is a block device, which is '
            "for volumeDevices"
        )
    found.host_path = volume.host_path
    found.readonly = bool(mount.read_only) or volume.read_only
    found.selinux_relabel = volume.selinux_relabel and context.policy.selinux
    found.recursive_read_only = _recursive(mount, context)


def _set_image(  # noqa: PLR0913, PLR0917 - all of it is about this one mount
    found: pb.Mount,
    pod: Pod,
    container: Container,
    mount: VolumeMount,
    part: str,
    context: ContainerContext,
) -> None:
    """Have the runtime mount an image, which is never written to."""
    image = context.images.get(mount.name)
    if image is None:
        raise ConfigError(
            f'cannot find image of volume "{mount.name}" to mount into container "{container.name}"'
        )
    found.image.image = image.ref
    found.image.user_specified_image = image.spec
    found.image.runtime_handler = context.handler.name if context.handler is not None else ""
    found.image.annotations.update(pod.metadata.annotations)
    found.image_sub_path = part
    found.readonly = True


def _propagation(container: Container, mount: VolumeMount) -> pb.MountPropagation:
    found = _PROPAGATION.get(mount.mount_propagation)
    if found is None:
        raise ConfigError(
            f'mountPropagation "{mount.mount_propagation}" of volumeMount "{mount.name}" of '
            f'container "{container.name}" must be None, HostToContainer or Bidirectional'
        )
    return found


def _recursive(mount: VolumeMount, context: ContainerContext) -> bool:
    """Whether what is mounted below a mount is read-only too; not every runtime can."""
    mode = mount.recursive_read_only
    if mode in ("", "Disabled"):
        return False
    asked = f'volume "{mount.name}" requested recursive read-only mode'
    if not mount.read_only:
        raise ConfigError(f"{asked}, but it is not read-only")
    if mount.mount_propagation not in ("", "None"):
        raise ConfigError(
            f'{asked}, but it is not compatible with propagation "{mount.mount_propagation}"'
        )
    able = context.handler is not None and context.handler.recursive_read_only_mounts
    if mode == "Enabled" and not able:
        raise ConfigError(f"{asked}, but it is not supported by the runtime")
    if mode not in ("Enabled", "IfPossible"):
        raise ConfigError(f'{asked} "{mode}", which must be Disabled, IfPossible or Enabled')
    return able


def _mapped(mount: pb.Mount, context: ContainerContext) -> pb.Mount:
    """Show files with the owners that they have, to a pod with users of its own (P-165)."""
    options = context.sandbox.linux.security_context.namespace_options
    own = options.HasField("userns_options") and options.userns_options.mode == pb.POD
    if own and not mount.HasField("image"):
        mount.uidMappings.extend(options.userns_options.uids)
        mount.gidMappings.extend(options.userns_options.gids)
    return mount


def _absolute(mount: VolumeMount) -> str:
    return "/" + mount.mount_path.strip("/")
