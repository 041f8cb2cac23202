"""The addresses in a pod's status (P-129)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from kubelet.api.pod import Pod
from kubelet.api.status import PodStatus
from kubelet.pods.runtime import PodRecord, SandboxState


def pod_ips(
    pod: Pod, record: PodRecord | None, previous: PodStatus, host_ips: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the addresses of a pod: at most one of each family, the node's own family first."""
    if pod.spec.host_network:
        return chosen(host_ips, host_ips)
    boxes = record.sandboxes if record is not None else ()
    if boxes and boxes[0].state is SandboxState.READY:
        return chosen(boxes[0].ips, host_ips)
    if any(box.state is SandboxState.READY for box in boxes):
        return ()
    # What has ended keeps the addresses that it had: people look for them in logs.
    return tuple(ip.ip for ip in previous.pod_ips)


def chosen(ips: tuple[str, ...], host_ips: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first address of each family, in canonical form, the node's family first."""
    first: dict[int, str] = {}
    for text in ips:
        address = _parsed(text)
        if address is not None:
            first.setdefault(address.version, str(address))
    primary = family(host_ips[0]) if host_ips else 0
    order = (6, 4) if primary == 6 else (4, 6)
    return tuple(first[version] for version in order if version in first)


def family(text: str) -> int:
    """Return 4 or 6; 0 for what is no address."""
    address = _parsed(text)
    return 0 if address is None else address.version


def mismatch(status: PodStatus, host_ips: tuple[str, ...]) -> str | None:
    """Say that a node's primary family is not the one its pods were told, or None.

    It is the message of the event HostIPsIPFamilyMismatch; ``status`` is the one before.
    """
    before = family(status.host_ip)
    now = family(host_ips[0]) if host_ips else 0
    if not before or not now or before == now:
        return None
    return (
        f"Kubelet detected an IPv{before} node IP ({status.host_ip}), but the cloud provider "
        f"selected an IPv{now} node IP ({host_ips[0]}); pass an explicit `--node-ip` to kubelet "
        "to fix this."
    )


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
