"""Services as environment variables (P-171, P-172). Pure."""

from __future__ import annotations

from typing import Final

from kubelet.api.pod import Pod
from kubelet.pods.priority import is_static
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.configs.lookup import Lookup, Service

_MASTER_NAMESPACE: Final = "default"
_MASTER: Final = "kubernetes"
_HEADLESS: Final = ("", "None")


def service_env(pod: Pod, lookup: Lookup) -> dict[str, str]:
    """Return the variables of the services that a pod can see."""
    links = pod.spec.enable_service_links
    if links is None:
        raise ConfigError("spec.enableServiceLinks is not set, which defaulting should have done")
    master = _known(pod, lookup, _MASTER_NAMESPACE)
    visible = {s.name: s for s in master if s.name == _MASTER}
    if links:
        visible |= {s.name: s for s in _known(pod, lookup, pod.namespace)}
    found: dict[str, str] = {}
    for service in visible.values():
        found.update(_variables(service))
    return found


def _known(pod: Pod, lookup: Lookup, namespace: str) -> tuple[Service, ...]:
    found = lookup.services(namespace)
    if found is None and not is_static(pod):
        raise ConfigError("services have not yet been read at least once, cannot construct envvars")
    return tuple(s for s in found or () if s.cluster_ip not in _HEADLESS)


def _variables(service: Service) -> dict[str, str]:
    if not service.ports:
        return {}
    prefix = _shouted(service.name)
    address = service.cluster_ip
    first = service.ports[0]
    found = {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(first.port)}
    for port in service.ports:
        if port.name:
            found[f"{prefix}_SERVICE_PORT_{_shouted(port.name)}"] = str(port.port)
    for index, port in enumerate(service.ports):
        protocol = port.protocol or "TCP"
        shown = f"[{address}]" if ":" in address else address
        url = f"{protocol.lower()}://{shown}:{port.port}"
        if index == 0:
            found[f"{prefix}_PORT"] = url
        name = f"{prefix}_PORT_{port.port}_{protocol.upper()}"
        found |= {
            name: url,
            f"{name}_PROTO": protocol.lower(),
            f"{name}_PORT": str(port.port),
            f"{name}_ADDR": address,
        }
    return found


def _shouted(name: str) -> str:
    return name.upper().replace("-", "_")
