"""What the configuration says about this node's object."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Final

from kubelet.config import Effective
from kubelet.machine import identity
from procs.node.apiserver.limiter import LEASE_SHARE

# N-21: of the features that a node may declare, those that this kubelet has.
_SUPPORTED: Final = ("RestartAllContainersOnContainerExits",)
_EXTERNAL: Final = "external"
_EXISTS_ONLY: Final = "KubeletRegistrationGetOnExistsOnly"


@dataclass(frozen=True, slots=True)
class Settings:
    """How the node is registered and reported."""

    node: str
    register: bool = True
    exists_only: bool = False  # a refused creation does not mean that the node may be there
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[dict[str, Any], ...] = ()
    provider_id: str = ""
    external: bool = False  # a cloud provider runs somewhere else
    attach: bool = True  # enableControllerAttachDetach
    node_ip: str = ""
    port: int = 10250
    max_images: int = 50
    update_seconds: float = 10.0
    report_seconds: float = 300.0
    lease_seconds: int = 40
    declared: tuple[str, ...] = ()
    root_dir: str = "/var/lib/kubelet"
    run_dir: str = "/run/kubelet"

    @property
    def renew_seconds(self) -> float:
        """How often the lease is renewed."""
        return self.lease_seconds * LEASE_SHARE


def read(config: Effective, node: str) -> Settings:
    """Return what is configured."""
    return Settings(
        node=node,
        register=config.bool("registerNode"),
        exists_only=config.gate(_EXISTS_ONLY),
        labels=identity.labels(config, node),
        taints=tuple(config.get("registerWithTaints")),
        provider_id=config.str("providerID"),
        external=config.str("--cloud-provider") == _EXTERNAL,
        attach=config.bool("enableControllerAttachDetach"),
        node_ip=config.str("--node-ip"),
        port=config.int("port"),
        max_images=config.int("nodeStatusMaxImages"),
        update_seconds=config.duration("nodeStatusUpdateFrequency"),
        report_seconds=config.duration("nodeStatusReportFrequency"),
        lease_seconds=config.int("nodeLeaseDurationSeconds"),
        declared=tuple(name for name in _SUPPORTED if config.gate(name)),
        root_dir=os.path.abspath(config.str("--root-dir")),
        run_dir=config.str("--run-dir"),
    )
