"""What a CSI driver is asked, from what is wanted (L-43, L-45); all of it pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from procs.volumes.csi.wire import csi_pb2
from procs.volumes.plugin import PodInfo
from procs.volumes.wants import CsiWant

_Mode = csi_pb2.VolumeCapability.AccessMode
_Has = csi_pb2.NodeServiceCapability.RPC
TOKENS: Final = "csi.storage.k8s.io/serviceAccount.tokens"

_MODES: Final = {
    "ReadWriteOnce": _Mode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": _Mode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": _Mode.MULTI_NODE_MULTI_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_WRITER,
}
# For drivers that tell one writer on a node from many.
_FINER: Final = {
    **_MODES,
    "ReadWriteOnce": _Mode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_SINGLE_WRITER,
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What the calls for one volume of one pod have in common."""

    want: CsiWant
    pod: PodInfo
    capabilities: frozenset[int]
    context: Mapping[str, str] = field(default_factory=dict)  # of the attachment

    @property
    def stages(self) -> bool:
        """Tell whether the volume is staged before it is published."""
        return not self.want.ephemeral and _Has.STAGE_UNSTAGE_VOLUME in self.capabilities

    @property
    def groups(self) -> bool:
        """Tell whether the driver gives a volume to a group."""
        return _Has.VOLUME_MOUNT_GROUP in self.capabilities

    @property
    def expands(self) -> bool:
        """Tell whether the driver grows file systems."""
        return _Has.EXPAND_VOLUME in self.capabilities


def access_mode(
    mode: str, capabilities: frozenset[int]
) -> csi_pb2.VolumeCapability.AccessMode.Mode:
    """Return an access mode as drivers know it; none is one writer."""
    known = _FINER if _Has.SINGLE_NODE_MULTI_WRITER in capabilities else _MODES
    return known.get(mode or "ReadWriteOnce", _Mode.UNKNOWN)


def capability(terms: Terms, *, group: bool = True) -> csi_pb2.VolumeCapability:
    """Return how a volume is to be used."""
    want = terms.want
    mode = _Mode(mode=access_mode(want.access_mode, terms.capabilities))
    if want.of.block:
        return csi_pb2.VolumeCapability(
            access_mode=mode, block=csi_pb2.VolumeCapability.BlockVolume()
        )
    mount = csi_pb2.VolumeCapability.MountVolume(
        fs_type=want.fs_type, mount_flags=[] if want.ephemeral else want.of.options
    )
    if group and terms.groups and want.of.fs_group is not None:
        mount.volume_mount_group = str(want.of.fs_group)
    return csi_pb2.VolumeCapability(access_mode=mode, mount=mount)


def stage(terms: Terms, target: str) -> csi_pb2.NodeStageVolumeRequest:
    """Ask for a volume to be staged."""
    want = terms.want
    return csi_pb2.NodeStageVolumeRequest(
        volume_id=want.handle,
        publish_context=terms.context,
        staging_target_path=target,
        volume_capability=capability(terms),
        secrets=dict(want.stage_secrets),
        volume_context=dict(want.attributes),
    )


def publish(terms: Terms, target: str, staged: str) -> csi_pb2.NodePublishVolumeRequest:
    """Ask for a volume to be published; ``staged``: where it is staged, "" if it is not."""
    want = terms.want
    secrets, attributes = dict(want.publish_secrets), dict(want.attributes)
    if want.info is not None and want.info.pod_info_on_mount:
        attributes |= pod_attributes(terms.pod, ephemeral=want.ephemeral)
    if want.tokens and want.info is not None and not want.of.block:
        (secrets if want.info.tokens_in_secrets else attributes)[TOKENS] = want.tokens
    return csi_pb2.NodePublishVolumeRequest(
        volume_id=want.handle,
        publish_context=terms.context,
        staging_target_path=staged,
        target_path=target,
        volume_capability=capability(terms),
        readonly=want.of.read_only,
        secrets=secrets,
        volume_context=attributes,
    )


def pod_attributes(pod: PodInfo, *, ephemeral: bool) -> dict[str, str]:
    """Return what a driver is told of the pod that mounts a volume (L-45)."""
    return {
        "csi.storage.k8s.io/pod.name": pod.name,
        "csi.storage.k8s.io/pod.namespace": pod.namespace,
        "csi.storage.k8s.io/pod.uid": pod.uid,
        "csi.storage.k8s.io/serviceAccount.name": pod.account,
        "csi.storage.k8s.io/ephemeral": "true" if ephemeral else "false",
    }


def expand(terms: Terms, path: str, staged: str, size: int) -> csi_pb2.NodeExpandVolumeRequest:
    """Ask for a volume to take up so many bytes."""
    return csi_pb2.NodeExpandVolumeRequest(
        volume_id=terms.want.handle,
        volume_path=path,
        capacity_range=csi_pb2.CapacityRange(required_bytes=size),
        staging_target_path=staged,
        volume_capability=capability(terms, group=False),
        secrets=dict(terms.want.expand_secrets or ()),
    )
