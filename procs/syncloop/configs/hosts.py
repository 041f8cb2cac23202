"""The /etc/hosts of a pod (P-175). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubelet.api.pod import HostAlias
from procs.syncloop.configs.hostname import HostName

_HEADER: Final = "# Kubernetes-managed hosts file.\n"
_NODE_HEADER: Final = "# Kubernetes-managed hosts file (host network).\n"
_LOCAL: Final = (
    ("127.0.0.1", "localhost"),
    ("::1", "localhost ip6-localhost ip6-loopback"),
    ("fe00::0", "ip6-localnet"),
    ("fe00::0", "ip6-mcastprefix"),
    ("fe00::1", "ip6-allnodes"),
    ("fe00::2", "ip6-allrouters"),
)


def managed(ips: Iterable[str], name: HostName, aliases: tuple[HostAlias, ...]) -> str:
    """Return the file of a pod with a network of its own."""
    lines = [f"{ip}\t{names}\n" for ip, names in _LOCAL]
    names = f"{name.full}\t{name.name}" if name.domain else name.name
    lines += [f"{ip}\t{names}\n" for ip in ips]
    return _HEADER + "".join(lines) + _aliases(aliases)


def of_node(content: str, aliases: tuple[HostAlias, ...]) -> str:
    """Return the file of a pod in the node's network: the node's, with the pod's aliases."""
    return _NODE_HEADER + content + _aliases(aliases)


def _aliases(aliases: tuple[HostAlias, ...]) -> str:
    if not aliases:
        return ""
    lines = [f"{alias.ip}\t" + "\t".join(alias.hostnames) + "\n" for alias in aliases]
    return "\n# Entries added by HostAliases.\n" + "".join(lines)
