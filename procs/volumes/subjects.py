"""Which volumes of a pod are looked at for how full they are, and in which way (L-50). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from kubelet import quantities
from kubelet.api.pod import Pod
from kubelet.api.volumes import Volume
from kubelet.pods.rows import MountsRow, VolumeRow, VolumeState, VolumeStats
from procs.volumes.layout import CONFIG_MAP, CSI, EMPTY_DIR, LOCAL, NFS, WRITTEN

# What may hang whoever asks it: another machine, a driver, or whatever a node's owner mounts.
_FAR: Final = frozenset({NFS, CSI, LOCAL})
LIMITED_SECONDS: Final = 10.0  # between looks at what has a limit: as often as eviction looks
_SHARE: Final = 20  # at most one part in this many of the time goes into looking at one volume


class Way(Enum):
    """How it is found out how full a volume is."""

    NONE = "none"  # it is not
    TREE = "tree"  # each of its files is looked at
    FILESYSTEM = "filesystem"  # the file system knows
    DEVICE = "device"  # only its size can be told
    DRIVER = "driver"  # the CSI driver is asked


@dataclass(frozen=True, slots=True)
class VolumeSubject:
    """One volume of a pod that is mounted."""

    name: str
    plugin: str
    path: str  # what containers mount
    claim: str = ""  # namespace/name
    medium: str = ""  # of an emptyDir
    size_limit: int = 0  # of an emptyDir, bytes
    block: bool = False  # the path is a device
    far: bool = False  # looking at it may hang


@dataclass(frozen=True, slots=True)
class StatsSubject:
    """A pod and its volumes."""

    uid: str
    name: str
    namespace: str
    volumes: tuple[VolumeSubject, ...] = ()


def subject_of(pod: Pod, row: MountsRow) -> StatsSubject:
    """Return what is to be looked at of a pod, from its document and its row in table mounts."""
    specs = {volume.name: volume for volume in pod.spec.volumes}
    mounted = [
        _volume(one, specs[one.name])
        for one in row.volumes
        if one.state is VolumeState.MOUNTED and one.host_path and one.name in specs
    ]
    looked_at = tuple(one for one in mounted if way_of(one) is not Way.NONE)
    return StatsSubject(row.uid, pod.name, pod.namespace, looked_at)


def _volume(row: VolumeRow, spec: Volume) -> VolumeSubject:
    source = spec.empty_dir
    return VolumeSubject(
        row.name,
        row.plugin,
        row.host_path,
        claim=row.claim,
        medium=source.medium if source is not None else "",
        size_limit=_bytes(source.size_limit) if source is not None else 0,
        block=row.block,
        far=row.plugin in _FAR,
    )


def _bytes(text: str) -> int:
    try:
        return max(0, quantities.parse(text).value) if text else 0
    except ValueError:  # such a volume is refused, and never mounted
        return 0


def way_of(volume: VolumeSubject) -> Way:
    """Return how a volume is looked at.

    A hostPath is the host's and not the pod's, and an image is the runtime's: nobody reports them.
    """
    if volume.plugin == CSI:
        return Way.DRIVER
    if volume.plugin == LOCAL and volume.block:
        return Way.DEVICE
    if volume.plugin in {LOCAL, NFS} or (volume.plugin == EMPTY_DIR and volume.medium):
        return Way.FILESYSTEM
    if volume.plugin == EMPTY_DIR or volume.plugin in WRITTEN:
        return Way.TREE
    return Way.NONE


def period_of(volume: VolumeSubject, seconds: float, took: float) -> float:
    """Return after how long a volume is looked at again, if the last look took so long."""
    base = min(seconds, LIMITED_SECONDS) if volume.size_limit else seconds
    return max(base, took * _SHARE)


def unknown(volume: VolumeSubject) -> VolumeStats:
    """Return what is known of a volume before it was looked at."""
    on_disk = volume.plugin == CONFIG_MAP or (volume.plugin == EMPTY_DIR and not volume.medium)
    return VolumeStats(
        volume.name,
        claim=volume.claim,
        medium=volume.medium,
        size_limit=volume.size_limit,
        ephemeral=on_disk,
    )
