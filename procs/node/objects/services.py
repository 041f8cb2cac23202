"""Services of the cluster, as far as containers learn of them (P-171, P-172)."""

from __future__ import annotations

from typing import Any, Final

from kubelet import logging as klog
from kubelet.cluster.rows import ServicePortRow, ServiceRow, service_key
from procs.node.apiserver.types import Json, Watched
from procs.node.kit import Kit
from procs.node.objects.mirrored import Mirrored

log = klog.get_logger(__name__)

PATH: Final = "/api/v1/services"
_NO_ADDRESS: Final = ("", "None")  # of what has none, and of headless services
_MOST_PORTS: Final = 1 << 16


class Services:
    """Keeps table ``cluster`` true about services."""

    def __init__(self, kit: Kit) -> None:
        self._mirrored = Mirrored(
            kit,
            watched=Watched(PATH, name="services"),
            prefix="service/",
            key_of=key_of,
            row_of=row_of,
            kind="services",
        )

    def start(self) -> None:
        """List and watch."""
        self._mirrored.start()


def key_of(item: Json) -> str:
    """Return the key of a service; "": it has no name."""
    metadata = _map(item.get("metadata"))
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not isinstance(namespace, str) or not name:
        log.warning("Service is passed over", field="metadata.name")
        return ""
    return service_key(namespace, name)


def row_of(item: Json) -> ServiceRow | None:
    """Return what containers learn of a service; None: nothing (P-171)."""
    metadata, spec = _map(item.get("metadata")), _map(item.get("spec"))
    address = spec.get("clusterIP")
    if not isinstance(address, str) or address in _NO_ADDRESS:
        return None
    ports = spec.get("ports")
    found = [_port(port) for port in ports] if isinstance(ports, list) else []
    if None in found:
        name = f"{metadata['namespace']}/{metadata['name']}"
        log.warning("Port of a service is passed over", service=name, field="spec.ports")
    return ServiceRow(
        name=metadata["name"],
        namespace=metadata["namespace"],
        cluster_ip=address,
        ports=tuple(port for port in found if port is not None),
    )


def _port(port: Any) -> ServicePortRow | None:
    number = _map(port).get("port")
    if not isinstance(number, int) or not 0 < number < _MOST_PORTS:
        return None
    name, protocol = port.get("name"), port.get("protocol")
    return ServicePortRow(
        number,
        name if isinstance(name, str) else "",
        protocol if isinstance(protocol, str) and protocol else "TCP",
    )


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
