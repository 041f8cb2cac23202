"""From a pod's document to what is to be mounted for it. Pure."""

from __future__ import annotations

import dataclasses
import posixpath
from typing import Final

from kubelet.api.codec import camel
from kubelet.api.pod import Pod
from kubelet.api.volumes import DownwardAPIVolumeSource, EmptyDirVolumeSource, Volume
from procs.eviction.capacity import Capacity
from procs.volumes import layout, sizes
from procs.volumes.downward import file_of
from procs.volumes.errors import VolumeError
from procs.volumes.wants import EmptyDirWant, FilesWant, HostPathWant, Refused, Want

TMPFS: Final = "tmpfs"
HUGETLBFS: Final = "hugetlbfs"
NOSWAP: Final = "noswap"
_MEMORY: Final = "Memory"
_READ_BY_GROUP: Final = 0o440

# The directory names of plugins that are not spelled like their field.
_PLUGINS: Final = {
    "configMap": "kubernetes.io/configmap",
    "persistentVolumeClaim": "kubernetes.io/persistent-claim",
}
# No kubelet mounts these any more, whatever the API server says (L-1).
_GONE: Final = frozenset({"gitRepo"})
# These would do without an API server.
_NOT_YET: Final = frozenset({"image", "iscsi", "nfs", "projected"})


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What of the node matters for the shape of volumes."""

    allocatable: Capacity
    noswap: bool = False  # the kernel knows the option for tmpfs
    modes: bool = False  # emptyDir.mode is honoured (gate EmptyDirVolumeMode)


def wants(pod: Pod, settings: Settings) -> tuple[Want, ...]:
    """Return what a pod wants mounted, in the order of its volumes."""
    return tuple(_want(volume, pod, settings) for volume in pod.spec.volumes)


def _want(volume: Volume, pod: Pod, settings: Settings) -> Want:
    field = source_of(volume)
    plugin = plugin_name(field)
    if not layout.is_name(volume.name):
        return Refused(volume.name, plugin, f'volume "{volume.name}": this is no name of a volume')
    try:
        if volume.empty_dir is not None:
            return _empty_dir(volume.name, volume.empty_dir, pod, settings)
        if volume.host_path is not None:
            return _host_path(volume)
        if volume.downward_api is not None:
            return _downward(volume.name, volume.downward_api, pod, settings)
    except (VolumeError, ValueError) as err:  # ValueError: a quantity that is none
        return Refused(volume.name, plugin, f'volume "{volume.name}": {err}')
    return Refused(volume.name, plugin, f'volume "{volume.name}": {_unsupported(field)}')


def source_of(volume: Volume) -> str:
    """Return the field that says what kind a volume is; an emptyDir if none does."""
    for field in dataclasses.fields(volume):
        if field.name != "name" and getattr(volume, field.name) is not None:
            return camel(field.name)
    return ""


def plugin_name(field: str) -> str:
    """Return the plugin for a volume's field: ``kubernetes.io/empty-dir`` for ``emptyDir``."""
    known = {
        "emptyDir": layout.EMPTY_DIR,
        "hostPath": layout.HOST_PATH,
        "downwardAPI": layout.DOWNWARD_API,
        **_PLUGINS,
    }
    return known.get(field, f"kubernetes.io/{field.lower()}" if field else "")


def _unsupported(field: str) -> str:
    if not field:
        return "no kind of volume is given"
    if field in _GONE:
        return f"{field} volumes are no longer supported"
    if field in _NOT_YET:
        return f"{field} volumes are not supported by this version yet"
    return f"{field} volumes need an API server"


def _empty_dir(
    name: str, source: EmptyDirVolumeSource, pod: Pod, settings: Settings
) -> EmptyDirWant:
    fs_type, options = _medium(source, pod, settings)
    own_mode = settings.modes and source.mode is not None
    mode = source.mode if own_mode and source.mode is not None else 0o777
    if own_mode and fs_type:
        options = (*options, f"mode={mode:o}")
    return EmptyDirWant(name, fs_type=fs_type, options=options, mode=mode, fs_group=_fs_group(pod))


def _medium(
    source: EmptyDirVolumeSource, pod: Pod, settings: Settings
) -> tuple[str, tuple[str, ...]]:
    """Return the file system and the options that an emptyDir's medium stands for."""
    if source.medium == "":
        return "", ()
    if source.medium == _MEMORY:
        return TMPFS, _tmpfs_options(pod, source.size_limit, settings)
    if sizes.is_huge_pages(source.medium):
        return HUGETLBFS, (f"pagesize={sizes.page_size(pod, source.medium)}",)
    raise VolumeError(f"medium {source.medium!r} is not one of '', Memory, HugePages-<size>")


def _tmpfs_options(pod: Pod, size_limit: str, settings: Settings) -> tuple[str, ...]:
    size = sizes.tmpfs_size(pod, size_limit, settings.allocatable.memory)
    options = (f"size={size}",) if size else ()
    return (*options, NOSWAP) if settings.noswap else options


def _fs_group(pod: Pod) -> int | None:
    return pod.spec.security_context.fs_group if pod.spec.security_context is not None else None


def _host_path(volume: Volume) -> HostPathWant:
    assert volume.host_path is not None
    path = volume.host_path.path
    if ".." in path.split("/"):
        raise VolumeError(f"invalid HostPath `{path}`: must not contain '..'")
    if not path:
        raise VolumeError("hostPath.path is empty")
    return HostPathWant(volume.name, path, volume.host_path.type)


def _downward(
    name: str, source: DownwardAPIVolumeSource, pod: Pod, settings: Settings
) -> FilesWant:
    group = _fs_group(pod)
    base = EmptyDirWant(
        name,
        plugin=layout.DOWNWARD_API,
        fs_type=TMPFS,
        options=_tmpfs_options(pod, "", settings),
        fs_group=group,
        wrapped=True,
    )
    files = [file_of(item, pod, settings.allocatable, source.default_mode) for item in source.items]
    if group is not None:  # L-22: what the group owns, the group can read
        files = [dataclasses.replace(f, mode=f.mode | _READ_BY_GROUP) for f in files]
    return FilesWant(base, tuple(files), nested_mounts(pod, name))


def nested_mounts(pod: Pod, name: str) -> tuple[str, ...]:
    """Return the directories inside a volume on which containers mount something else.

    The volume is read-only for containers, so that the runtime could not make them.
    """
    found: set[str] = set()
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        paths = [posixpath.normpath(m.mount_path) for m in container.volume_mounts]
        for mount, own in zip(container.volume_mounts, paths, strict=True):
            if mount.name == name:
                found.update(p[len(own) + 1 :] for p in paths if p.startswith(own + "/"))
    for path in found:
        if path.startswith(".."):
            raise VolumeError(f"a mount on {path!r} inside the volume: must not begin with '..'")
    return tuple(sorted(found))
