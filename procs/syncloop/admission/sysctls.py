"""Kernel parameters that a pod may set (A-2)."""

from __future__ import annotations

from typing import Final

from procs.syncloop.admission.base import Refusal, Request

REASON: Final = "SysctlForbidden"

# Those that touch nobody else, each with the kernel since which that is so.
SAFE: Final[dict[str, tuple[int, int]]] = {
    "kernel.shm_rmid_forced": (0, 0),
    "net.ipv4.ip_local_port_range": (0, 0),
    "net.ipv4.tcp_syncookies": (0, 0),
    "net.ipv4.ping_group_range": (0, 0),
    "net.ipv4.ip_unprivileged_port_start": (0, 0),
    "net.ipv4.ip_local_reserved_ports": (3, 16),
    "net.ipv4.tcp_keepalive_time": (4, 5),
    "net.ipv4.tcp_fin_timeout": (4, 6),
    "net.ipv4.tcp_keepalive_intvl": (4, 5),
    "net.ipv4.tcp_keepalive_probes": (4, 5),
    "net.ipv4.tcp_rmem": (4, 15),
    "net.ipv4.tcp_wmem": (4, 15),
    "net.ipv4.tcp_slow_start_after_idle": (4, 15),
    "net.ipv4.tcp_notsent_lowat": (4, 6),
}

_IPC: Final = "ipc"
_NET: Final = "net"
_IPC_PREFIXES: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_IPC_NAMES: Final = frozenset({"kernel.sem"})
_NET_PREFIX: Final = "net."


def check(request: Request) -> Refusal | None:
    """Refuse a pod that sets what it may not."""
    spec = request.pod.spec
    context = spec.security_context
    for sysctl in context.sysctls if context is not None else ():
        name = dotted(sysctl.name)
        if not allowed(name, request.site.sysctls, request.facts.kernel):
            return Refusal(REASON, f'forbidden sysctl: "{name}" not allowlisted')
        shared = namespace(name)
        if (shared == _IPC and spec.host_ipc) or (shared == _NET and spec.host_network):
            problem = f'"{name}" not allowed with host {shared} enabled'
            return Refusal(REASON, f"forbidden sysctl: {problem}")
    return None


def allowed(name: str, patterns: tuple[str, ...], kernel: tuple[int, int]) -> bool:
    """Whether a sysctl is safe on this kernel, or allowed by the node's configuration."""
    since = SAFE.get(name)
    if since is not None and kernel >= since:
        return True
    for pattern in map(dotted, patterns):
        if pattern.endswith("*") and name.startswith(pattern[:-1]):
            return True
        if name == pattern:
            return True
    return False


def namespace(name: str) -> str:
    """Return the namespace that a sysctl belongs to, or ""."""
    if name in _IPC_NAMES or name.startswith(_IPC_PREFIXES):
        return _IPC
    return _NET if name.startswith(_NET_PREFIX) else ""


def dotted(name: str) -> str:
    """Return a sysctl's name with dots between its parts; it may be written with slashes.

    In a name with slashes a dot is part of a part, as in ``net/ipv4/conf/eth0.1/forwarding``.
    """
    first = next((c for c in name if c in "./"), ".")
    return name if first == "." else name.translate(str.maketrans("./", "/."))
