"""Volumes: their names, and that each has one source with what that source needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from kubelet.api.codec import camel
from kubelet.api.meta import ObjectMeta
from kubelet.api.validation.legacy import legacy_source
from kubelet.api.validation.metadata import annotation_map
from kubelet.api.validation.names import (
    dns_label,
    dns_subdomain,
    each,
    label_map,
    no_backsteps,
    one_of,
    ranged,
)
from kubelet.api.validation.projected import downward_files, items, mode, projected
from kubelet.api.validation.resources import quantity
from kubelet.api.validation.texts import duplicate, forbidden, invalid, required, too_long
from kubelet.api.volumes import (
    ConfigMapVolumeSource,
    CSIVolumeSource,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    HostPathVolumeSource,
    ImageVolumeSource,
    NFSVolumeSource,
    PersistentVolumeClaimVolumeSource,
    SecretVolumeSource,
    Volume,
)
from kubelet.quantities import parse

_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_MEDIUM: Final = re.compile("|Memory|HugePages(-[0-9]+[KMG]i)?")
_DRIVER_LIMIT: Final = 63
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")

# In the order in which the API server looks at them: all but the first are one too many.
SOURCES: Final = (
    *("empty_dir", "host_path", "git_repo", "gce_persistent_disk", "aws_elastic_block_store"),
    *("secret", "nfs", "iscsi", "glusterfs", "flocker", "persistent_volume_claim", "rbd"),
    *("cinder", "cephfs", "quobyte", "downward_api", "fc", "flex_volume", "config_map"),
    *("azure_file", "vsphere_volume", "photon_persistent_disk", "portworx_volume"),
    *("azure_disk", "storageos", "projected", "scale_io", "csi", "ephemeral", "image"),
)


def volumes(path: str, found: tuple[Volume, ...], pod: str) -> Iterator[str]:
    """Check the volumes of a pod with that name."""
    names: set[str] = set()
    created = {f"{pod}-{volume.name}" for volume in found if volume.ephemeral is not None}
    for i, volume in enumerate(found):
        where = f"{path}[{i}]"
        yield from _source(where, volume)
        yield from _name(f"{where}.name", volume.name, names)
        if volume.ephemeral is not None and pod and volume.name:
            claim = f"{pod}-{volume.name}"
            for detail in dns_subdomain(claim):
                yield invalid(f"{where}.name", volume.name, f'PVC name "{claim}": {detail}')
        used = volume.persistent_volume_claim
        if used is not None and pod and used.claim_name in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            yield invalid(f"{where}.persistentVolumeClaim.claimName", used.claim_name, detail)


def _name(path: str, name: str, names: set[str]) -> Iterator[str]:
    if not name:
        yield required(path)
        return
    yield from each(path, name, dns_label)
    if name in names:
        yield duplicate(path, name)
    names.add(name)


def _source(path: str, volume: Volume) -> Iterator[str]:
    given = [(name, getattr(volume, name)) for name in SOURCES if getattr(volume, name) is not None]
    if not given:
        yield required(path, "must specify a volume type")
        return
    name, source = given[0]
    where = f"{path}.{camel(name)}"
    if isinstance(source, dict):
        yield from legacy_source(where, camel(name), source)
    else:
        yield from _CHECKS[name](where, source)
    for other, _ in given[1:]:
        yield forbidden(f"{path}.{camel(other)}", "may not specify more than 1 volume type")


def _empty_dir(path: str, source: EmptyDirVolumeSource) -> Iterator[str]:
    if not _MEDIUM.fullmatch(source.medium):
        known = ("", "HugePages", "HugePages-<size>", "Memory")
        yield from one_of(f"{path}.medium", source.medium, known)
    yield from ranged(f"{path}.mode", source.mode, 0, 0o7777)
    if not source.size_limit:
        return
    bad = list(quantity(f"{path}.sizeLimit", source.size_limit))
    yield from bad
    if not bad and parse(source.size_limit).nano < 0:
        detail = "SizeLimit field must be a valid resource quantity"
        yield forbidden(f"{path}.sizeLimit", detail)


def _host_path(path: str, source: HostPathVolumeSource) -> Iterator[str]:
    if not source.path:
        yield required(f"{path}.path")
        return
    yield from each(f"{path}.path", source.path, no_backsteps)
    yield from one_of(f"{path}.type", source.type, _HOST_PATH_TYPES)


def _secret(path: str, source: SecretVolumeSource) -> Iterator[str]:
    if not source.secret_name:
        yield required(f"{path}.secretName")
    yield from mode(f"{path}.defaultMode", source.default_mode)
    yield from items(f"{path}.items", source.items)


def _config_map(path: str, source: ConfigMapVolumeSource) -> Iterator[str]:
    if not source.name:
        yield required(f"{path}.name")
    yield from mode(f"{path}.defaultMode", source.default_mode)
    yield from items(f"{path}.items", source.items)


def _downward(path: str, source: DownwardAPIVolumeSource) -> Iterator[str]:
    yield from mode(f"{path}.defaultMode", source.default_mode)
    yield from downward_files(f"{path}.items", source.items)


def _nfs(path: str, source: NFSVolumeSource) -> Iterator[str]:
    if not source.server:
        yield required(f"{path}.server")
    if not source.path:
        yield required(f"{path}.path")
    elif not source.path.startswith("/"):
        yield invalid(f"{path}.path", source.path, "must be an absolute path")


def _claim(path: str, source: PersistentVolumeClaimVolumeSource) -> Iterator[str]:
    if not source.claim_name:
        yield required(f"{path}.claimName")


def _csi(path: str, source: CSIVolumeSource) -> Iterator[str]:
    driver = source.driver
    if not driver:
        yield required(f"{path}.driver")
    else:
        if len(driver) > _DRIVER_LIMIT:
            yield too_long(f"{path}.driver", _DRIVER_LIMIT)
        for detail in dns_subdomain(driver.lower()):
            yield invalid(f"{path}.driver", driver, detail)
    secret = source.node_publish_secret_ref
    if secret is None:
        return
    if secret.name:
        yield from each(f"{path}.nodePublishSecretRef.name", secret.name, dns_subdomain)
    else:
        yield required(f"{path}.nodePublishSecretRef.name")


def _image(path: str, source: ImageVolumeSource) -> Iterator[str]:
    if not source.reference:
        yield required(f"{path}.reference")
    if source.pull_policy:
        policies = ("Always", "IfNotPresent", "Never")
        yield from one_of(f"{path}.pullPolicy", source.pull_policy, policies)
    else:
        yield required(f"{path}.pullPolicy")


def _ephemeral(path: str, source: EphemeralVolumeSource) -> Iterator[str]:
    template = source.volume_claim_template
    where = f"{path}.volumeClaimTemplate"
    if template is None:
        yield required(where)
        return
    yield from _template_metadata(f"{where}.metadata", template.metadata or ObjectMeta())
    yield from _claim_spec(f"{where}.spec", template.spec or {})


def _template_metadata(path: str, meta: ObjectMeta) -> Iterator[str]:
    yield from annotation_map(f"{path}.annotations", meta.annotations)
    yield from label_map(f"{path}.labels", meta.labels)
    for name in ("name", "generate_name", "namespace", "owner_references", "finalizers"):
        if getattr(meta, name):
            yield forbidden(f"{path}.{camel(name)}", "cannot be set")


def _claim_spec(path: str, spec: dict[str, Any]) -> Iterator[str]:
    modes = spec.get("accessModes")
    if not isinstance(modes, list) or not modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
        modes = []
    for wanted in modes:
        yield from one_of(f"{path}.accessModes", str(wanted), _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        yield forbidden(f"{path}.accessModes", detail)
    resources = spec.get("resources")
    requests = resources.get("requests") if isinstance(resources, dict) else None
    storage = requests.get("storage") if isinstance(requests, dict) else None
    where = f"{path}.resources[storage]"
    if storage is None:
        yield required(where)
        return
    bad = list(quantity(where, str(storage)))
    yield from bad
    if not bad and parse(str(storage)).nano <= 0:
        yield invalid(where, str(storage), "must be greater than zero")


_CHECKS: Final[dict[str, Callable[[str, Any], Iterator[str]]]] = {
    "empty_dir": _empty_dir,
    "host_path": _host_path,
    "secret": _secret,
    "nfs": _nfs,
    "persistent_volume_claim": _claim,
    "downward_api": _downward,
    "config_map": _config_map,
    "projected": projected,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
