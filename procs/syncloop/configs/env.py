"""The environment of a container (P-170..P-174). Pure.

Values that are not UTF-8 travel with surrogates and reach the runtime as the bytes that they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubelet.api.container import (
    ConfigMapKeySelector,
    Container,
    EnvFromSource,
    EnvVarSource,
    FileKeySelector,
    SecretKeySelector,
)
from kubelet.api.pod import Pod
from procs.syncloop.configs import fields
from procs.syncloop.configs.context import ContainerContext, FileKey
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.configs.expand import expand
from procs.syncloop.configs.services import service_env
from procs.syncloop.site import Site

_INVALID: Final = "InvalidEnvironmentVariableNames"


def environment(
    pod: Pod, container: Container, context: ContainerContext, site: Site
) -> dict[str, str]:
    """Return a container's variables: services, then envFrom, then env, the later one winning."""
    services = service_env(pod, context.lookup)
    found: dict[str, str] = {}
    for source in container.env_from:
        found.update(_source(pod, source, context))
    for variable in container.env:
        value: str | None = expand(variable.value, found, services)
        if variable.value_from is not None:
            value = _reference(pod, container, variable.value_from, context, site)
        if value is not None:
            found[variable.name] = value
    return services | found


def encoded(value: str) -> bytes:
    """Return a variable's value as it is passed on."""
    return value.encode(errors="surrogateescape")


def valid_name(name: str) -> bool:
    """Whether a key can be a variable's name: printable ASCII without an equals sign."""
    return bool(name) and name.isascii() and name.isprintable() and "=" not in name


def _source(pod: Pod, source: EnvFromSource, context: ContainerContext) -> dict[str, str]:
    """Return all of a config map or secret; keys that cannot be names are passed over."""
    found: dict[str, str] = {}
    if source.config_map_ref is not None:
        kind, name = "configMap", source.config_map_ref.name
        data = _config_map(pod, name, bool(source.config_map_ref.optional), context)
        found = data or {}
    elif source.secret_ref is not None:
        kind, name = "secret", source.secret_ref.name
        found = _secret(pod, name, bool(source.secret_ref.optional), context) or {}
    else:
        return found
    named = {source.prefix + key: value for key, value in found.items()}
    bad = sorted(key for key in named if not valid_name(key))
    if bad:
        where = f"{pod.namespace}/{name}"
        context.warn(
            _INVALID,
            f"Keys [{', '.join(bad)}] from the EnvFrom {kind} {where} were skipped since they are "
            "considered invalid environment variable names.",
        )
    return {key: value for key, value in named.items() if valid_name(key)}


def _reference(
    pod: Pod, container: Container, source: EnvVarSource, context: ContainerContext, site: Site
) -> str | None:
    """Return the value that is referred to; None: it is optional, and there is none."""
    if source.field_ref is not None:
        ips = context.pod_ips
        return fields.field_value(pod, source.field_ref, ips, site.ips, site.node)
    if source.resource_field_ref is not None:
        return fields.resource_value(pod, container, source.resource_field_ref, site.allocatable)
    if source.config_map_key_ref is not None:
        return _config_map_key(pod, source.config_map_key_ref, context)
    if source.secret_key_ref is not None:
        return _secret_key(pod, source.secret_key_ref, context)
    if source.file_key_ref is not None:
        return _file_key(source.file_key_ref, context)
    return ""


def _config_map(
    pod: Pod, name: str, optional: bool, context: ContainerContext
) -> dict[str, str] | None:
    found = context.lookup.config_map(pod.namespace, name)
    if found is None and not optional:
        raise ConfigError(f'configmap "{name}" not found')
    return None if found is None else found.data


def _secret(
    pod: Pod, name: str, optional: bool, context: ContainerContext
) -> dict[str, str] | None:
    found = context.lookup.secret(pod.namespace, name)
    if found is None and not optional:
        raise ConfigError(f'secret "{name}" not found')
    if found is None:
        return None
    return {key: data.decode(errors="surrogateescape") for key, data in found.data.items()}


def _config_map_key(pod: Pod, ref: ConfigMapKeySelector, context: ContainerContext) -> str | None:
    data = _config_map(pod, ref.name, bool(ref.optional), context)
    return _key(data, ref.key, bool(ref.optional), f"ConfigMap {pod.namespace}/{ref.name}")


def _secret_key(pod: Pod, ref: SecretKeySelector, context: ContainerContext) -> str | None:
    data = _secret(pod, ref.name, bool(ref.optional), context)
    return _key(data, ref.key, bool(ref.optional), f"Secret {pod.namespace}/{ref.name}")


def _key(data: Mapping[str, str] | None, key: str, optional: bool, where: str) -> str | None:
    if data is None:
        return None
    if key in data:
        return data[key]
    if optional:
        return None
    raise ConfigError(f"couldn't find key {key} in {where}")


def wanted_file_keys(container: Container, context: ContainerContext) -> tuple[FileKey, ...]:
    """Return the variables that are to be read from files before a container is configured."""
    if not context.policy.env_files:
        return ()
    sources = (variable.value_from for variable in container.env)
    refs = (source.file_key_ref for source in sources if source is not None)
    keys = (FileKey(ref.volume_name, ref.path, ref.key) for ref in refs if ref is not None)
    return tuple(dict.fromkeys(keys))


def _file_key(ref: FileKeySelector, context: ContainerContext) -> str | None:
    """Return a variable from a file that another container of the pod has written (P-174)."""
    if not context.policy.env_files:
        raise ConfigError("fileKeyRef needs the feature gate EnvFiles")
    key = FileKey(ref.volume_name, ref.path, ref.key)
    if key not in context.file_keys:
        raise ConfigError(f'environment file "{ref.path}" has not been read')
    value = context.file_keys[key]
    if value:
        return value
    if ref.optional:
        return None
    raise ConfigError(
        f'environment variable key "{ref.key}" not found in file "{ref.path}" of volume '
        f'"{ref.volume_name}", or there is no such file'
    )
