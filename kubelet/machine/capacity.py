"""What the node has, what is kept back, and what is left for pods (N-16, N-17, P-196)."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kubelet import quantities
from kubelet.config import Effective
from kubelet.config.names import cpus
from kubelet.config.thresholds import percentage
from kubelet.machine import files
from kubelet.pods.resources import CPU, HUGEPAGES, MEMORY, STORAGE, Amounts, page_size
from kubelet.quantities import Format, Quantity

PODS: Final = "pods"
_HUGE_PAGES: Final = "sys/kernel/mm/hugepages"
_SUFFIXES: Final = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_NANO_IN_MILLI: Final = 10**6


@dataclass(frozen=True, slots=True)
class Capacity:
    """Amounts of the node's resources."""

    cpu_milli: int = 0
    memory: int = 0
    storage: int = 0  # of the file system with the kubelet's directory
    pids: int = 0
    hugepages: dict[str, int] = field(default_factory=dict)  # size ("2MB") -> bytes
    swap: int = 0


def read(root_dir: str, root: str = "/") -> Capacity:
    """Return what this node has; what cannot be read counts as nothing."""
    meminfo = files.text(root, "proc/meminfo")
    return Capacity(
        cpu_milli=os.sysconf("SC_NPROCESSORS_ONLN") * 1000,
        memory=memory_in(meminfo, "MemTotal"),
        storage=_storage(root_dir),
        pids=_pids(root),
        hugepages=_hugepages(root),
        swap=memory_in(meminfo, "SwapTotal"),
    )


def memory_in(meminfo: str, wanted: str) -> int:
    """Return the bytes that the kernel's file gives for a name; 0 if it does not."""
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if name == wanted and words and words[0].isdigit():
            return int(words[0]) * 1024
    return 0


def enforced(capacity: Capacity, config: Effective) -> Capacity:
    """Return what all pods together may use (P-196): eviction's reserve is theirs too."""
    enforcing = "pods" in config.get("enforceNodeAllocatable")
    return _unreserved(capacity, config) if enforcing else capacity


def allocatable(capacity: Capacity, config: Effective) -> Capacity:
    """Return what the node offers to pods (N-17): never less than nothing.

    What is not kept back, without eviction's reserve; huge pages are memory that is taken.
    """
    left = _unreserved(capacity, config)
    hard: Mapping[str, str] = config.get("evictionHard")
    if config.bool("--experimental-allocatable-ignore-eviction"):
        hard = {}
    memory = _threshold(hard.get("memory.available", ""), capacity.memory)
    memory += sum(capacity.hugepages.values())
    storage = _threshold(hard.get("nodefs.available", ""), capacity.storage)
    return replace(
        left, memory=max(0, left.memory - memory), storage=max(0, left.storage - storage)
    )


def amounts(capacity: Capacity, config: Effective) -> Amounts:
    """Return the resources as the node's object names and writes them (N-16)."""
    found = {
        CPU: Quantity(capacity.cpu_milli * _NANO_IN_MILLI),
        MEMORY: Quantity.of(capacity.memory, Format.BINARY),
        PODS: Quantity.of(pod_limit(config)),
    }
    if capacity.storage and config.bool("localStorageCapacityIsolation"):
        found[STORAGE] = Quantity.of(capacity.storage, Format.BINARY)
    for name, size in capacity.hugepages.items():
        shown = Quantity.of(_page_bytes(name), Format.BINARY)
        found[f"{HUGEPAGES}{shown}"] = Quantity.of(size, Format.BINARY)
    return found


def pod_limit(config: Effective) -> int:
    """Return how many pods may run here."""
    most, per_core = config.int("maxPods"), config.int("podsPerCore")
    return min(most, per_core * os.sysconf("SC_NPROCESSORS_ONLN")) if per_core else most


def _unreserved(capacity: Capacity, config: Effective) -> Capacity:
    kept = (config.get("kubeReserved"), config.get("systemReserved"))
    cpu = _reserved(kept, CPU, milli=True)
    listed = config.str("reservedSystemCPUs")
    if listed:  # it names the CPUs, and so how many
        cpu = len(cpus(listed)) * 1000
    return replace(
        capacity,
        cpu_milli=max(0, capacity.cpu_milli - cpu),
        memory=max(0, capacity.memory - _reserved(kept, MEMORY)),
        storage=max(0, capacity.storage - _reserved(kept, STORAGE)),
        pids=max(0, capacity.pids - _reserved(kept, "pid")),
    )


def _reserved(kept: Iterable[Mapping[str, str]], name: str, *, milli: bool = False) -> int:
    found = [quantities.parse(listed[name]) for listed in kept if name in listed]
    return sum(amount.milli if milli else amount.value for amount in found)


def _threshold(text: str, whole: int) -> int:
    if not text:
        return 0
    share = percentage(text)
    return int(whole * _single(share / 100)) if share is not None else quantities.parse(text).value


def _single(value: float) -> float:
    """Return the number as a 32-bit float holds it: other kubelets' bytes come out of one."""
    (found,) = struct.unpack("f", struct.pack("f", value))
    return float(found)


def _storage(path: str) -> int:
    while path not in ("", "/") and not os.path.isdir(path):
        path = os.path.dirname(path)  # the kubelet's directory may not be there yet
    try:
        found = os.statvfs(path or "/")
    except OSError:
        return 0
    return found.f_blocks * found.f_frsize


def _pids(root: str) -> int:
    """Return how many processes there can be: the lower of two limits of the kernel."""
    limits = [files.number(root, f"proc/sys/kernel/{name}") for name in ("pid_max", "threads-max")]
    return min((limit for limit in limits if limit), default=0)


def _hugepages(root: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in files.names(root, _HUGE_PAGES):
        size = name.removeprefix("hugepages-").removesuffix("kB")
        if size.isdigit():
            pages = files.number(root, f"{_HUGE_PAGES}/{name}/nr_hugepages")
            found[page_size(int(size) * 1024)] = pages * int(size) * 1024
    return found


def _page_bytes(name: str) -> int:
    """Return the bytes of a page by the kernel's name for its size."""
    unit = _SUFFIXES.get(name[-2:])
    return int(name[:-2]) * unit if unit else int(name.removesuffix("B"))
