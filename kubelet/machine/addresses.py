"""The addresses that others reach the node at (N-19, N-20).

Nothing here waits for the network: a name server that does not answer must not stop pods. Who has
asked one hands in what it said.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kubelet.machine import files

INTERNAL_IP: Final = "InternalIP"
HOSTNAME: Final = "Hostname"
# Addresses that are reserved for documents: nothing is ever sent to them, the kernel is only
# asked which of the node's addresses it would send from.
_ELSEWHERE: Final = {socket.AF_INET: "203.0.113.1", socket.AF_INET6: "2001:db8::1"}
_FAMILY: Final = {4: socket.AF_INET, 6: socket.AF_INET6}
_LOOPBACK: Final = "127.0.0.1"

# Returns the address that the node would send from, of a family; "": there is no way out.
Route = Callable[[int], str]
# Whether an address is one of this machine's.
Local = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Address:
    """One address of the node, with what kind it is."""

    type: str
    address: str


def configured(wanted: str) -> tuple[str, ...]:
    """Return the addresses that ``--node-ip`` names; those that only name a family are not."""
    return tuple(str(ip) for ip in _given(wanted) if not ip.is_unspecified)


def find_ips(
    wanted: str,
    node: str,
    root: str = "/",
    route: Route | None = None,
    resolved: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the node's addresses (N-19), the primary first; nothing if there is none.

    Those that are configured; or else what the node's name is, in the hosts file or as
    ``resolved`` by a name server; or else that of the way out. ``0.0.0.0`` and ``::`` ask for one
    of their family first.
    """
    named = configured(wanted)
    if named:
        return named
    if _parsed(node) is not None:  # a node that is named by its address
        return (node,)
    route = route or source_address
    asked = [_FAMILY[ip.version] for ip in _given(wanted)]
    families = dict.fromkeys([*asked, socket.AF_INET, socket.AF_INET6])
    candidates = [*_hosts(node, root), *resolved]
    for family in families:
        for text in candidates:
            if family_of(text) == family and usable(text) and is_local(text):
                return (text,)
    found = next(filter(None, (route(family) for family in families)), "")
    return (found,) if found else ()


def node_ips(
    wanted: str, node: str, root: str = "/", route: Route | None = None
) -> tuple[str, ...]:
    """Return the node's addresses; the one of loopback if it has no other."""
    return find_ips(wanted, node, root, route) or (_LOOPBACK,)


def listed(ips: Iterable[str], node: str) -> tuple[Address, ...]:
    """Return the addresses as the node's object lists them: the name comes last (N-19)."""
    return (*(Address(INTERNAL_IP, ip) for ip in ips), Address(HOSTNAME, node))


def problem_with(text: str, local: Local | None = None) -> str | None:
    """Say why an address cannot be the node's (N-20); None if it can."""
    ip = _parsed(text)
    if ip is None:
        return f"{text!r} is not an IP address"
    for odd, what in (
        (ip.is_loopback, "a loopback address"),
        (ip.is_multicast, "a multicast address"),
        (ip.is_link_local, "a link-local address"),
        (ip.is_unspecified, "the unspecified address"),
    ):
        if odd:
            return f"{text} is {what}"
    if not (local or is_local)(text):
        return f"{text} is on none of this machine's interfaces"
    return None


def source_address(family: int) -> str:
    """Return the address of the default route's interface; nothing is sent for it."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_ELSEWHERE[socket.AddressFamily(family)], 9))
            address: str = probe.getsockname()[0]
    except OSError:
        return ""
    return address if usable(address) else ""


def usable(text: str) -> bool:
    """Whether others could reach a node at an address, wherever it is (N-20)."""
    return problem_with(text, lambda _text: True) is None


def family_of(text: str) -> int | None:
    """Return the family of an address; None for what is none."""
    ip = _parsed(text)
    return _FAMILY[ip.version] if ip is not None else None


def is_local(text: str) -> bool:
    """Whether an address is one of this machine's: only then can a socket be bound to it."""
    family = family_of(text)
    if family is None:
        return False
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((text, 0))
    except OSError:
        return False
    return True


def _given(wanted: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    return [ipaddress.ip_address(text.strip()) for text in wanted.split(",") if text.strip()]


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _hosts(node: str, root: str) -> list[str]:
    """Return what the node's name stands for in the hosts file."""
    lines = files.text(root, "etc/hosts").splitlines()
    words = [line.partition("#")[0].split() for line in lines]
    return [line[0] for line in words if node in line[1:]]
