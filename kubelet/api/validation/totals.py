"""What the containers of a pod ask for together. Amounts that cannot be read count for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kubelet.api.container import Container, is_sidecar
from kubelet.api.pod import PodSpec
from kubelet.quantities import Quantity, parse

HUGEPAGES: Final = "hugepages-"

Amounts = dict[str, Quantity]


def readable(found: dict[str, str]) -> Amounts:
    """Return the amounts of a list of resources that are quantities."""
    amounts = {}
    for name, text in found.items():
        try:
            amounts[name] = parse(text)
        except ValueError:
            continue
    return amounts


def requests(container: Container) -> Amounts:
    """Return what a container asks for."""
    return readable(container.resources.requests) if container.resources else {}


def limits(container: Container) -> Amounts:
    """Return what a container may use at most."""
    return readable(container.resources.limits) if container.resources else {}


def is_pod_level(name: str) -> bool:
    """Tell whether a resource may be asked for by a pod as a whole (M-60)."""
    return name in {"cpu", "memory"} or name.startswith(HUGEPAGES)


def is_native(name: str) -> bool:
    """Tell whether a resource is one of Kubernetes itself."""
    return "/" not in name or "kubernetes.io/" in name


def may_overcommit(name: str) -> bool:
    """Tell whether a request for a resource may be lower than its limit."""
    return is_native(name) and not name.startswith(HUGEPAGES)


def together(spec: PodSpec, amounts: Callable[[Container], Amounts]) -> Amounts:
    """Return the most that a pod's containers need at any time.

    Init containers run one after another beside the sidecars that were started before them; the
    regular containers run beside all sidecars.
    """
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.init_containers:
        own = amounts(container)
        if is_sidecar(container):
            sidecars = _sum([sidecars, own])
            starting = _most(starting, sidecars)
        else:
            starting = _most(starting, _sum([sidecars, own]))
    running = _sum([sidecars, *(amounts(container) for container in spec.containers)])
    return _most(running, starting)


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _most(one: Amounts, other: Amounts) -> Amounts:
    names = [*one, *(name for name in other if name not in one)]
    return {
        name: max(amount for amount in (one.get(name), other.get(name)) if amount is not None)
        for name in names
    }
