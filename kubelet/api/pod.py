"""The pod."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kubelet.api.codec import QuantityText
from kubelet.api.container import Container, EphemeralContainer, ResourceRequirements
from kubelet.api.meta import LocalObjectReference, ObjectMeta
from kubelet.api.scheduling import Affinity, PodSchedulingGate, Toleration, TopologySpreadConstraint
from kubelet.api.security import PodSecurityContext
from kubelet.api.status import PodStatus
from kubelet.api.volumes import Volume


@dataclass(frozen=True, slots=True)
class PodDNSConfigOption:
    """``PodDNSConfigOption`` of core/v1."""

    name: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class PodDNSConfig:
    """``PodDNSConfig`` of core/v1."""

    nameservers: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()
    searches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostAlias:
    """``HostAlias`` of core/v1."""

    hostnames: tuple[str, ...] = ()
    ip: str = ""


@dataclass(frozen=True, slots=True)
class PodOS:
    """``PodOS`` of core/v1."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class PodReadinessGate:
    """``PodReadinessGate`` of core/v1."""

    condition_type: str = ""


@dataclass(frozen=True, slots=True)
class PodResourceClaim:
    """``PodResourceClaim`` of core/v1."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """``PodSpec`` of core/v1."""

    active_deadline_seconds: int | None = None
    affinity: Affinity | None = None
    automount_service_account_token: bool | None = None
    containers: tuple[Container, ...] = ()
    dns_config: PodDNSConfig | None = None
    dns_policy: str = ""
    enable_service_links: bool | None = None
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    eviction_responders: tuple[dict[str, Any], ...] = ()
    host_aliases: tuple[HostAlias, ...] = ()
    host_ipc: bool | None = None
    host_network: bool | None = None
    host_pid: bool | None = None
    host_users: bool | None = None
    hostname: str = ""
    hostname_override: str = ""
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    os: PodOS | None = None
    overhead: dict[str, QuantityText] = field(default_factory=dict)
    preemption_policy: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    restart_policy: str = ""
    runtime_class_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: dict[str, Any] | None = None
    security_context: PodSecurityContext | None = None
    service_account: str = ""
    service_account_name: str = ""
    set_hostname_as_fqdn: bool | None = None
    share_process_namespace: bool | None = None
    subdomain: str = ""
    termination_grace_period_seconds: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """``Pod`` of core/v1."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def uid(self) -> str:
        """What it is known by for all its life."""
        return self.metadata.uid

    @property
    def name(self) -> str:
        """Its name, unique in its namespace at a time."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.metadata.namespace

    @property
    def full_name(self) -> str:
        """Name and namespace as one key."""
        return f"{self.metadata.name}_{self.metadata.namespace}"

    def __str__(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"
