"""Volumes of a pod. Sources that no kubelet of today mounts are kept as they were written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kubelet.api.codec import QuantityText
from kubelet.api.container import ObjectFieldSelector, ResourceFieldSelector
from kubelet.api.meta import LabelSelector, LocalObjectReference, ObjectMeta


@dataclass(frozen=True, slots=True)
class KeyToPath:
    """``KeyToPath`` of core/v1."""

    key: str = ""
    mode: int | None = None
    path: str = ""
    user: int | None = None


@dataclass(frozen=True, slots=True)
class ConfigMapVolumeSource:
    """``ConfigMapVolumeSource`` of core/v1."""

    default_mode: int | None = None
    default_user: int | None = None
    items: tuple[KeyToPath, ...] = ()
    name: str = ""
    optional: bool | None = None


@dataclass(frozen=True, slots=True)
class SecretVolumeSource:
    """``SecretVolumeSource`` of core/v1."""

    default_mode: int | None = None
    default_user: int | None = None
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None
    secret_name: str = ""


@dataclass(frozen=True, slots=True)
class CSIVolumeSource:
    """``CSIVolumeSource`` of core/v1."""

    driver: str = ""
    fs_type: str = ""
    node_publish_secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None
    volume_attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DownwardAPIVolumeFile:
    """``DownwardAPIVolumeFile`` of core/v1."""

    field_ref: ObjectFieldSelector | None = None
    mode: int | None = None
    path: str = ""
    resource_field_ref: ResourceFieldSelector | None = None
    user: int | None = None


@dataclass(frozen=True, slots=True)
class DownwardAPIVolumeSource:
    """``DownwardAPIVolumeSource`` of core/v1."""

    default_mode: int | None = None
    default_user: int | None = None
    items: tuple[DownwardAPIVolumeFile, ...] = ()


@dataclass(frozen=True, slots=True)
class EmptyDirVolumeSource:
    """``EmptyDirVolumeSource`` of core/v1."""

    medium: str = ""
    mode: int | None = None
    size_limit: QuantityText = ""


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaimTemplate:
    """``PersistentVolumeClaimTemplate`` of core/v1."""

    metadata: ObjectMeta | None = None
    spec: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EphemeralVolumeSource:
    """``EphemeralVolumeSource`` of core/v1."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


@dataclass(frozen=True, slots=True)
class HostPathVolumeSource:
    """``HostPathVolumeSource`` of core/v1."""

    path: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class ImageVolumeSource:
    """``ImageVolumeSource`` of core/v1."""

    pull_policy: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class NFSVolumeSource:
    """``NFSVolumeSource`` of core/v1."""

    path: str = ""
    read_only: bool | None = None
    server: str = ""


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaimVolumeSource:
    """``PersistentVolumeClaimVolumeSource`` of core/v1."""

    claim_name: str = ""
    read_only: bool | None = None


@dataclass(frozen=True, slots=True)
class ClusterTrustBundleProjection:
    """``ClusterTrustBundleProjection`` of core/v1."""

    label_selector: LabelSelector | None = None
    name: str = ""
    optional: bool | None = None
    path: str = ""
    signer_name: str = ""
    user: int | None = None


@dataclass(frozen=True, slots=True)
class ConfigMapProjection:
    """``ConfigMapProjection`` of core/v1."""

    items: tuple[KeyToPath, ...] = ()
    name: str = ""
    optional: bool | None = None


@dataclass(frozen=True, slots=True)
class DownwardAPIProjection:
    """``DownwardAPIProjection`` of core/v1."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()


@dataclass(frozen=True, slots=True)
class PodCertificateProjection:
    """``PodCertificateProjection`` of core/v1."""

    certificate_chain_path: str = ""
    credential_bundle_path: str = ""
    key_path: str = ""
    key_type: str = ""
    max_expiration_seconds: int | None = None
    signer_name: str = ""
    user_annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SecretProjection:
    """``SecretProjection`` of core/v1."""

    items: tuple[KeyToPath, ...] = ()
    name: str = ""
    optional: bool | None = None


@dataclass(frozen=True, slots=True)
class ServiceAccountTokenProjection:
    """``ServiceAccountTokenProjection`` of core/v1."""

    audience: str = ""
    expiration_seconds: int | None = None
    path: str = ""
    user: int | None = None


@dataclass(frozen=True, slots=True)
class VolumeProjection:
    """``VolumeProjection`` of core/v1."""

    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    config_map: ConfigMapProjection | None = None
    downward_api: DownwardAPIProjection | None = None
    pod_certificate: PodCertificateProjection | None = None
    secret: SecretProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None


@dataclass(frozen=True, slots=True)
class ProjectedVolumeSource:
    """``ProjectedVolumeSource`` of core/v1."""

    default_mode: int | None = None
    default_user: int | None = None
    sources: tuple[VolumeProjection, ...] = ()


@dataclass(frozen=True, slots=True)
class Volume:
    """``Volume`` of core/v1."""

    aws_elastic_block_store: dict[str, Any] | None = None
    azure_disk: dict[str, Any] | None = None
    azure_file: dict[str, Any] | None = None
    cephfs: dict[str, Any] | None = None
    cinder: dict[str, Any] | None = None
    config_map: ConfigMapVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    fc: dict[str, Any] | None = None
    flex_volume: dict[str, Any] | None = None
    flocker: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = None
    git_repo: dict[str, Any] | None = None
    glusterfs: dict[str, Any] | None = None
    host_path: HostPathVolumeSource | None = None
    image: ImageVolumeSource | None = None
    iscsi: dict[str, Any] | None = None
    name: str = ""
    nfs: NFSVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    photon_persistent_disk: dict[str, Any] | None = None
    portworx_volume: dict[str, Any] | None = None
    projected: ProjectedVolumeSource | None = None
    quobyte: dict[str, Any] | None = None
    rbd: dict[str, Any] | None = None
    scale_io: dict[str, Any] | None = None
    secret: SecretVolumeSource | None = None
    storageos: dict[str, Any] | None = None
    vsphere_volume: dict[str, Any] | None = None
