"""Resources of containers and sandboxes, as the runtime takes them (P-192..P-200). Pure."""

from __future__ import annotations

from typing import Final

from kubelet.api.container import Container, is_sidecar
from kubelet.api.pod import Pod
from kubelet.cri import api_pb2 as pb
from kubelet.pods import cgroups, priority, qos, resources
from kubelet.pods.resources import CPU, MEMORY, ZERO, Amounts
from procs.syncloop.configs.policy import DEFAULT, Policy
from procs.syncloop.site import Site

GUARANTEED_OOM: Final = -997
BEST_EFFORT_OOM: Final = 1000
_LOWEST_BURSTABLE_OOM: Final = 1000 + GUARANTEED_OOM


def container_resources(
    pod: Pod, container: Container, site: Site, policy: Policy = DEFAULT
) -> pb.LinuxContainerResources:
    """Return what a container may use, and who is killed for it when memory runs out."""
    asked = resources.requests(container.resources)
    allowed = resources.limits(container.resources)
    found = _basic(asked, allowed, site)
    found.oom_score_adj = oom_score(pod, container, site.memory)
    for size, limit in _hugepages(allowed, policy).items():
        found.hugepage_limits.add(page_size=size, limit=limit)
    if site.unified:
        request, limit = asked.get(MEMORY, ZERO).value, allowed.get(MEMORY, ZERO).value
        files = _memory_files(qos.qos_class(pod), request, limit, site, policy)
        found.unified.update(files)
    if policy.swap_accounting:
        _set_swap(pod, asked, allowed, found, site)
    return found


def sandbox_resources(pod: Pod, site: Site) -> pb.LinuxContainerResources:
    """Return what a pod's containers may use together, without its overhead (P-162)."""
    asked = resources.pod_requests(pod, overhead=False)
    asked.setdefault(CPU, ZERO)
    return _basic(asked, resources.pod_limits(pod, overhead=False), site)


def overhead(pod: Pod, site: Site) -> pb.LinuxContainerResources:
    """Return what the sandbox itself may use (P-162)."""
    if not pod.spec.overhead:
        return pb.LinuxContainerResources()
    amounts = resources.amounts(pod.spec.overhead)
    return _basic(amounts, amounts, site)


def oom_score(pod: Pod, container: Container, capacity: int) -> int:
    """Return how gladly the kernel kills a container when memory runs out (P-199)."""
    class_ = qos.qos_class(pod)
    if priority.is_node_critical(pod) or class_ == qos.GUARANTEED:
        return GUARANTEED_OOM
    if class_ == qos.BEST_EFFORT:
        return BEST_EFFORT_OOM
    more = _leftover(pod)
    score = _score(_memory(container) + more, capacity)
    if is_sidecar(container) and pod.spec.containers:
        # A sidecar outlives what it serves: the regular containers go first.
        smallest = min(map(_memory, pod.spec.containers))
        score = min(score, _score(smallest + more, capacity))
    return min(BEST_EFFORT_OOM - 1, max(_LOWEST_BURSTABLE_OOM, score))


def _score(memory: int, capacity: int) -> int:
    return 1000 - 1000 * memory // max(1, capacity)


def _memory(container: Container) -> int:
    return resources.requests(container.resources).get(MEMORY, ZERO).value


def _leftover(pod: Pod) -> int:
    """Return each container's part of what the pod asks for beyond its containers."""
    whole = resources.requests(pod.spec.resources).get(MEMORY, ZERO).value
    if not whole:
        return 0
    left = whole - resources.container_requests(pod).get(MEMORY, ZERO).value
    return max(0, left) // max(1, len(pod.spec.containers) + len(pod.spec.init_containers))


def _basic(asked: Amounts, allowed: Amounts, site: Site) -> pb.LinuxContainerResources:
    limit = allowed.get(CPU, ZERO).milli
    found = pb.LinuxContainerResources(
        cpu_shares=cgroups.cpu_shares(asked[CPU].milli if CPU in asked else limit),
        memory_limit_in_bytes=allowed.get(MEMORY, ZERO).value,
    )
    if site.cpu_cfs_quota:
        found.cpu_period = site.cpu_cfs_period_us
        found.cpu_quota = cgroups.cpu_quota(limit, site.cpu_cfs_period_us)
    if site.unified and not site.single_process_oom_kill:
        found.unified["memory.oom.group"] = "1"  # P-198
    return found


def _hugepages(allowed: Amounts, policy: Policy) -> dict[str, int]:
    """Return a limit for each size of pages that the node has: none unless it is asked for."""
    return dict.fromkeys(policy.page_sizes, 0) | resources.hugepages(allowed)


def _memory_files(
    class_: str, request: int, limit: int, site: Site, policy: Policy
) -> dict[str, str]:
    """Return what protects and throttles memory as P-197 has it."""
    found = cgroups.protection(class_, request, policy.memory)
    allocatable = resources.parse(site.allocatable.get(MEMORY, "0")).value
    high = cgroups.memory_high(request, limit, allocatable, policy.memory)
    return found | {"memory.high": high} if high else found


def _set_swap(
    pod: Pod, asked: Amounts, allowed: Amounts, found: pb.LinuxContainerResources, site: Site
) -> None:
    """Give a container its part of the node's swap, which mostly is none (P-200)."""
    if not site.unified:
        # Memory and swap together: as much as memory alone, or not limited where that is not.
        found.memory_swap_limit_in_bytes = found.memory_limit_in_bytes
        return
    request = asked.get(MEMORY, ZERO).value
    limited = request and request != allowed.get(MEMORY, ZERO).value
    entitled = (
        site.limited_swap
        and limited
        and qos.qos_class(pod) == qos.BURSTABLE
        and not priority.is_critical(pod)
    )
    share = request * site.swap // max(1, site.memory) if entitled else 0
    found.unified["memory.swap.max"] = str(share)
