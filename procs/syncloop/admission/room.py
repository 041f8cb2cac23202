"""What a pod needs and what is left on the node (A-4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kubelet.api.pod import Pod
from kubelet.pods import resources
from kubelet.pods.resources import CPU, MEMORY, STORAGE
from kubelet.quantities import Quantity
from procs.syncloop.admission.base import Refusal
from procs.syncloop.site import Site

PODS: Final = "pods"
OUT_OF: Final = "OutOf"
_FIRST: Final = (CPU, MEMORY, STORAGE)


@dataclass(frozen=True, slots=True)
class Lack:
    """A resource of which there is not enough; CPU is in thousandths."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        """How much must be freed."""
        return self.requested - (self.capacity - self.used)

    def refusal(self) -> Refusal:
        """Say so."""
        message = (
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )
        return Refusal(OUT_OF + self.resource, message)


def lacking(pod: Pod, others: tuple[Pod, ...], site: Site) -> list[Lack]:
    """Return everything that the node has too little of for one more pod."""
    capacity = allocatable(site)
    found = []
    if len(others) + 1 > max_pods(site):
        found.append(Lack(PODS, 1, len(others), max_pods(site)))
    wanted = resources.pod_requests(pod)
    used = [resources.pod_requests(other) for other in others]
    for name in sorted(wanted, key=_rank):
        if not wanted[name] or _unknown(name, capacity):
            continue
        requested = amount(name, wanted[name])
        sum_used = sum(amount(name, one[name]) for one in used if name in one)
        has = amount(name, capacity[name]) if name in capacity else 0
        if requested > has - sum_used:
            found.append(Lack(name, requested, sum_used, has))
    return found


def request(pod: Pod, name: str) -> int:
    """Return what a pod takes of a resource."""
    if name == PODS:
        return 1
    found = resources.pod_requests(pod).get(name)
    return amount(name, found) if found is not None else 0


def amount(name: str, quantity: Quantity) -> int:
    """Return an amount in the unit in which it is counted."""
    return quantity.milli if name == CPU else quantity.value


def allocatable(site: Site) -> dict[str, Quantity]:
    """Return what the node has for pods; without a word of it, what the machine has."""
    found = resources.amounts(site.allocatable)
    if CPU not in found and site.cpu_milli:
        found[CPU] = Quantity(site.cpu_milli * 10**6)
    if MEMORY not in found and site.memory:
        found[MEMORY] = Quantity.of(site.memory)
    return found


def max_pods(site: Site) -> int:
    """Return how many pods the node takes: maxPods, and no more than podsPerCore allows."""
    if site.pods_per_core <= 0:
        return site.max_pods
    return min(site.max_pods, site.pods_per_core * site.cpu_milli // 1000)


def _unknown(name: str, capacity: Mapping[str, Quantity]) -> bool:
    """Whether a resource is none that the node could refuse for.

    Extended resources that it does not have may be counted elsewhere in the cluster; of the
    machine's own it may not have been told yet.
    """
    return name not in capacity and (is_extended(name) or name in _FIRST)


def is_extended(name: str) -> bool:
    """Whether a resource is one that others than Kubernetes define."""
    domain, slash, _ = name.partition("/")
    native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(slash) and not native


def _rank(name: str) -> tuple[int, str]:
    return (_FIRST.index(name), "") if name in _FIRST else (len(_FIRST), name)


def taken(pods: Iterable[Pod], name: str) -> int:
    """Return what pods take of a resource together."""
    return sum(request(pod, name) for pod in pods)
