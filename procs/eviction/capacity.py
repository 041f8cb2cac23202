"""What the node has, what is kept back, and what is left for pods."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kubelet import quantities
from kubelet.config import Effective
from kubelet.config.names import cpus
from kubelet.config.thresholds import percentage
from kubelet.pods.resources import page_size

_HUGE_PAGES: Final = "sys/kernel/mm/hugepages"


@dataclass(frozen=True, slots=True)
class Capacity:
    """Amounts of the node's resources."""

    cpu_milli: int = 0
    memory: int = 0
    storage: int = 0  # of the file system with the kubelet's directory
    pids: int = 0
    hugepages: dict[str, int] = field(default_factory=dict)  # size ("2MB") -> bytes


def read(root_dir: str, system: str = "/") -> Capacity:
    """Return what this node has; what cannot be read counts as nothing."""
    return Capacity(
        cpu_milli=os.sysconf("SC_NPROCESSORS_ONLN") * 1000,
        memory=memory_total(_text(f"{system}/proc/meminfo")),
        storage=_storage(root_dir),
        pids=_pids(system),
        hugepages=_hugepages(system),
    )


def memory_total(meminfo: str) -> int:
    """Return the bytes of memory that the kernel's file speaks of."""
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) * 1024
    return 0


def enforced(capacity: Capacity, config: Effective) -> Capacity:
    """Return what all pods together may use (P-196): eviction's reserve is theirs too."""
    enforcing = "pods" in config.get("enforceNodeAllocatable")
    return _unreserved(capacity, config) if enforcing else capacity


def allocatable(capacity: Capacity, config: Effective) -> Capacity:
    """Return what the node offers to pods: what is not kept back, less eviction's reserve."""
    left = _unreserved(capacity, config)
    hard = config.get("evictionHard")
    memory = _threshold(hard.get("memory.available", ""), capacity.memory)
    storage = _threshold(hard.get("nodefs.available", ""), capacity.storage)
    return replace(
        left, memory=max(0, left.memory - memory), storage=max(0, left.storage - storage)
    )


def _unreserved(capacity: Capacity, config: Effective) -> Capacity:
    kept = (config.get("kubeReserved"), config.get("systemReserved"))
    cpu = _reserved(kept, "cpu", milli=True)
    listed = config.str("reservedSystemCPUs")
    if listed:  # it names the CPUs, and so how many
        cpu = len(cpus(listed)) * 1000
    return replace(
        capacity,
        cpu_milli=max(0, capacity.cpu_milli - cpu),
        memory=max(0, capacity.memory - _reserved(kept, "memory")),
        storage=max(0, capacity.storage - _reserved(kept, "ephemeral-storage")),
        pids=max(0, capacity.pids - _reserved(kept, "pid")),
    )


def _reserved(kept: Iterable[Mapping[str, str]], name: str, *, milli: bool = False) -> int:
    found = [quantities.parse(listed[name]) for listed in kept if name in listed]
    return sum(amount.milli if milli else amount.value for amount in found)


def _threshold(text: str, whole: int) -> int:
    if not text:
        return 0
    share = percentage(text)
    return int(whole * share / 100) if share is not None else quantities.parse(text).value


def _storage(path: str) -> int:
    while path not in ("", "/") and not os.path.isdir(path):
        path = os.path.dirname(path)  # the kubelet's directory may not be there yet
    try:
        found = os.statvfs(path or "/")
    except OSError:
        return 0
    return found.f_blocks * found.f_frsize


def _pids(system: str) -> int:
    """Return how many processes there can be: the lower of two limits of the kernel."""
    files = ("pid_max", "threads-max")
    found = [_number(f"{system}/proc/sys/kernel/{name}") for name in files]
    return min((limit for limit in found if limit), default=0)


def _hugepages(system: str) -> dict[str, int]:
    found: dict[str, int] = {}
    above = f"{system}/{_HUGE_PAGES}"
    try:
        names = sorted(os.listdir(above))
    except OSError:
        return found
    for name in names:
        size = name.removeprefix("hugepages-").removesuffix("kB")
        if size.isdigit():
            pages = _number(f"{above}/{name}/nr_hugepages")
            found[page_size(int(size) * 1024)] = pages * int(size) * 1024
    return found


def _number(path: str) -> int:
    text = _text(path).strip()
    return int(text) if text.isdigit() else 0


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""
