"""What a kubelet says of a pod."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kubelet.api.codec import QuantityText
from kubelet.api.container import ResourceRequirements


@dataclass(frozen=True, slots=True)
class PodCondition:
    """``PodCondition`` of core/v1."""

    last_probe_time: str = ""
    last_transition_time: str = ""
    message: str = ""
    observed_generation: int | None = None
    reason: str = ""
    status: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class ContainerStateRunning:
    """``ContainerStateRunning`` of core/v1."""

    started_at: str = ""


@dataclass(frozen=True, slots=True)
class ContainerStateTerminated:
    """``ContainerStateTerminated`` of core/v1."""

    container_id: str = ""
    exit_code: int | None = None
    finished_at: str = ""
    message: str = ""
    reason: str = ""
    signal: int | None = None
    started_at: str = ""


@dataclass(frozen=True, slots=True)
class ContainerStateWaiting:
    """``ContainerStateWaiting`` of core/v1."""

    message: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """``ContainerState`` of core/v1."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


@dataclass(frozen=True, slots=True)
class LinuxContainerUser:
    """``LinuxContainerUser`` of core/v1."""

    gid: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    uid: int | None = None


@dataclass(frozen=True, slots=True)
class ContainerUser:
    """``ContainerUser`` of core/v1."""

    linux: LinuxContainerUser | None = None


@dataclass(frozen=True, slots=True)
class VolumeMountStatus:
    """``VolumeMountStatus`` of core/v1."""

    mount_path: str = ""
    name: str = ""
    read_only: bool | None = None
    recursive_read_only: str = ""
    volume_status: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ResourceHealth:
    """``ResourceHealth`` of core/v1."""

    health: str = ""
    message: str = ""
    resource_id: str = ""


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """``ResourceStatus`` of core/v1."""

    name: str = ""
    resources: tuple[ResourceHealth, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """``ContainerStatus`` of core/v1."""

    allocated_resources: dict[str, QuantityText] = field(default_factory=dict)
    allocated_resources_status: tuple[ResourceStatus, ...] = ()
    container_id: str = ""
    image: str = ""
    image_id: str = ""
    last_state: ContainerState | None = None
    name: str = ""
    ready: bool | None = None
    resources: ResourceRequirements | None = None
    restart_count: int | None = None
    started: bool | None = None
    state: ContainerState | None = None
    stop_signal: str = ""
    user: ContainerUser | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class HostIP:
    """``HostIP`` of core/v1."""

    ip: str = ""


@dataclass(frozen=True, slots=True)
class PodIP:
    """``PodIP`` of core/v1."""

    ip: str = ""


@dataclass(frozen=True, slots=True)
class PodResourceClaimStatus:
    """``PodResourceClaimStatus`` of core/v1."""

    name: str = ""
    resource_claim_name: str = ""


@dataclass(frozen=True, slots=True)
class PodStatus:
    """``PodStatus`` of core/v1."""

    allocated_resources: dict[str, QuantityText] = field(default_factory=dict)
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    extended_resource_claim_status: dict[str, Any] | None = None
    host_ip: str = ""
    host_ips: tuple[HostIP, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    message: str = ""
    node_allocatable_resource_claim_statuses: tuple[dict[str, Any], ...] = ()
    nominated_node_name: str = ""
    observed_generation: int | None = None
    phase: str = ""
    pod_ip: str = ""
    pod_ips: tuple[PodIP, ...] = ()
    qos_class: str = ""
    reason: str = ""
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    resources: ResourceRequirements | None = None
    start_time: str = ""
    volume_health: tuple[dict[str, Any], ...] = ()
