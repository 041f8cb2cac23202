"""The class of service of a pod (P-201): who is reclaimed and killed first. Pure."""

from __future__ import annotations

from typing import Final

from kubelet.api.container import ResourceRequirements
from kubelet.api.pod import Pod
from kubelet.pods import resources
from kubelet.pods.resources import CPU, MEMORY, Amounts

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"

_DECIDING: Final = (CPU, MEMORY)


def qos_class(pod: Pod) -> str:
    """Return the class in the pod's status, or else what its resources make it."""
    return pod.status.qos_class or computed(pod)


def computed(pod: Pod) -> str:
    """Return the class that a pod's resources make it: of the pod as a whole, where it has any."""
    asked: Amounts = {}
    allowed: Amounts = {}
    limited = True  # everything that runs has a limit of each
    for part in _parts(pod):
        limit = _set(resources.limits(part))
        limited = limited and len(limit) == len(_DECIDING)
        _add(asked, _set(resources.requests(part)))
        _add(allowed, limit)
    if not asked and not allowed:
        return BEST_EFFORT
    return GUARANTEED if limited and asked == allowed else BURSTABLE


def _parts(pod: Pod) -> tuple[ResourceRequirements | None, ...]:
    if resources.has_pod_level(pod):
        return (pod.spec.resources,)
    return tuple(c.resources for c in (*pod.spec.containers, *pod.spec.init_containers))


def _set(found: Amounts) -> Amounts:
    """Return what counts: CPU and memory, and nothing for zero."""
    return {name: found[name] for name in _DECIDING if found.get(name)}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, resources.ZERO) + amount
