"""What a pod asks for and may use in all: containers, init containers, sidecars, overhead. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from kubelet import quantities
from kubelet.api.container import Container, ResourceRequirements, is_sidecar
from kubelet.api.pod import Pod
from kubelet.quantities import Quantity

CPU: Final = "cpu"
MEMORY: Final = "memory"
STORAGE: Final = "ephemeral-storage"
HUGEPAGES: Final = "hugepages-"

Amounts = dict[str, Quantity]
ZERO: Final = Quantity(0)

_UNITS: Final = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


@lru_cache(maxsize=4096)
def parse(text: str) -> Quantity:
    """Return a quantity of a pod that was validated; the same few texts come again and again."""
    return quantities.parse(text)


def amounts(listed: Mapping[str, str]) -> Amounts:
    """Return a list of quantities as numbers."""
    return {name: parse(text) for name, text in listed.items()}


def requests(resources: ResourceRequirements | None) -> Amounts:
    """Return what is asked for."""
    return amounts(resources.requests) if resources is not None else {}


def limits(resources: ResourceRequirements | None) -> Amounts:
    """Return what may be used at most."""
    return amounts(resources.limits) if resources is not None else {}


def every_container(pod: Pod) -> Iterator[Container]:
    """Yield the containers of all kinds: init, regular, ephemeral."""
    yield from pod.spec.init_containers
    yield from pod.spec.containers
    yield from pod.spec.ephemeral_containers


def counted(name: str) -> bool:
    """Whether a resource can be set for a pod as a whole."""
    return name in (CPU, MEMORY) or name.startswith(HUGEPAGES)


def has_pod_level(pod: Pod) -> bool:
    """Whether resources of the pod as a whole are set, which then decide (P-201)."""
    whole = pod.spec.resources
    return whole is not None and any(counted(name) for name in (*whole.requests, *whole.limits))


def pod_requests(pod: Pod, *, overhead: bool = True) -> Amounts:
    """Return what a pod asks for in all."""
    found = container_requests(pod)
    found.update(_counted(requests(pod.spec.resources)))
    return _plus(found, amounts(pod.spec.overhead)) if overhead else found


def pod_limits(pod: Pod, *, overhead: bool = True) -> Amounts:
    """Return what a pod may use in all; its overhead only raises a limit that is there."""
    found = _together(pod, limits)
    found.update(_counted(limits(pod.spec.resources)))
    if not overhead:
        return found
    more = {name: n for name, n in amounts(pod.spec.overhead).items() if found.get(name)}
    return _plus(found, more)


def container_requests(pod: Pod) -> Amounts:
    """Return what a pod's containers ask for in all, whatever is set for the pod as a whole."""
    return _together(pod, requests)


def hugepages(found: Amounts) -> dict[str, int]:
    """Return the bytes of each size of huge pages, by the kernel's name for it (``2MB``)."""
    return {
        page_size(parse(name.removeprefix(HUGEPAGES)).value): amount.value
        for name, amount in found.items()
        if name.startswith(HUGEPAGES)
    }


def page_size(size: int) -> str:
    """Return the kernel's name for a size of pages."""
    for unit, name in _UNITS:
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size}B"


def _together(pod: Pod, of: Callable[[ResourceRequirements | None], Amounts]) -> Amounts:
    """Sum what runs at the same time: init containers run alone, beside earlier sidecars."""
    total = _sum(of(c.resources) for c in pod.spec.containers)
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.init_containers:
        own = of(container.resources)
        if is_sidecar(container):
            total = _plus(total, own)
            sidecars = _plus(sidecars, own)
            peak = _most(peak, sidecars)
        else:
            peak = _most(peak, _plus(sidecars, own))
    return _most(total, peak)


def _counted(found: Amounts) -> Amounts:
    return {name: amount for name, amount in found.items() if counted(name)}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        total = _plus(total, part)
    return total


def _plus(one: Amounts, other: Amounts) -> Amounts:
    return {n: one.get(n, ZERO) + other.get(n, ZERO) for n in one | other}


def _most(one: Amounts, other: Amounts) -> Amounts:
    return {n: max(one.get(n, ZERO), other.get(n, ZERO)) for n in one | other}
