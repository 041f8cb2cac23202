"""Ports of the host can be given once (A-4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kubelet.api.container import is_sidecar
from kubelet.api.pod import Pod

_ANY: Final = "0.0.0.0"  # noqa: S104 - what "every address" is called, nothing is bound


class HostPort(NamedTuple):
    """A port of the host that a container is given."""

    ip: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Whether the two cannot be given at once."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.ip == other.ip or _ANY in (self.ip, other.ip)


def host_ports(pod: Pod) -> Iterator[HostPort]:
    """Yield the ports of the host that a pod's containers and sidecars ask for."""
    for container in (*filter(is_sidecar, pod.spec.init_containers), *pod.spec.containers):
        for port in container.ports:
            if port.host_port:
                yield HostPort(port.host_ip or _ANY, port.protocol or "TCP", port.host_port)


def free(pod: Pod, others: Iterable[Pod]) -> bool:
    """Whether no other pod has one of the ports that a pod asks for."""
    wanted = list(host_ports(pod))
    if not wanted:
        return True
    given = [port for other in others for port in host_ports(other)]
    return not any(one.conflicts(other) for one in wanted for other in given)
