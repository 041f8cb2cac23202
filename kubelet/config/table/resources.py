"""Fields about resources: cgroups, reservations, limits, CPU, memory and topology managers."""

from __future__ import annotations

from typing import Final

from kubelet.config import checks
from kubelet.config.structs import RESERVED_MEMORY
from kubelet.config.table.row import Field
from kubelet.config.types import (
    BOOL,
    DURATION,
    FLOAT,
    INTEGER32,
    INTEGER64,
    QUANTITY_STRING,
    STRING,
    list_of,
    map_of,
    one_of,
)

_NOT_NEGATIVE: Final = checks.at_least(0)
_STRINGS: Final = map_of(STRING)
_RESERVED: Final = map_of(QUANTITY_STRING)


def _not_root(value: str) -> str | None:
    return 'must not be "/"' if value == "/" else None


CGROUPS: Final = (
    Field("kubeletCgroups", STRING, "", "Cgroup to run the kubelet in.", "kubelet-cgroups"),
    Field(
        "systemCgroups",
        STRING,
        "",
        "Cgroup for processes of the system that are in none.",
        "system-cgroups",
        _not_root,
    ),
    Field(
        "cgroupRoot",
        STRING,
        "",
        "Cgroup under which pods run; empty means / when cgroupsPerQOS is on.",
        "cgroup-root",
        acted_on_by="syncloop",
    ),
    Field(
        "cgroupsPerQOS",
        BOOL,
        True,
        "Keep a tree of cgroups by QoS class.",
        "cgroups-per-qos",
        acted_on_by="syncloop",
    ),
    Field(
        "cgroupDriver",
        one_of("cgroupfs", "systemd"),
        "cgroupfs",
        "Who makes cgroups, if the runtime does not say.",
        "cgroup-driver",
        zero_unset=True,
    ),
    Field(
        "singleProcessOOMKill",
        BOOL,
        None,
        "Kill one process of a container that runs out of memory, not all of them; "
        "unset means true on cgroup v1 and false on v2.",
        acted_on_by="syncloop",
    ),
    Field(
        "qosReserved",
        _STRINGS,
        {},
        "Share of a resource kept for guaranteed pods, such as memory: 50%.",
        "qos-reserved",
    ),
    Field(
        "systemReserved",
        _RESERVED,
        {},
        "Resources kept for the system: cpu, memory, ephemeral-storage, pid.",
        "system-reserved",
        acted_on_by="syncloop",
    ),
    Field(
        "kubeReserved",
        _RESERVED,
        {},
        "Resources kept for Kubernetes' own parts: cpu, memory, ephemeral-storage, pid.",
        "kube-reserved",
        acted_on_by="syncloop",
    ),
    Field(
        "reservedSystemCPUs",
        STRING,
        "",
        "CPUs kept for the system: 0-1,4.",
        "reserved-cpus",
        acted_on_by="syncloop",
    ),
    Field(
        "systemReservedCgroup",
        STRING,
        "",
        "Cgroup on which systemReserved is enforced.",
        "system-reserved-cgroup",
    ),
    Field(
        "kubeReservedCgroup",
        STRING,
        "",
        "Cgroup on which kubeReserved is enforced.",
        "kube-reserved-cgroup",
    ),
    Field(
        "enforceNodeAllocatable",
        list_of(
            one_of(
                "none",
                "pods",
                "system-reserved",
                "system-reserved-compressible",
                "kube-reserved",
                "kube-reserved-compressible",
            )
        ),
        ["pods"],
        "Which limits of the node are enforced.",
        "enforce-node-allocatable",
    ),
)

LIMITS: Final = (
    Field(
        "maxPods",
        INTEGER32,
        110,
        "Pods that may run here.",
        "max-pods",
        _NOT_NEGATIVE,
        zero_unset=True,
        acted_on_by="syncloop",
    ),
    Field(
        "podsPerCore",
        INTEGER32,
        0,
        "Pods that may run for each core; 0 sets no limit.",
        "pods-per-core",
        _NOT_NEGATIVE,
        acted_on_by="syncloop",
    ),
    Field(
        "podPidsLimit",
        INTEGER64,
        -1,
        "Processes that one pod may have; negative means the node's own limit.",
        "pod-max-pids",
        acted_on_by="syncloop",
    ),
    Field(
        "cpuCFSQuota", BOOL, True, "Enforce CPU limits.", "cpu-cfs-quota", acted_on_by="syncloop"
    ),
    Field(
        "cpuCFSQuotaPeriod",
        DURATION,
        "100ms",
        "Period over which a CPU limit is enforced.",
        "cpu-cfs-quota-period",
        checks.period("1ms", "1s"),
        acted_on_by="syncloop",
    ),
    Field(
        "memorySwap.swapBehavior",
        one_of("", "NoSwap", "LimitedSwap"),
        "",
        "Whether pods may use swap; empty means NoSwap.",
        acted_on_by="syncloop",
    ),
    Field(
        "memoryThrottlingFactor",
        FLOAT,
        None,
        "Share of a memory limit at which the kernel begins to throttle.",
        check=checks.above(0, 1),
        acted_on_by="syncloop",
    ),
    Field(
        "memoryReservationPolicy",
        one_of("None", "TieredReservation"),
        "None",
        "Whether memory requests are protected from reclaim.",
        zero_unset=True,
        acted_on_by="syncloop",
    ),
    Field(
        "kernelMemcgNotification",
        BOOL,
        False,
        "Let the kernel tell when memory runs short; cgroup v1 only.",
        "kernel-memcg-notification",
    ),
)

MANAGERS: Final = (
    Field(
        "cpuManagerPolicy",
        one_of("none", "static"),
        "none",
        "Whether pods may own CPUs.",
        "cpu-manager-policy",
        zero_unset=True,
    ),
    Field(
        "cpuManagerPolicyOptions",
        _STRINGS,
        {},
        "Options of the static CPU manager.",
        "cpu-manager-policy-options",
    ),
    Field(
        "cpuManagerReconcilePeriod",
        DURATION,
        "10s",
        "How often containers' CPU sets are put right.",
        "cpu-manager-reconcile-period",
        zero_unset=True,
    ),
    Field(
        "memoryManagerPolicy",
        one_of("None", "Static"),
        "None",
        "Whether pods may own memory of a NUMA node.",
        "memory-manager-policy",
        zero_unset=True,
    ),
    Field(
        "reservedMemory",
        RESERVED_MEMORY,
        [],
        "Memory kept for the system on each NUMA node.",
        "reserved-memory",
    ),
    Field(
        "topologyManagerPolicy",
        one_of("none", "best-effort", "restricted", "single-numa-node"),
        "none",
        "How strictly a pod's resources must lie on one NUMA node.",
        "topology-manager-policy",
        zero_unset=True,
    ),
    Field(
        "topologyManagerScope",
        one_of("container", "pod"),
        "container",
        "Whether containers or whole pods are aligned.",
        "topology-manager-scope",
        zero_unset=True,
    ),
    Field(
        "topologyManagerPolicyOptions",
        _STRINGS,
        {},
        "Options of the topology manager.",
        "topology-manager-policy-options",
    ),
)

RESOURCES: Final = CGROUPS + LIMITS + MANAGERS
