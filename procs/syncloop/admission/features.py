"""Features that a pod needs and the node may not have (A-7, A-8), and its shutdown (A-9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubelet.api.pod import Pod
from kubelet.pods.resources import every_container, has_pod_level
from procs.syncloop.admission.base import (
    RESTART_ALL,
    USER_NAMESPACES_ON_HOST_NETWORK,
    Refusal,
    Request,
)


def pod_features(request: Request) -> Refusal | None:
    """Refuse resources of the pod as a whole where they are switched off (A-7)."""
    if request.facts.pod_level_resources or not has_pod_level(request.pod):
        return None
    message = "PodLevelResources feature gate is disabled"
    return Refusal("PodLevelResourcesNotSupported", message)


def declared_features(request: Request) -> Refusal | None:
    """Refuse a pod that needs what the node does not declare (A-8)."""
    lacking = [
        name
        for name, needs in _NEEDS.items()
        if name not in request.facts.declared and needs(request.pod)
    ]
    if not lacking:
        return None
    message = f"Pod requires node features that are not available: {', '.join(sorted(lacking))}"
    return Refusal("PodFeatureUnsupported", message)


def shutdown(request: Request) -> Refusal | None:
    """Refuse every pod while the node shuts down (A-9)."""
    if not request.facts.shutting_down:
        return None
    return Refusal("NodeShutdown", "Pod was rejected as the node is shutting down.")


def _restarts_all(pod: Pod) -> bool:
    return any(
        rule.action == "RestartAllContainers"
        for container in every_container(pod)
        for rule in container.restart_policy_rules
    )


def _user_namespace_on_host_network(pod: Pod) -> bool:
    return bool(pod.spec.host_network) and pod.spec.host_users is False


_NEEDS: Final[dict[str, Callable[[Pod], bool]]] = {
    RESTART_ALL: _restarts_all,
    USER_NAMESPACES_ON_HOST_NETWORK: _user_namespace_on_host_network,
}
