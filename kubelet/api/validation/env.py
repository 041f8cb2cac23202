"""Environment variables, and the fields of a pod that variables and files may show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kubelet.api.container import (
    ConfigMapKeySelector,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    FileKeySelector,
    ObjectFieldSelector,
    ResourceFieldSelector,
    SecretKeySelector,
)
from kubelet.api.validation.names import (
    config_key,
    dns_label,
    dns_subdomain,
    each,
    env_name,
    file_path,
    generate_name,
    one_of,
    qualified_name,
)
from kubelet.api.validation.resources import quantity
from kubelet.api.validation.texts import invalid, not_found, required, unsupported
from kubelet.api.validation.totals import HUGEPAGES
from kubelet.api.volumes import Volume
from kubelet.quantities import Quantity, parse

# What a variable may show (P-173), and what a file may.
ENV_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
FILE_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_RESOURCES: Final = tuple(
    f"{kind}.{name}"
    for kind in ("limits", "requests")
    for name in ("cpu", "ephemeral-storage", "memory")
)
_SUBSCRIPT: Final = re.compile(r"(?P<path>[^\[\]]+)\['(?P<key>[^']*)'\]")
_BYTES: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E")
_BYTES_BINARY: Final = ("1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def variables(path: str, env: tuple[EnvVar, ...], volumes: dict[str, Volume]) -> Iterator[str]:
    """Check the environment variables of a container."""
    for i, variable in enumerate(env):
        where = f"{path}[{i}]"
        if variable.name:
            yield from each(f"{where}.name", variable.name, env_name)
        else:
            yield required(f"{where}.name")
        if variable.value_from is not None:
            yield from _source(f"{where}.valueFrom", variable.value_from, volumes)
            yield from _one_source(f"{where}.valueFrom", variable, variable.value_from)


def _source(path: str, source: EnvVarSource, volumes: dict[str, Volume]) -> Iterator[str]:
    if source.field_ref is not None:
        yield from field_ref(f"{path}.fieldRef", source.field_ref, ENV_FIELDS)
    if source.resource_field_ref is not None:
        yield from resource_ref(f"{path}.resourceFieldRef", source.resource_field_ref)
    if source.config_map_key_ref is not None:
        yield from _key_ref(f"{path}.configMapKeyRef", source.config_map_key_ref)
    if source.secret_key_ref is not None:
        yield from _key_ref(f"{path}.secretKeyRef", source.secret_key_ref)
    if source.file_key_ref is not None:
        yield from _file_ref(f"{path}.fileKeyRef", source.file_key_ref, volumes)


def _one_source(path: str, variable: EnvVar, source: EnvVarSource) -> Iterator[str]:
    sources = (
        source.field_ref,
        source.resource_field_ref,
        source.config_map_key_ref,
        source.secret_key_ref,
        source.file_key_ref,
    )
    given = sum(one is not None for one in sources)
    if not given:
        yield invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`",
        )
    elif variable.value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif given > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def field_ref(path: str, ref: ObjectFieldSelector, fields: tuple[str, ...]) -> Iterator[str]:
    """Check a reference to a field of the pod."""
    if not ref.api_version:
        yield required(f"{path}.apiVersion")
        return
    if not ref.field_path:
        yield required(f"{path}.fieldPath")
        return
    yield from one_of(f"{path}.apiVersion", ref.api_version, ("v1",))
    match = _SUBSCRIPT.fullmatch(ref.field_path)
    if match is None:
        yield from one_of(f"{path}.fieldPath", ref.field_path, fields)
    elif match["path"] == "metadata.annotations":
        yield from each(f"{path}.fieldPath", match["key"].lower(), qualified_name)
    elif match["path"] == "metadata.labels":
        yield from each(f"{path}.fieldPath", match["key"], qualified_name)
    else:
        yield invalid(f"{path}.fieldPath", match["path"], "does not support subscript")


def resource_ref(path: str, ref: ResourceFieldSelector, *, named: bool = False) -> Iterator[str]:
    """Check a reference to a resource of a container; a volume must name the container."""
    hugepages = ref.resource.startswith((f"limits.{HUGEPAGES}", f"requests.{HUGEPAGES}"))
    if named and not ref.container_name:
        yield required(f"{path}.containerName")
    elif not ref.resource:
        yield required(f"{path}.resource")
    elif ref.resource not in _RESOURCES and not hugepages:
        yield unsupported(f"{path}.resource", ref.resource, _RESOURCES)
    bad = list(quantity(f"{path}.divisor", ref.divisor)) if ref.divisor else []
    yield from bad
    if ref.divisor and not bad:
        yield from _divisor(f"{path}.divisor", ref.resource, parse(ref.divisor))


def _divisor(path: str, resource: str, divisor: Quantity) -> Iterator[str]:
    _, _, name = resource.partition(".")
    known = resource in _RESOURCES or name.startswith(HUGEPAGES)
    allowed = ("1m", "1") if name == "cpu" else (*_BYTES, *_BYTES_BINARY)
    if known and divisor and str(divisor) not in allowed:
        listed = " and ".join(allowed) if name == "cpu" else ", ".join(allowed)
        detail = f"only divisor's values {listed} are supported with the {name} resource"
        yield invalid(path, str(divisor), detail)


def _key_ref(path: str, ref: ConfigMapKeySelector | SecretKeySelector) -> Iterator[str]:
    yield from each(f"{path}.name", ref.name, dns_subdomain)
    if ref.key:
        yield from each(f"{path}.key", ref.key, config_key)
    else:
        yield required(f"{path}.key")


def _file_ref(path: str, ref: FileKeySelector, volumes: dict[str, Volume]) -> Iterator[str]:
    """Check a variable that a file in an emptyDir volume defines (P-174)."""
    if not ref.volume_name:
        yield required(f"{path}.volumeName")
    else:
        yield from each(f"{path}.volumeName", ref.volume_name, dns_label)
        volume = volumes.get(ref.volume_name)
        if volume is None:
            yield not_found(f"{path}.volumeName", ref.volume_name)
        elif volume.empty_dir is None:
            yield invalid(f"{path}.volumeName", ref.volume_name, "must be an emptyDir volume")
    if ref.path:
        yield from each(f"{path}.path", ref.path, file_path)
    else:
        yield required(f"{path}.path")
    if ref.key:
        yield from each(f"{path}.key", ref.key, env_name)
    else:
        yield required(f"{path}.key")


def sources(path: str, found: tuple[EnvFromSource, ...]) -> Iterator[str]:
    """Check what all variables are taken from."""
    for i, source in enumerate(found):
        where = f"{path}[{i}]"
        if source.prefix:
            yield from each(f"{where}.prefix", source.prefix, env_name)
        given = {"configMapRef": source.config_map_ref, "secretRef": source.secret_ref}
        refs = {key: ref for key, ref in given.items() if ref is not None}
        for key, ref in refs.items():
            if ref.name:
                yield from each(f"{where}.{key}.name", ref.name, generate_name)
            else:
                yield required(f"{where}.{key}.name")
        if not refs:
            yield invalid(where, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(refs) > 1:
            yield invalid(where, "", "may not have more than one field specified at a time")
