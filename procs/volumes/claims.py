"""From a pod's claim and the volume that it is bound to, to what is to be mounted. Pure.

Claims and volumes are what the API server sent: any field may be missing or be something else.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kubelet import quantities
from kubelet.api import codec, nodeaffinity
from kubelet.api.pod import Pod
from kubelet.api.scheduling import NodeSelector
from kubelet.api.volumes import Volume
from kubelet.cluster.rows import ClaimRow
from procs.volumes import layout
from procs.volumes.documents import Document
from procs.volumes.errors import FatalError, VolumeError, WaitingError
from procs.volumes.ownership import Policy
from procs.volumes.wants import (
    CsiWant,
    Growth,
    HostPathWant,
    LocalWant,
    NfsWant,
    Persistent,
    Refused,
    Waiting,
    Want,
)

PLUGIN: Final = "kubernetes.io/persistent-claim"  # of one whose volume is not known
GID_ANNOTATION: Final = "pv.beta.kubernetes.io/gid"
OPTIONS_ANNOTATION: Final = "volume.beta.kubernetes.io/mount-options"
_PROTECTION: Final = "kubernetes.io/pvc-protection"
_BLOCK: Final = "Block"
_FILE_SYSTEM: Final = "Filesystem"
_ONE_POD: Final = "ReadWriteOncePod"
_STORAGE: Final = "storage"
_NODES_TURN: Final = frozenset({"NodeResizePending", "NodeResizeInProgress"})
_MOST_GID: Final = (1 << 32) - 2

_SOURCES: Final = {
    "local": layout.LOCAL,
    "hostPath": layout.HOST_PATH,
    "nfs": layout.NFS,
    "csi": layout.CSI,
}
# Kinds of persistent volumes that no kubelet mounts by itself any more, and who does.
_DRIVERS: Final = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
}
_GONE: Final = frozenset(
    {"cephfs", "flocker", "glusterfs", "photonPersistentDisk", "quobyte", "rbd", "scaleIO"}
    | {"storageos"}
)
_OTHER: Final = frozenset({"iscsi", "fc", "flexVolume"})


class CsiWanted(Protocol):
    """Makes a want of a persistent volume that belongs to a CSI driver."""

    def __call__(
        self,
        name: str,
        volume: Mapping[str, Any],
        of: Persistent,
        *,
        access_mode: str,
        growth: Growth | None,
    ) -> CsiWant:
        """Return what is wanted; a VolumeError says why it cannot be had (yet)."""


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """What is to be known beside the claim and its volume."""

    csi: CsiWanted
    mounted: bool = False  # this pod has the volume already: what would keep it out is no matter
    labels: Mapping[str, str] | None = None  # of this node; None: they are not known yet
    elsewhere: bool = False  # another pod of this node has the volume


def name_of(volume: Volume, pod: Pod) -> str:
    """Return the name of the claim that a pod's volume stands for; "": it is no claim."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.name}-{volume.name}" if volume.ephemeral is not None else ""


def want(volume: Volume, pod: Pod, row: ClaimRow | None, context: ClaimContext) -> Want:
    """Return what a pod wants that uses a claim; if it cannot have it, why."""
    claim = f"{pod.namespace}/{name_of(volume, pod)}"
    try:
        return _Claimed(volume, pod, claim, context).want(row)
    except FatalError:
        raise
    except _UnsupportedError as err:
        return Refused(volume.name, PLUGIN, f"error processing PVC {claim}: {err}")
    except VolumeError as err:
        waiting = isinstance(err, WaitingError)
        return Waiting(volume.name, PLUGIN, f"error processing PVC {claim}: {err}", waiting, claim)


class _UnsupportedError(VolumeError):
    """A volume of this kind can be had nowhere, or not here."""


@dataclass(frozen=True, slots=True)
class _Claimed:
    """One volume of a pod that is a claim."""

    volume: Volume
    pod: Pod
    claim: str
    context: ClaimContext

    def want(self, row: ClaimRow | None) -> Want:
        """Return what is wanted; a VolumeError says what is in the way."""
        claim, pv = self._documents(row)
        kind = kind_of(pv)
        block = self._mode(pv)
        self._check_node(pv)
        of = self._persistent(pv, block)
        if self.context.elsewhere and not self.context.mounted and _modes(pv) == (_ONE_POD,):
            raise VolumeError(
                "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
            )
        match kind:
            case "local":
                return self._local(pv, of)
            case "nfs":
                return self._nfs(pv, of)
            case "hostPath":
                return self._host_path(pv, of)
            case _:
                return self._csi(claim, pv, of)

    # The claim and its volume.

    def _documents(self, row: ClaimRow | None) -> tuple[Document, Document]:
        if row is None or not (row.claim or row.error):
            raise WaitingError("the PVC has not been read from the API server yet")
        if not row.claim:
            raise VolumeError(f"failed to fetch PVC from API server: {row.error}")
        claim = _document(row.claim, f"PVC {self.claim}")
        self._check_owner(claim)
        self._check_deletion(claim)
        name = claim.text("spec.volumeName")
        # The scheduler binds claims before it binds pods: here, one that is not bound is a fault.
        if claim.text("status.phase") != "Bound":
            raise VolumeError("PVC is not bound")
        if not name:
            raise VolumeError("PVC has empty pvc.Spec.VolumeName")
        if not row.volume:
            if not row.error:
                raise WaitingError(f"PV {name} has not been read from the API server yet")
            raise VolumeError(f"failed to fetch PV {name} from API server: {row.error}")
        pv = _document(row.volume, f"PV {name}")
        if pv.text("metadata.name") != name or not layout.is_name(name):
            raise VolumeError(f"spec.volumeName {name!r} is not the name of the PV that was read")
        _check_bound(name, pv, claim)
        return claim, pv

    def _check_owner(self, claim: Document) -> None:
        """Refuse a claim that happens to have the name of a pod's own."""
        if self.volume.ephemeral is None or self.volume.persistent_volume_claim is not None:
            return
        for owner in claim.maps("metadata.ownerReferences"):
            if owner.get("controller") is True and owner.get("uid") == self.pod.uid:
                return
        raise VolumeError(
            f"PVC {self.claim} was not created for pod {self.pod.namespace}/{self.pod.name}"
            " (pod is not owner)"
        )

    def _check_deletion(self, claim: Document) -> None:
        """Refuse a claim that is going, unless it stays for as long as there are pods with it."""
        kept = self.context.mounted or _PROTECTION in claim.texts("metadata.finalizers")
        if claim.text("metadata.deletionTimestamp") and not kept:
            raise VolumeError("PVC is being deleted")

    def _check_node(self, pv: Document) -> None:
        required = pv.value("spec.nodeAffinity.required")
        if required is None or self.context.mounted:
            return
        if self.context.labels is None:
            raise WaitingError("the labels of this node are not known yet")
        try:
            selector = codec.read(NodeSelector, required)
        except codec.DecodeError as err:
            raise VolumeError(f"spec.nodeAffinity.required of {pv.title}: {err}") from err
        if not nodeaffinity.matches(selector, self.context.labels):
            raise VolumeError(
                f'NodeAffinity check failed for volume "{pv.text("metadata.name")}":'
                " no matching NodeSelectorTerms"
            )

    def _mode(self, pv: Document) -> bool:
        """Tell whether the volume is a device; containers must use it as what it is."""
        mode = pv.text("spec.volumeMode") or _FILE_SYSTEM
        if mode not in (_BLOCK, _FILE_SYSTEM):
            raise VolumeError(
                f"spec.volumeMode of {pv.title} is {mode!r}: must be Block or Filesystem"
            )
        name, spec = self.volume.name, self.pod.spec
        containers = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
        mounted = any(m.name == name for c in containers for m in c.volume_mounts)
        mapped = any(d.name == name for c in containers for d in c.volume_devices)
        if mounted and mode != _FILE_SYSTEM:
            raise VolumeError(
                f"volume {name} has volumeMode {mode}, but is specified in volumeMounts"
            )
        if mapped and mode != _BLOCK:
            raise VolumeError(
                f"volume {name} has volumeMode {mode}, but is specified in volumeDevices"
            )
        return mode == _BLOCK

    # What is wanted.

    def _persistent(self, pv: Document, block: bool) -> Persistent:
        source, security = self.volume.persistent_volume_claim, self.pod.spec.security_context
        asked = security.fs_group_change_policy if security is not None else ""
        return Persistent(
            pv.text("metadata.name"),
            claim=self.claim,
            read_only=source is not None and bool(source.read_only),
            options=mount_options(pv),
            block=block,
            gid=gid_of(pv),
            fs_group=security.fs_group if security is not None else None,
            policy=Policy.ON_ROOT_MISMATCH if asked == Policy.ON_ROOT_MISMATCH else Policy.ALWAYS,
        )

    def _local(self, pv: Document, of: Persistent) -> LocalWant:
        path = _path(pv, "spec.local.path")
        return LocalWant(self.volume.name, path, of, pv.text("spec.local.fsType"))

    def _nfs(self, pv: Document, of: Persistent) -> NfsWant:
        _only_file_systems(of, "nfs")
        server, path = pv.text("spec.nfs.server"), _path(pv, "spec.nfs.path")
        if not server:
            raise VolumeError(f"spec.nfs.server of {pv.title} is empty")
        if pv.flag("spec.nfs.readOnly"):
            of = dataclasses.replace(of, read_only=True)
        return NfsWant(self.volume.name, server, path, of)

    def _host_path(self, pv: Document, of: Persistent) -> HostPathWant:
        _only_file_systems(of, "hostPath")
        if of.options:
            raise VolumeError("mount options are not supported for this volume type")
        path, type_ = _path(pv, "spec.hostPath.path"), pv.text("spec.hostPath.type")
        return HostPathWant(self.volume.name, path, type_, of)

    def _csi(self, claim: Document, pv: Document, of: Persistent) -> CsiWant:
        return self.context.csi(
            self.volume.name,
            pv.content,
            of,
            access_mode=next(iter(_modes(pv)), "ReadWriteOnce"),
            growth=None if of.read_only else growth_of(claim, pv),
        )


def _document(text: bytes, title: str) -> Document:
    try:
        content = json.loads(text)
    except ValueError as err:
        raise VolumeError(f"{title} is not JSON: {err}") from err
    if not isinstance(content, dict):
        raise VolumeError(f"{title} is not an object")
    return Document(content, title)


def _check_bound(name: str, pv: Document, claim: Document) -> None:
    """Refuse a volume that is another claim's."""
    if pv.value("spec.claimRef") is None:
        raise VolumeError(
            f"found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet"
            " bound to the claim"
        )
    theirs, ours = pv.text("spec.claimRef.uid"), claim.text("metadata.uid")
    if theirs != ours:
        raise VolumeError(
            f"found PV object {name} but its pv.Spec.ClaimRef.UID {theirs} does not point to"
            f" claim.UID {ours}"
        )


def kind_of(pv: Document) -> str:
    """Return the field that says what kind a volume is; a VolumeError names one that is not had."""
    spec = pv.map("spec")
    for kind in _SOURCES:
        if spec.get(kind) is not None:
            pv.map(f"spec.{kind}")
            return kind
    for kind in (*_DRIVERS, *_GONE, *_OTHER):
        if spec.get(kind) is not None:
            raise _UnsupportedError(_unsupported(kind, pv.title))
    raise _UnsupportedError(f"{pv.title} has no kind of volume that is known here")


def _unsupported(kind: str, title: str) -> str:
    what = f"{title} is of kind {kind}, which is not supported"
    if kind in _DRIVERS:
        return f"{what}: it must be migrated to a volume of CSI driver {_DRIVERS[kind]}"
    if kind in _GONE:
        return f"{what} by any kubelet any more: it needs a CSI driver"
    return f"{what} by this kubelet: use a CSI driver for it"


def _only_file_systems(of: Persistent, kind: str) -> None:
    if of.block:
        raise VolumeError(f"{kind} volumes are file systems: volumeMode Block is not supported")


def _path(pv: Document, field: str) -> str:
    path = pv.text(field)
    if not path:
        raise VolumeError(f"{field} of {pv.title} is empty")
    if not layout.is_path(path):
        raise VolumeError(f"{field} of {pv.title} is {path!r}: this is no path")
    if ".." in path.split("/"):
        raise VolumeError(f"{field} of {pv.title} is {path!r}: must not contain '..'")
    return path if path.startswith("/") else f"/{path}"


def _modes(pv: Document) -> tuple[str, ...]:
    return pv.texts("spec.accessModes")


def mount_options(pv: Document) -> tuple[str, ...]:
    """Return the options that a volume is mounted with: an annotation comes before the field."""
    noted = pv.annotation(OPTIONS_ANNOTATION)
    options = noted.split(",") if noted is not None else pv.texts("spec.mountOptions")
    for option in options:
        if not layout.is_path(option):
            raise VolumeError(f"mount option {option!r} of {pv.title} is none")
    return tuple(option for option in options if option)


def gid_of(pv: Document) -> int:
    """Return the group that containers need for a volume (P-160); 0: none. Nonsense is none."""
    text = pv.annotation(GID_ANNOTATION) or ""
    return int(text) if text.isascii() and text.isdigit() and int(text) <= _MOST_GID else 0


def growth_of(claim: Document, pv: Document) -> Growth | None:
    """Return how much larger a volume is to be than its file system is known to be (L-16).

    What a controller has grown the volume to is what it is grown to here; before it has, what the
    claim asks for.
    """
    known = _amount(claim, f"status.capacity.{_STORAGE}")
    has = _amount(pv, f"spec.capacity.{_STORAGE}")
    asked = _amount(claim, f"spec.resources.requests.{_STORAGE}")
    if known is None:
        return None
    pending = _is_nodes_turn(claim)
    wanted = has if has is not None and (pending or has.nano > known.nano) else asked
    if wanted is None or wanted.nano <= known.nano:
        return None
    return Growth(str(wanted), str(known), pending)


def _is_nodes_turn(claim: Document) -> bool:
    status = claim.text(f"status.allocatedResourceStatuses.{_STORAGE}")
    if status:
        return status in _NODES_TURN
    return any(
        condition.get("type") == "FileSystemResizePending" and condition.get("status") == "True"
        for condition in claim.maps("status.conditions")
    )


def _amount(document: Document, field: str) -> quantities.Quantity | None:
    value = document.value(field)
    if value is None:
        return None
    try:
        return quantities.from_json(value)
    except ValueError as err:
        raise VolumeError(f"{field} of {document.title} is {value!r}: {err}") from err
