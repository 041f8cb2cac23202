"""The name of a pod's host, and the domain that it is in (P-176). Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubelet.api.pod import Pod
from procs.syncloop.configs.errors import SANDBOX, ConfigError

_LABEL_LIMIT: Final = 63  # of a name in the DNS
_HOSTNAME_LIMIT: Final = 64  # of the kernel


class HostName(NamedTuple):
    """A host's name, and its domain or ""."""

    name: str
    domain: str

    @property
    def full(self) -> str:
        """Name and domain as one."""
        return f"{self.name}.{self.domain}" if self.domain else self.name


def host_name(pod: Pod, cluster_domain: str) -> HostName:
    """Return the names of a pod's host."""
    spec = pod.spec
    if spec.hostname_override:
        return HostName(spec.hostname_override, "")
    name = (spec.hostname or pod.name)[:_LABEL_LIMIT].rstrip("-.")
    if not name:
        raise ConfigError(f"hostname for pod was invalid: {spec.hostname or pod.name!r}", SANDBOX)
    if not spec.subdomain:
        return HostName(name, "")
    return HostName(name, f"{spec.subdomain}.{pod.namespace}.svc.{cluster_domain}")


def kernel_name(pod: Pod, cluster_domain: str) -> str:
    """Return what ``hostname`` says in the pod's containers; "": the node's own."""
    if pod.spec.host_network:
        return ""
    found = host_name(pod, cluster_domain)
    if not pod.spec.set_hostname_as_fqdn or not found.domain:
        return found.name
    if len(found.full) > _HOSTNAME_LIMIT:
        raise ConfigError(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {found.full} is "
            f"too long ({len(found.full)} characters, maximum is {_HOSTNAME_LIMIT})",
            SANDBOX,
        )
    return found.full
