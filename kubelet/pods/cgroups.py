"""The cgroups of pods: their names in both drivers, and their limits. Pure.

Nothing here touches a cgroup: the process ``eviction`` is asked to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

from kubelet.api.pod import Pod
from kubelet.channels.messages import EnsurePodCgroup
from kubelet.pods import qos, resources
from kubelet.pods.resources import CPU, MEMORY, ZERO, Amounts

KUBEPODS: Final = "kubepods"
SYSTEMD: Final = "systemd"
MIN_SHARES: Final = 2  # of the kernel's cpu.shares
MAX_SHARES: Final = 262_144
MIN_QUOTA_US: Final = 1000
_MAX_WEIGHT: Final = 10_000  # of the kernel's cpu.weight

_QOS_DIRECTORY: Final = {qos.GUARANTEED: (), qos.BURSTABLE: ("burstable",)}
_QOS_LOWEST: Final = ("besteffort",)


class Node(Protocol):
    """What the cgroups of pods depend on besides the pod."""

    @property
    def cgroup_root(self) -> str:
        """The cgroup under which all pods run."""

    @property
    def cgroup_driver(self) -> str:
        """Who makes cgroups: cgroupfs or systemd."""

    @property
    def cgroups_per_qos(self) -> bool:
        """Whether pods have cgroups of their own at all."""

    @property
    def unified(self) -> bool:
        """Whether cgroups are of version 2."""

    @property
    def cpu_cfs_quota(self) -> bool:
        """Whether CPU limits are enforced."""

    @property
    def cpu_cfs_period_us(self) -> int:
        """The period over which they are."""

    @property
    def pod_pids_limit(self) -> int:
        """How many processes a pod may have; not above 0: no limit of its own."""


@dataclass(frozen=True, slots=True)
class MemoryQos:
    """How memory is protected and throttled on cgroup v2 (P-197)."""

    enabled: bool = False  # the gate MemoryQoS
    tiered: bool = False  # memoryReservationPolicy TieredReservation
    factor: float | None = None  # memoryThrottlingFactor
    page: int = 4096


NO_MEMORY_QOS: Final = MemoryQos()


def qos_names(class_: str, root: str = "/") -> tuple[str, ...]:
    """Return the components of the cgroup of a class of service, from the top (P-190)."""
    above = tuple(part for part in root.split("/") if part)
    return (*above, KUBEPODS, *_QOS_DIRECTORY.get(class_, _QOS_LOWEST))


def path(names: tuple[str, ...], driver: str) -> str:
    """Return where a cgroup is below the mount of its hierarchy, as its driver names it (P-191)."""
    if driver != SYSTEMD:
        return "/" + "/".join(names)
    escaped = [name.replace("-", "_") for name in names]
    slices = ["-".join(escaped[: depth + 1]) + ".slice" for depth in range(len(escaped))]
    return "/" + "/".join(slices)


def pod_path(pod: Pod, node: Node) -> str:
    """Return the cgroup that a pod's containers are in; "" where pods have none of their own."""
    if not node.cgroups_per_qos:
        return ""
    names = (*qos_names(qos.qos_class(pod), node.cgroup_root), f"pod{pod.uid}")
    return path(names, node.cgroup_driver)


def pod_cgroup(pod: Pod, node: Node, memory: MemoryQos = NO_MEMORY_QOS) -> EnsurePodCgroup:
    """Return the cgroup that a pod is to have (P-194), where pods have cgroups of their own."""
    class_ = qos.qos_class(pod)
    asked, allowed = resources.pod_requests(pod), resources.pod_limits(pod)
    quota, limit = 0, 0
    if class_ != qos.BEST_EFFORT:
        quota = _pod_quota(pod, allowed, node)
        limit = allowed.get(MEMORY, ZERO).value if _declared(pod, MEMORY, class_) else 0
    return EnsurePodCgroup(
        pod=pod.uid,
        path=pod_path(pod, node),
        cpu_shares=_pod_shares(class_, asked),
        cpu_quota=quota,
        cpu_period=node.cpu_cfs_period_us,
        memory=limit,
        pids=max(0, node.pod_pids_limit),
        hugepages=resources.hugepages(asked),
        unified=protection(class_, asked.get(MEMORY, ZERO).value, memory) if node.unified else {},
    )


def protection(class_: str, request: int, memory: MemoryQos) -> dict[str, str]:
    """Return what keeps requested memory from being reclaimed, or takes it back (P-197)."""
    if not memory.enabled:
        return {}
    hard = request if memory.tiered and class_ == qos.GUARANTEED else 0
    soft = request if memory.tiered and class_ == qos.BURSTABLE else 0
    return {"memory.min": str(hard), "memory.low": str(soft)}


def memory_high(request: int, limit: int, allocatable: int, memory: MemoryQos) -> str:
    """Return where the kernel begins to throttle a container (P-197); "" is no such place."""
    if not memory.enabled:
        return "max"
    if memory.factor is None or request == limit:
        return ""
    top = limit or allocatable
    wanted = math.floor((request + (top - request) * memory.factor) / memory.page) * memory.page
    return str(wanted) if wanted > request else ""


def _pod_shares(class_: str, asked: Amounts) -> int:
    return MIN_SHARES if class_ == qos.BEST_EFFORT else cpu_shares(asked.get(CPU, ZERO).milli)


def _pod_quota(pod: Pod, allowed: Amounts, node: Node) -> int:
    if not _declared(pod, CPU, qos.qos_class(pod)):
        return 0
    if not node.cpu_cfs_quota:
        return -1
    return cpu_quota(allowed.get(CPU, ZERO).milli, node.cpu_cfs_period_us)


def _declared(pod: Pod, name: str, class_: str) -> bool:
    """Whether a pod is limited as a whole: one container without a limit may use what it likes."""
    if class_ == qos.GUARANTEED:
        return True
    if _has(resources.limits(pod.spec.resources), name):
        return True
    among = (*pod.spec.containers, *pod.spec.init_containers)
    return all(_has(resources.limits(c.resources), name) for c in among)


def _has(found: Amounts, name: str) -> bool:
    return bool(found.get(name))


def cpu_shares(milli: int) -> int:
    """Return thousandths of a CPU as cpu.shares of cgroup v1 (P-192)."""
    return min(MAX_SHARES, max(MIN_SHARES, milli * 1024 // 1000))


def cpu_weight(shares: int) -> int:
    """Return cpu.shares as cpu.weight of cgroup v2 (P-192)."""
    if shares >= MAX_SHARES:
        return _MAX_WEIGHT
    return 1 + (max(shares, MIN_SHARES) - MIN_SHARES) * (_MAX_WEIGHT - 1) // (
        MAX_SHARES - MIN_SHARES
    )


def shares_of(weight: int) -> int:
    """Return cpu.weight as cpu.shares: the way back of ``cpu_weight``, up to its rounding."""
    span = MAX_SHARES - MIN_SHARES
    return MIN_SHARES + (weight - 1) * span // (_MAX_WEIGHT - 1)


def cpu_quota(milli: int, period_us: int) -> int:
    """Return the microseconds of CPU in each period (P-193); 0 is no limit."""
    return max(MIN_QUOTA_US, milli * period_us // 1000) if milli > 0 else 0
