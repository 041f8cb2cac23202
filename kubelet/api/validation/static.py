"""What a static pod may not have: it must run before there is an API server (P-8)."""

from __future__ import annotations

from collections.abc import Iterator

from kubelet.api.container import Container
from kubelet.api.pod import Pod, PodSpec
from kubelet.api.validation.metadata import every_container
from kubelet.api.volumes import ProjectedVolumeSource, Volume


def references(pod: Pod) -> Iterator[str]:
    """Yield the kinds of API objects that a pod needs, each with the place that names it."""
    spec = pod.spec
    if spec.service_account_name:
        yield _at("serviceaccounts", "spec.serviceAccountName")
    if spec.image_pull_secrets:
        yield _at("secrets", "spec.imagePullSecrets")
    for path, container in every_container(spec):
        yield from _environment(path, container)
    yield from _claims(spec)
    for i, volume in enumerate(spec.volumes):
        yield from _volume(f"spec.volumes[{i}]", volume)


def _at(kind: str, path: str) -> str:
    return f"{kind} ({path})"


def _environment(path: str, container: Container) -> Iterator[str]:
    for i, source in enumerate(container.env_from):
        if source.secret_ref is not None:
            yield _at("secrets", f"{path}.envFrom[{i}].secretRef")
        if source.config_map_ref is not None:
            yield _at("configmaps", f"{path}.envFrom[{i}].configMapRef")
    for i, variable in enumerate(container.env):
        if variable.value_from is None:
            continue
        if variable.value_from.secret_key_ref is not None:
            yield _at("secrets", f"{path}.env[{i}].valueFrom.secretKeyRef")
        if variable.value_from.config_map_key_ref is not None:
            yield _at("configmaps", f"{path}.env[{i}].valueFrom.configMapKeyRef")


def _claims(spec: PodSpec) -> Iterator[str]:
    if spec.resource_claims:
        yield _at("resourceclaims", "spec.resourceClaims")


def _volume(path: str, volume: Volume) -> Iterator[str]:
    for kind, key, source in (
        ("configmaps", "configMap", volume.config_map),
        ("secrets", "secret", volume.secret),
        ("csidrivers", "csi", volume.csi),
        ("endpoints", "glusterfs", volume.glusterfs),
        ("persistentvolumeclaims", "persistentVolumeClaim", volume.persistent_volume_claim),
        ("persistentvolumeclaims", "ephemeral", volume.ephemeral),
        ("secrets", "azureFile", volume.azure_file),
    ):
        if source is not None:
            yield _at(kind, f"{path}.{key}")
    yield from _secret_refs(path, volume)
    if volume.projected is not None:
        yield from _projected(f"{path}.projected", volume.projected)


def _secret_refs(path: str, volume: Volume) -> Iterator[str]:
    for key, source in (
        ("cephfs", volume.cephfs),
        ("cinder", volume.cinder),
        ("flexVolume", volume.flex_volume),
        ("iscsi", volume.iscsi),
        ("rbd", volume.rbd),
        ("scaleIO", volume.scale_io),
        ("storageos", volume.storageos),
    ):
        if source is not None and source.get("secretRef"):
            yield _at("secrets", f"{path}.{key}.secretRef")


def _projected(path: str, projected: ProjectedVolumeSource) -> Iterator[str]:
    for i, source in enumerate(projected.sources):
        for kind, key, part in (
            ("configmaps", "configMap", source.config_map),
            ("secrets", "secret", source.secret),
            ("serviceaccounts", "serviceAccountToken", source.service_account_token),
            ("clustertrustbundles", "clusterTrustBundle", source.cluster_trust_bundle),
            ("podcertificates", "podCertificate", source.pod_certificate),
        ):
            if part is not None:
                yield _at(kind, f"{path}.sources[{i}].{key}")
