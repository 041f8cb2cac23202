"""Volume sources that are kept as they were written: of drivers that are outside the kubelet now.

They are documents here, not types: what a source must have is looked up in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubelet.api.validation.names import descending_path, dns_label, each, one_of, ranged
from kubelet.api.validation.texts import invalid, required

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "quobyte": ("registry", "volume"),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "storageos": ("volumeName",),
    "scaleIO": ("gateway", "system", "volumeName"),
}
_PARTITIONS: Final = ("gcePersistentDisk", "awsElasticBlockStore")
_TARGETS: Final = ("iqn", "eui", "naa")


def legacy_source(path: str, kind: str, source: dict[str, Any]) -> Iterator[str]:
    """Check a volume source that is a document."""
    for key in _REQUIRED.get(kind, ()):
        if not source.get(key):
            yield required(f"{path}.{key}")
    if kind in _PARTITIONS:
        yield from ranged(f"{path}.partition", _number(source, "partition"), 0, 255)
    secret = source.get("secretRef")
    if kind in {"cinder", "storageos"} and isinstance(secret, dict) and not secret.get("name"):
        yield required(f"{path}.secretRef.name")
    check = _CHECKS.get(kind)
    if check is not None:
        yield from check(path, source)


def _number(source: dict[str, Any], key: str) -> int | None:
    value = source.get(key)
    return value if isinstance(value, int) else None


def _text(source: dict[str, Any], key: str) -> str:
    value = source.get(key)
    return value if isinstance(value, str) else ""


def _git(path: str, source: dict[str, Any]) -> Iterator[str]:
    yield from each(f"{path}.directory", _text(source, "directory"), descending_path)


def _iscsi(path: str, source: dict[str, Any]) -> Iterator[str]:
    for key in ("iqn", "initiatorName"):
        name = _text(source, key)
        if name and not name.startswith(_TARGETS):
            detail = "must be valid format starting with iqn, eui, or naa"
            yield invalid(f"{path}.{key}", name, detail)
    yield from ranged(f"{path}.lun", _number(source, "lun"), 0, 255)
    chap = source.get("chapAuthDiscovery") or source.get("chapAuthSession")
    if chap and not source.get("secretRef"):
        yield required(f"{path}.secretRef")


def _fibre_channel(path: str, source: dict[str, Any]) -> Iterator[str]:
    names, ids = source.get("targetWWNs"), source.get("wwids")
    if not names and not ids:
        detail = "must specify either targetWWNs or wwids, but not both"
        yield required(f"{path}.targetWWNs", detail)
    if names and ids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        yield invalid(f"{path}.targetWWNs", names, detail)
    if names and _number(source, "lun") is None:
        yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
    yield from ranged(f"{path}.lun", _number(source, "lun"), 0, 255)


def _flocker(path: str, source: dict[str, Any]) -> Iterator[str]:
    name, uuid = _text(source, "datasetName"), _text(source, "datasetUUID")
    if not name and not uuid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uuid:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        yield invalid(path, "resource", detail)
    if "/" in name:
        yield invalid(f"{path}.datasetName", name, "must not contain '/'")


def _flex(path: str, source: dict[str, Any]) -> Iterator[str]:
    options = source.get("options")
    for key in options if isinstance(options, dict) else ():
        namespace = "." + str(key).partition("/")[0].lower()
        if namespace.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid(f"{path}.options[{key}]", key, detail)


def _azure_disk(path: str, source: dict[str, Any]) -> Iterator[str]:
    caching, kind = _text(source, "cachingMode"), _text(source, "kind")
    if caching:
        yield from one_of(f"{path}.cachingMode", caching, ("None", "ReadOnly", "ReadWrite"))
    if kind:
        yield from one_of(f"{path}.kind", kind, ("Dedicated", "Managed", "Shared"))


def _storage_os(path: str, source: dict[str, Any]) -> Iterator[str]:
    for key in ("volumeName", "volumeNamespace"):
        if _text(source, key):
            yield from each(f"{path}.{key}", _text(source, key), dns_label)


_CHECKS: Final = {
    "gitRepo": _git,
    "iscsi": _iscsi,
    "fc": _fibre_channel,
    "flocker": _flocker,
    "flexVolume": _flex,
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
}
