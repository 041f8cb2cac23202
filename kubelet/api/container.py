"""Containers: what runs in a pod."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubelet.api.codec import QuantityText
from kubelet.api.handlers import Lifecycle, Probe
from kubelet.api.security import SecurityContext


@dataclass(frozen=True, slots=True)
class ConfigMapKeySelector:
    """``ConfigMapKeySelector`` of core/v1."""

    key: str = ""
    name: str = ""
    optional: bool | None = None


@dataclass(frozen=True, slots=True)
class SecretKeySelector:
    """``SecretKeySelector`` of core/v1."""

    key: str = ""
    name: str = ""
    optional: bool | None = None


@dataclass(frozen=True, slots=True)
class ObjectFieldSelector:
    """``ObjectFieldSelector`` of core/v1."""

    api_version: str = ""
    field_path: str = ""


@dataclass(frozen=True, slots=True)
class ResourceFieldSelector:
    """``ResourceFieldSelector`` of core/v1."""

    container_name: str = ""
    divisor: QuantityText = ""
    resource: str = ""


@dataclass(frozen=True, slots=True)
class FileKeySelector:
    """``FileKeySelector`` of core/v1."""

    key: str = ""
    optional: bool | None = None
    path: str = ""
    volume_name: str = ""


@dataclass(frozen=True, slots=True)
class EnvVarSource:
    """``EnvVarSource`` of core/v1."""

    config_map_key_ref: ConfigMapKeySelector | None = None
    field_ref: ObjectFieldSelector | None = None
    file_key_ref: FileKeySelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    secret_key_ref: SecretKeySelector | None = None


@dataclass(frozen=True, slots=True)
class EnvVar:
    """``EnvVar`` of core/v1."""

    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


@dataclass(frozen=True, slots=True)
class ConfigMapEnvSource:
    """``ConfigMapEnvSource`` of core/v1."""

    name: str = ""
    optional: bool | None = None


@dataclass(frozen=True, slots=True)
class SecretEnvSource:
    """``SecretEnvSource`` of core/v1."""

    name: str = ""
    optional: bool | None = None


@dataclass(frozen=True, slots=True)
class EnvFromSource:
    """``EnvFromSource`` of core/v1."""

    config_map_ref: ConfigMapEnvSource | None = None
    prefix: str = ""
    secret_ref: SecretEnvSource | None = None


@dataclass(frozen=True, slots=True)
class ContainerPort:
    """``ContainerPort`` of core/v1."""

    container_port: int | None = None
    host_ip: str = ""
    host_port: int | None = None
    name: str = ""
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class ContainerResizePolicy:
    """``ContainerResizePolicy`` of core/v1."""

    resource_name: str = ""
    restart_policy: str = ""


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """``ResourceClaim`` of core/v1."""

    name: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True)
class ResourceRequirements:
    """``ResourceRequirements`` of core/v1."""

    claims: tuple[ResourceClaim, ...] = ()
    limits: dict[str, QuantityText] = field(default_factory=dict)
    requests: dict[str, QuantityText] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContainerRestartRuleOnExitCodes:
    """``ContainerRestartRuleOnExitCodes`` of core/v1."""

    operator: str = ""
    values: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerRestartRule:
    """``ContainerRestartRule`` of core/v1."""

    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


@dataclass(frozen=True, slots=True)
class VolumeDevice:
    """``VolumeDevice`` of core/v1."""

    device_path: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """``VolumeMount`` of core/v1."""

    bind_mount_options: tuple[str, ...] = ()
    mount_path: str = ""
    mount_propagation: str = ""
    name: str = ""
    read_only: bool | None = None
    recursive_read_only: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """``Container`` of core/v1."""

    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    image: str = ""
    image_pull_policy: str = ""
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str = ""
    ports: tuple[ContainerPort, ...] = ()
    readiness_probe: Probe | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    resources: ResourceRequirements | None = None
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    tty: bool | None = None
    volume_devices: tuple[VolumeDevice, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    working_dir: str = ""


@dataclass(frozen=True, slots=True)
class EphemeralContainer(Container):
    """``EphemeralContainer`` of core/v1."""

    target_container_name: str = ""


def is_sidecar(container: Container) -> bool:
    """Tell whether an init container runs on beside the regular ones (P-75)."""
    return container.restart_policy == "Always"
