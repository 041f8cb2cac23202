"""Whether a node is one that a pod asks for: nodeSelector and required node affinity (A-4)."""

from __future__ import annotations

from collections.abc import Mapping

from kubelet.api import nodeaffinity
from kubelet.api.pod import Pod


def matches(pod: Pod, node: str, labels: Mapping[str, str]) -> bool:
    """Whether a pod may run on a node of this name and with these labels."""
    spec = pod.spec
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = (
        affinity.required_during_scheduling_ignored_during_execution
        if affinity is not None
        else None
    )
    if required is None:
        return True
    return nodeaffinity.matches(required, labels, {"metadata.name": node})
