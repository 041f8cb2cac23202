"""Rules about resources: cgroups, reservations, swap, memory, the resource managers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubelet import quantities
from kubelet.config import names, thresholds
from kubelet.config.rules.base import Fault, Rule, View, rule
from kubelet.config.types import parse_bool

_RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")
# Options of the static CPU manager, with the gate that each needs (M-5).
_CPU_OPTIONS: Final = {
    "full-pcpus-only": "",
    "strict-cpu-reservation": "",
    "prefer-align-cpus-by-uncorecache": "",
    "distribute-cpus-across-numa": "CPUManagerPolicyBetaOptions",
    "align-by-socket": "CPUManagerPolicyAlphaOptions",
    "distribute-cpus-across-cores": "CPUManagerPolicyAlphaOptions",
}
# Pairs of CPU manager options that exclude each other (M-6).
_CPU_CONFLICTS: Final = (
    ("distribute-cpus-across-cores", "full-pcpus-only"),
    ("distribute-cpus-across-cores", "distribute-cpus-across-numa"),
    ("distribute-cpus-across-cores", "prefer-align-cpus-by-uncorecache"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
)


@rule("systemCgroups", "cgroupRoot")
def system_cgroups(view: View) -> Iterator[Fault]:
    """A cgroup for the system needs to know the pods' one."""
    if view["systemCgroups"] and not view["cgroupRoot"]:
        yield "systemCgroups", view["systemCgroups"], "needs cgroupRoot"


@rule("enforceNodeAllocatable", "cgroupsPerQOS", "systemReservedCgroup", "kubeReservedCgroup")
def enforcement(view: View) -> Iterator[Fault]:
    """What is enforced, on which cgroups, and what excludes what."""
    name = "enforceNodeAllocatable"
    keys = view[name]
    for key in sorted({key for key in keys if keys.count(key) > 1}):
        yield name, key, "must be listed only once"
    if "none" in keys:
        if len(set(keys)) > 1:
            yield name, keys, '"none" must stand alone'
        return
    for part in ("system-reserved", "kube-reserved"):
        whole, compressible = part in keys, f"{part}-compressible" in keys
        if whole and compressible:
            yield name, keys, f'"{part}" and "{part}-compressible" exclude each other'
        cgroup = "systemReservedCgroup" if part == "system-reserved" else "kubeReservedCgroup"
        if (whole or compressible) and not view[cgroup]:
            yield cgroup, "", f'must be set when {name} contains "{part}" or its compressible form'
    if keys and not view["cgroupsPerQOS"]:
        yield name, keys, 'must be empty or "none" unless cgroupsPerQOS is true'


def _reserved(view: View, name: str) -> Iterator[Fault]:
    for key, value in view[name].items():
        if key not in _RESERVABLE:
            known = ", ".join(_RESERVABLE)
            yield f"{name}[{key}]", value, f"unknown resource; known are {known}"
        elif quantities.parse(value).nano < 0:
            yield f"{name}[{key}]", value, "must not be negative"


@rule("systemReserved")
def system_reserved(view: View) -> Iterator[Fault]:
    """Known resources, none negative."""
    yield from _reserved(view, "systemReserved")


@rule("kubeReserved")
def kube_reserved(view: View) -> Iterator[Fault]:
    """Known resources, none negative."""
    yield from _reserved(view, "kubeReserved")


@rule("reservedSystemCPUs", "systemReservedCgroup", "kubeReservedCgroup")
def reserved_cpus(view: View) -> Iterator[Fault]:
    """A list of CPUs and reserved cgroups exclude each other."""
    text = view["reservedSystemCPUs"]
    if not text:
        return
    try:
        names.cpus(text)
    except ValueError as err:
        yield "reservedSystemCPUs", text, str(err)
    for cgroup in ("systemReservedCgroup", "kubeReservedCgroup"):
        if view[cgroup]:
            yield "reservedSystemCPUs", text, f"cannot be set together with {cgroup}"


@rule("qosReserved", "featureGates")
def qos_reserved(view: View) -> Iterator[Fault]:
    """Only memory can be kept, by a percentage."""
    chosen = view["qosReserved"]
    if chosen and not view.gate("QOSReserved"):
        yield "qosReserved", chosen, "needs feature gate QOSReserved"
    for key, value in chosen.items():
        share = thresholds.percentage(value)
        if key != "memory":
            yield f"qosReserved[{key}]", value, "unknown resource; only memory can be kept"
        elif share is None or not 0 <= share <= 100 or not share.is_integer():
            yield f"qosReserved[{key}]", value, "must be a whole percentage from 0% to 100%"


@rule("cpuCFSQuotaPeriod", "featureGates")
def quota_period(view: View) -> Iterator[Fault]:
    """Another period than the default needs its gate."""
    value = view["cpuCFSQuotaPeriod"]
    if value != "100ms" and not view.gate("CustomCPUCFSQuotaPeriod"):
        yield "cpuCFSQuotaPeriod", value, "needs feature gate CustomCPUCFSQuotaPeriod"


@rule("memoryThrottlingFactor", "memoryReservationPolicy", "featureGates")
def memory_qos(view: View) -> Iterator[Fault]:
    """Memory QoS settings need their gate."""
    if view.gate("MemoryQoS"):
        return
    factor, policy = view["memoryThrottlingFactor"], view["memoryReservationPolicy"]
    if factor not in (None, 0.9):
        yield "memoryThrottlingFactor", factor, "must be 0.9 or unset without gate MemoryQoS"
    if policy != "None":
        yield "memoryReservationPolicy", policy, "needs feature gate MemoryQoS"


@rule("reservedMemory")
def reserved_memory(view: View) -> Iterator[Fault]:
    """Memory and huge pages, something of each, once for each NUMA node."""
    seen: set[tuple[int, str]] = set()
    for i, entry in enumerate(view["reservedMemory"]):
        where, node = f"reservedMemory[{i}]", entry.get("numaNode", 0)
        if node < 0:
            yield f"{where}.numaNode", node, "must be 0 or greater"
        if not entry["limits"]:
            yield f"{where}.limits", {}, "must name a resource: memory or hugepages-<size>"
        for key, value in entry["limits"].items():
            place = f"{where}.limits[{key}]"
            if key != "memory" and not key.startswith("hugepages-"):
                yield place, value, "unknown resource; must be memory or hugepages-<size>"
            if quantities.parse(value).nano <= 0:
                yield place, value, "must be greater than 0"
            if (node, key) in seen:
                yield place, value, f"must be given only once for NUMA node {node}"
            seen.add((node, key))


@rule("cpuManagerPolicy", "cpuManagerPolicyOptions", "featureGates", "topologyManagerPolicy")
def cpu_manager(view: View) -> Iterator[Fault]:
    """M-5, M-6: options, their gates and conflicts."""
    name = "cpuManagerPolicyOptions"
    on: set[str] = set()
    for key, value in view[name].items():
        gate = _CPU_OPTIONS.get(key)
        if gate is None:
            yield f"{name}[{key}]", value, f"unknown option; known are {', '.join(_CPU_OPTIONS)}"
        elif gate and not view.gate(gate):
            yield f"{name}[{key}]", value, f"needs feature gate {gate}"
        try:
            on |= {key} if parse_bool(value) else set()
        except ValueError as err:
            yield f"{name}[{key}]", value, str(err)
    if view[name] and view["cpuManagerPolicy"] != "static":
        yield name, view[name], 'needs cpuManagerPolicy "static"'
    for one, other in _CPU_CONFLICTS:
        if {one, other} <= on:
            yield name, view[name], f"{one} and {other} exclude each other"
    if "align-by-socket" in on and view["topologyManagerPolicy"] == "single-numa-node":
        yield (
            name,
            view[name],
            'align-by-socket and topologyManagerPolicy "single-numa-node" exclude each other',
        )


@rule("cpuManagerPolicy", "reservedSystemCPUs", "systemReserved", "kubeReserved")
def static_cpus(view: View) -> Iterator[Fault]:
    """M-2: when pods may own CPUs, some must be left over."""
    if view["cpuManagerPolicy"] != "static" or view["reservedSystemCPUs"]:
        return
    kept = [view[name].get("cpu", "0") for name in ("systemReserved", "kubeReserved")]
    if not any(quantities.parse(text).nano > 0 for text in kept):
        allowed = "needs cpu in systemReserved or kubeReserved, or reservedSystemCPUs"
        yield "cpuManagerPolicy", "static", allowed


@rule("topologyManagerPolicyOptions")
def topology_options(view: View) -> Iterator[Fault]:
    """M-21: the two options of the topology manager."""
    name = "topologyManagerPolicyOptions"
    for key, value in view[name].items():
        place = f"{name}[{key}]"
        if key == "prefer-closest-numa-nodes":
            try:
                parse_bool(value)
            except ValueError as err:
                yield place, value, str(err)
        elif key == "max-allowable-numa-nodes":
            if not (value.isascii() and value.isdigit() and len(value) < 10 and int(value) >= 8):
                yield place, value, "must be 8 or greater"
        else:
            known = "prefer-closest-numa-nodes, max-allowable-numa-nodes"
            yield place, value, f"unknown option; known are {known}"


RULES: Final[tuple[Rule, ...]] = (
    system_cgroups,
    enforcement,
    system_reserved,
    kube_reserved,
    reserved_cpus,
    qos_reserved,
    quota_period,
    memory_qos,
    reserved_memory,
    cpu_manager,
    static_cpus,
    topology_options,
)
