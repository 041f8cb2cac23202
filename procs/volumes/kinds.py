"""From a pod's document to what is to be mounted for it. Pure."""

from __future__ import annotations

import dataclasses
import posixpath
from typing import Final

from kubelet.api.codec import camel
from kubelet.api.pod import Pod
from kubelet.api.volumes import (
    DownwardAPIVolumeFile,
    EmptyDirVolumeSource,
    NFSVolumeSource,
    Volume,
)
from kubelet.machine.capacity import Capacity
from procs.volumes import atomic, layout, sizes, sources
from procs.volumes.downward import file_of
from procs.volumes.errors import VolumeError, WaitingError
from procs.volumes.objects import View
from procs.volumes.outliving import outliving
from procs.volumes.sources import NO_API_SERVER, Context, Lookup
from procs.volumes.wants import (
    EmptyDirWant,
    File,
    FilesWant,
    HostPathWant,
    ImageWant,
    Lacking,
    NfsWant,
    Persistent,
    Refused,
    Waiting,
    Want,
)

TMPFS: Final = "tmpfs"
HUGETLBFS: Final = "hugetlbfs"
NOSWAP: Final = "noswap"
_MEMORY: Final = "Memory"
_OF_THE_CLUSTER: Final = frozenset({"persistentVolumeClaim", "ephemeral", "csi"})

# The directory names of plugins that are not spelled like their field.
_PLUGINS: Final = {
    "emptyDir": layout.EMPTY_DIR,
    "hostPath": layout.HOST_PATH,
    "downwardAPI": layout.DOWNWARD_API,
    "configMap": layout.CONFIG_MAP,
    "persistentVolumeClaim": "kubernetes.io/persistent-claim",
}
# No kubelet mounts these any more, whatever the API server says (L-1).
_GONE: Final = frozenset({"gitRepo"})
# What no plugin here can mount, and what can instead.
_UNSUPPORTED: Final = {
    "iscsi": "iscsi volumes are not supported: a CSI driver for iSCSI can mount them",
    "fc": "fc volumes are not supported: a CSI driver for Fibre Channel can mount them",
    "flexVolume": "flexVolume volumes are not supported: a CSI driver is needed in its place",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What of the node matters for the shape of volumes."""

    allocatable: Capacity
    noswap: bool = False  # the kernel knows the option for tmpfs
    modes: bool = False  # emptyDir.mode is honoured (gate EmptyDirVolumeMode)
    api_server: bool = False  # there is one
    node: str = ""  # this node's name


def wants(
    pod: Pod, settings: Settings, lookup: Lookup = NO_API_SERVER, view: View | None = None
) -> tuple[Want, ...]:
    """Return what a pod wants mounted, in the order of its volumes.

    Without a view there are no claims, no drivers and no node's status to be looked at.
    """

    def downward(item: DownwardAPIVolumeFile, default_mode: int | None) -> File:
        return file_of(item, pod, settings.allocatable, default_mode)

    context = Context(pod, lookup, downward)
    return tuple(_want(volume, context, settings, view) for volume in pod.spec.volumes)


def _want(volume: Volume, context: Context, settings: Settings, view: View | None) -> Want:
    field = source_of(volume)
    plugin = plugin_name(field)
    if not layout.is_name(volume.name):
        return Refused(volume.name, plugin, f'volume "{volume.name}": this is no name of a volume')
    try:
        found = _of_the_pod(volume, plugin, context, settings)
        if found is None and view is not None:
            found = outliving(volume, context.pod, settings.node, view)
    except WaitingError as err:
        return Waiting(volume.name, plugin, f'volume "{volume.name}": {err}')
    except (VolumeError, ValueError) as err:  # ValueError: a quantity that is none
        return Refused(volume.name, plugin, f'volume "{volume.name}": {err}')
    if found is not None:
        return found
    return Refused(volume.name, plugin, f'volume "{volume.name}": {_unsupported(field, settings)}')


def _of_the_pod(volume: Volume, plugin: str, context: Context, settings: Settings) -> Want | None:
    """Return what a pod wants of the kinds for which its document is enough; None: another."""
    if volume.empty_dir is not None:
        return _empty_dir(volume.name, volume.empty_dir, context.pod, settings)
    if volume.host_path is not None:
        return _host_path(volume)
    if plugin in layout.WRITTEN:
        return _written(volume, plugin, context, settings)
    if volume.nfs is not None:
        return _nfs(volume.name, volume.nfs)
    return ImageWant(volume.name) if volume.image is not None else None


def source_of(volume: Volume) -> str:
    """Return the field that says what kind a volume is; an emptyDir if none does."""
    for field in dataclasses.fields(volume):
        if field.name != "name" and getattr(volume, field.name) is not None:
            return camel(field.name)
    return ""


def plugin_name(field: str) -> str:
    """Return the plugin for a volume's field: ``kubernetes.io/empty-dir`` for ``emptyDir``."""
    return _PLUGINS.get(field, f"kubernetes.io/{field.lower()}" if field else "")


def _unsupported(field: str, settings: Settings) -> str:
    if not field:
        return "no kind of volume is given"
    if field in _GONE:
        return f"{field} volumes are no longer supported"
    if field in _UNSUPPORTED:
        return _UNSUPPORTED[field]
    if field in _OF_THE_CLUSTER:
        who = "a pod from the API server" if settings.api_server else "an API server"
        return f"{field} volumes need {who}"
    return f"{field} volumes are not supported: a CSI driver is needed in their place"


def _nfs(name: str, source: NFSVolumeSource) -> NfsWant:
    of = Persistent(name, read_only=bool(source.read_only))
    return NfsWant(name, source.server, source.path, of)


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
    if not layout.is_path(path):
        raise VolumeError(f"invalid HostPath {path!r}: this is no path")
    return HostPathWant(volume.name, path, volume.host_path.type)


def _written(
    volume: Volume, plugin: str, context: Context, settings: Settings
) -> FilesWant | Lacking:
    """Return a volume of files: in memory, but for what is no secret by its kind (L-20)."""
    pod = context.pod
    on_disk = plugin == layout.CONFIG_MAP
    group = _fs_group(pod)
    base = EmptyDirWant(
        volume.name,
        plugin=plugin,
        fs_type="" if on_disk else TMPFS,
        options=() if on_disk else _tmpfs_options(pod, "", settings),
        fs_group=group,
        wrapped=True,
    )
    nested = nested_mounts(pod, volume.name)
    if volume.downward_api is not None:  # all that it needs is in the pod
        source = volume.downward_api
        found = tuple(context.downward(item, source.default_mode) for item in source.items)
        atomic.check(found)
    else:
        try:
            found = _looked_up(volume, context)
            atomic.check(found)
        except VolumeError as err:
            return Lacking(base, str(err), waiting=isinstance(err, WaitingError))
    if group is not None:  # L-22: what the group owns, the group can read
        found = sources.readable_by_group(found)
    return FilesWant(base, found, nested)


def _looked_up(volume: Volume, context: Context) -> tuple[File, ...]:
    if volume.secret is not None:
        return sources.secret(volume.secret, context)
    if volume.config_map is not None:
        return sources.config_map(volume.config_map, context)
    assert volume.projected is not None
    return sources.projected(volume.projected, context, volume.name)


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
        if not layout.is_path(path):
            raise VolumeError(f"a mount on {path!r} inside the volume: this is no path")
        if path.startswith(".."):
            raise VolumeError(f"a mount on {path!r} inside the volume: must not begin with '..'")
    return tuple(sorted(found))
