"""What the configuration and the kernel say about containers, beside the facts in ``Site``."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kubelet.config.effective import Effective
from kubelet.pods import resources
from kubelet.pods.cgroups import MemoryQos
from kubelet.startup import Cgroups, cgroup_version

# What a container must not see of the node unless its procMount is Unmasked (P-158).
MASKED_PATHS: Final = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
READ_ONLY_PATHS: Final = (
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
)
_CPUS: Final = "sys/devices/system/cpu"
_HUGEPAGES: Final = "sys/kernel/mm/hugepages"


@dataclass(frozen=True, slots=True)
class Policy:
    """How containers are set up on this node."""

    memory: MemoryQos = field(default_factory=MemoryQos)
    ids_per_pod: int = 65536  # of a pod with its own user namespace
    default_sysctls: dict[str, str] = field(default_factory=dict)
    stop_signals: bool = False  # the gate ContainerStopSignals
    bind_mount_options: bool = False  # the gate VolumeBindMountOptions
    env_files: bool = True  # the gate EnvFiles
    selinux: bool = False  # the kernel has it, and it is on
    swap_accounting: bool = True  # the kernel can limit swap
    page_sizes: tuple[str, ...] = ()  # of huge pages, as the kernel names them: 2MB
    masked_paths: tuple[str, ...] = MASKED_PATHS


DEFAULT: Final = Policy()


def read_policy(config: Effective, root: str = "/") -> Policy:
    """Read the configuration and the kernel's files."""
    defaults = config.get("defaultPodSysctls") if config.gate("DefaultPodSysctls") else {}
    return Policy(
        memory=MemoryQos(
            enabled=config.gate("MemoryQoS"),
            tiered=config.get("memoryReservationPolicy") == "TieredReservation",
            factor=config.get("memoryThrottlingFactor"),
            page=os.sysconf("SC_PAGE_SIZE"),
        ),
        ids_per_pod=config.int("userNamespaces.idsPerPod"),
        default_sysctls=defaults,
        stop_signals=config.gate("ContainerStopSignals"),
        bind_mount_options=config.gate("VolumeBindMountOptions"),
        env_files=config.gate("EnvFiles"),
        selinux=os.path.exists(os.path.join(root, "sys/fs/selinux/enforce")),
        swap_accounting=_swap_accounting(root),
        page_sizes=page_sizes(root),
        masked_paths=MASKED_PATHS + _thermal(root),
    )


def page_sizes(root: str = "/") -> tuple[str, ...]:
    """Return the sizes of huge pages that the kernel has (``hugepages-2048kB`` is ``2MB``)."""
    sizes = sorted(
        int(name.removeprefix("hugepages-").removesuffix("kB")) * 1024
        for name in _names(os.path.join(root, _HUGEPAGES))
        if name.startswith("hugepages-") and name.endswith("kB")
    )
    return tuple(resources.page_size(size) for size in sizes)


def _thermal(root: str) -> tuple[str, ...]:
    """Return the counters of each CPU's heat, from which other work on the node can be read."""
    cpus = sorted(
        name
        for name in _names(os.path.join(root, _CPUS))
        if name.removeprefix("cpu").isdecimal()
        and os.path.isdir(os.path.join(root, _CPUS, name, "thermal_throttle"))
    )
    return tuple(f"/{_CPUS}/{name}/thermal_throttle" for name in cpus)


def _swap_accounting(root: str) -> bool:
    """Tell whether a cgroup can be limited in swap; the root cgroup never has these files."""
    mount = os.path.join(root, "sys/fs/cgroup")
    if cgroup_version(Path(root)) is not Cgroups.V2:
        return os.path.exists(os.path.join(mount, "memory/memory.memsw.limit_in_bytes"))
    children = [name for name in _names(mount) if os.path.isdir(os.path.join(mount, name))]
    found = [os.path.join(mount, name, "memory.swap.max") for name in children]
    return not found or any(map(os.path.exists, found))


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
