"""What a pod can learn of itself: fields, and resources of its containers (P-173). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from kubelet.api.container import Container, ObjectFieldSelector, ResourceFieldSelector
from kubelet.api.pod import Pod
from kubelet.pods import resources
from kubelet.pods.resources import CPU, HUGEPAGES, MEMORY, STORAGE, Amounts
from procs.syncloop.configs.errors import ConfigError

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)
_DEFAULTED: Final = (CPU, MEMORY, STORAGE)

_PLAIN: Final[dict[str, Callable[[Pod], str]]] = {
    "metadata.name": lambda pod: pod.name,
    "metadata.namespace": lambda pod: pod.namespace,
    "metadata.uid": lambda pod: pod.uid,
    "spec.nodeName": lambda pod: pod.spec.node_name,
    "spec.serviceAccountName": lambda pod: pod.spec.service_account_name,
}


def field_value(
    pod: Pod,
    selector: ObjectFieldSelector,
    pod_ips: tuple[str, ...] = (),
    host_ips: tuple[str, ...] = (),
    node: str = "",
) -> str:
    """Return what a ``fieldRef`` stands for; ConfigError names a field that there is not."""
    path = selector.field_path
    if path == "spec.nodeName":
        return pod.spec.node_name or node  # pods without an API server are bound to this node
    if path in _PLAIN:
        return _PLAIN[path](pod)
    addresses = {"status.hostIP": host_ips[:1], "status.hostIPs": host_ips}
    addresses |= {"status.podIP": pod_ips[:1], "status.podIPs": pod_ips}
    if path in addresses:
        return ",".join(addresses[path])
    match = _SUBSCRIPT.fullmatch(path)
    if match is None:
        raise ConfigError(f"unsupported fieldPath: {path}")
    meta = pod.metadata
    return (meta.labels if match[1] == "labels" else meta.annotations).get(match[2], "")


def resource_value(
    pod: Pod, container: Container, selector: ResourceFieldSelector, allocatable: Mapping[str, str]
) -> str:
    """Return what a ``resourceFieldRef`` stands for, as a whole number of its divisor."""
    chosen = _chosen(pod, container, selector)
    kind, _, name = selector.resource.partition(".")
    if name not in _DEFAULTED and not name.startswith(HUGEPAGES):
        raise ConfigError(f"unsupported container resource: {selector.resource}")
    if kind == "limits":
        found = effective_limits(pod, chosen, allocatable)
    elif kind == "requests":
        found = resources.requests(chosen.resources)
    else:
        raise ConfigError(f"unsupported container resource: {selector.resource}")
    amount = found.get(name, resources.ZERO)
    divisor = resources.parse(selector.divisor or "1") or resources.parse("1")
    if name == CPU:
        return str(_up(amount.milli, divisor.milli))
    return str(_up(amount.value, divisor.value))


def effective_limits(pod: Pod, container: Container, allocatable: Mapping[str, str]) -> Amounts:
    """Return a container's limits; what has none may use what its pod or the node has."""
    node = {name: text for name, text in allocatable.items() if name in _DEFAULTED}
    own = {name: n for name, n in resources.limits(container.resources).items() if n}
    return resources.amounts(node) | resources.limits(pod.spec.resources) | own


def _chosen(pod: Pod, container: Container, selector: ResourceFieldSelector) -> Container:
    wanted = selector.container_name
    if not wanted or wanted == container.name:
        return container
    for other in resources.every_container(pod):
        if other.name == wanted:
            return other
    raise ConfigError(f"container {wanted} not found")


def _up(amount: int, unit: int) -> int:
    return -(-amount // unit)
