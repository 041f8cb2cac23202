"""Which pods the node itself depends on. Pure."""

from __future__ import annotations

from typing import Final

from kubelet.api.pod import Pod
from kubelet.pods.rows import FILE, HTTP

SOURCE: Final = "kubernetes.io/config.source"
MIRROR: Final = "kubernetes.io/config.mirror"
SYSTEM_CRITICAL: Final = 2_000_000_000  # the lowest priority of the system's own classes
NODE_CRITICAL_CLASS: Final = "system-node-critical"


def is_static(pod: Pod) -> bool:
    """Whether a pod comes from a file or a URL of this node."""
    return pod.metadata.annotations.get(SOURCE) in (FILE, HTTP)


def is_mirror(pod: Pod) -> bool:
    """Whether a pod is the API server's image of a static one."""
    return MIRROR in pod.metadata.annotations


def is_critical(pod: Pod) -> bool:
    """Whether a pod goes before all others: static, mirror, or of a priority of the system."""
    priority = pod.spec.priority
    return (
        is_static(pod) or is_mirror(pod) or (priority is not None and priority >= SYSTEM_CRITICAL)
    )


def is_node_critical(pod: Pod) -> bool:
    """Whether the node cannot do without a pod (P-199)."""
    return is_critical(pod) and pod.spec.priority_class_name == NODE_CRITICAL_CLASS
