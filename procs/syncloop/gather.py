"""What is true of this node, from its configuration, the kernel and the runtime.

Nothing here waits for the network: a name server that does not answer must not stop pods.
"""

from __future__ import annotations

import ipaddress
import os
import platform
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kubelet import quantities
from kubelet.config.effective import Effective
from kubelet.config.names import cpus
from kubelet.config.thresholds import percentage
from kubelet.pods.cache import RuntimeCache
from kubelet.pods.resources import CPU, HUGEPAGES, MEMORY, STORAGE, Amounts
from kubelet.pods.runtime import Handler, RuntimeRecord
from kubelet.quantities import Format, Quantity
from kubelet.startup import Cgroups, cgroup_version
from procs.syncloop.configs.policy import Policy, read_policy
from procs.syncloop.site import Site

_REFRESH_NS: Final = 10 * 10**9  # as often as a node's status is computed (T-4)
_HUGEPAGES: Final = "sys/kernel/mm/hugepages"
# Addresses that are reserved for documents: nothing is ever sent to them, the kernel is only
# asked which of the node's addresses it would send from.
_ELSEWHERE: Final = {socket.AF_INET: "203.0.113.1", socket.AF_INET6: "2001:db8::1"}
_FAMILY: Final = {4: socket.AF_INET, 6: socket.AF_INET6}
_LOOPBACK: Final = "127.0.0.1"
_ARCHITECTURES: Final = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "i686": "386",
    "ppc64le": "ppc64le",
    "riscv64": "riscv64",
    "s390x": "s390x",
}

# Returns the address that the node would send from, of a family; "": there is no way out.
Route = Callable[[int], str]


class Gatherer:
    """The facts of the node at any moment: looked up anew now and then, or if the runtime asks."""

    def __init__(
        self,
        config: Effective,
        node: str,
        cache: RuntimeCache,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._config = config
        self._node = node
        self._cache = cache
        self._clock = clock
        self._policy = read_policy(config)
        self._known: tuple[str, int, Site] | None = None

    def __call__(self) -> Site:
        """Return the facts of the node."""
        runtime = self._cache.runtime()
        driver = runtime.cgroup_driver if runtime is not None else ""
        now = self._clock()
        if self._known is None or self._known[0] != driver or now - self._known[1] > _REFRESH_NS:
            self._known = (driver, now, gather(self._config, self._node, runtime))
        return self._known[2]

    @property
    def policy(self) -> Policy:
        """How containers are set up here."""
        return self._policy

    def handler(self, name: str) -> Handler | None:
        """Return what is known of a runtime handler; None: nothing, or there is no such one."""
        runtime = self._cache.runtime()
        known = runtime.handlers if runtime is not None else ()
        return next((handler for handler in known if handler.name == name), None)


def gather(
    config: Effective, node: str, runtime: RuntimeRecord | None = None, root: str = "/"
) -> Site:
    """Return the facts of the node; ``root`` is another machine's in tests."""
    sizes = read_memory(root)
    capacity = read_capacity(config, sizes, root)
    unified = cgroup_version(Path(root)) is Cgroups.V2
    single = config.get("singleProcessOOMKill")
    driver = runtime.cgroup_driver if runtime is not None else ""
    return Site(
        node=node,
        ips=node_ips(config.str("--node-ip"), node, root),
        root_dir=config.str("--root-dir"),
        logs_dir=config.str("podLogsDir").rstrip("/"),
        cluster_domain=config.str("clusterDomain"),
        cluster_dns=tuple(config.get("clusterDNS")),
        resolv_conf=config.str("resolvConf"),
        cpu_milli=capacity[CPU].milli,
        memory=sizes.memory,
        swap=sizes.swap,
        allocatable={n: str(q) for n, q in allocatable(config, capacity).items()},
        labels=labels(config, node),
        cgroup_root=config.str("cgroupRoot") or "/",
        cgroup_driver=driver or config.str("cgroupDriver"),
        cgroups_per_qos=config.bool("cgroupsPerQOS"),
        unified=unified,
        seccomp_default=config.bool("seccompDefault") or config.bool("--seccomp-default"),
        cpu_cfs_quota=config.bool("cpuCFSQuota"),
        cpu_cfs_period_us=round(config.duration("cpuCFSQuotaPeriod") * 1e6),
        pod_pids_limit=config.int("podPidsLimit"),
        single_process_oom_kill=not unified if single is None else single,
        limited_swap=config.str("memorySwap.swapBehavior") == "LimitedSwap",
        sysctls=tuple(config.get("allowedUnsafeSysctls")),
        max_pods=config.int("maxPods"),
        pods_per_core=config.int("podsPerCore"),
    )


def labels(config: Effective, node: str) -> dict[str, str]:
    """Return the labels of the node (N-2)."""
    machine = platform.machine()
    architecture = _ARCHITECTURES.get(machine, machine)
    own: dict[str, str] = config.flag("node-labels")
    return {
        "kubernetes.io/hostname": node,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": architecture,
    } | own


# --- sizes -------------------------------------------------------------------------------------


class Memory(NamedTuple):
    """The node's memory and swap, in bytes."""

    memory: int
    swap: int


def read_memory(root: str = "/") -> Memory:
    """Read how much memory and swap the node has."""
    with open(os.path.join(root, "proc/meminfo"), encoding="ascii", errors="replace") as file:
        found = {line.partition(":")[0]: line.split() for line in file}
    return Memory(*(int(found[name][1]) * 1024 for name in ("MemTotal", "SwapTotal")))


def read_capacity(config: Effective, sizes: Memory, root: str = "/") -> Amounts:
    """Return what the node has (N-16)."""
    count = os.cpu_count() or 1
    pods, per_core = config.int("maxPods"), config.int("podsPerCore")
    found = {
        CPU: Quantity.of(count),
        MEMORY: Quantity.of(sizes.memory, Format.BINARY),
        "pods": Quantity.of(min(pods, per_core * count) if per_core else pods),
    }
    disk = _disk(config.str("--root-dir"))
    if disk:
        found[STORAGE] = Quantity.of(disk, Format.BINARY)
    return found | _huge(root)


def allocatable(config: Effective, capacity: Amounts) -> Amounts:
    """Return what pods may have of it (N-17): never less than nothing."""
    zero = Quantity(0)
    kept = _reserved(config)
    if not config.bool("--experimental-allocatable-ignore-eviction"):
        for name, signal in ((MEMORY, "memory.available"), (STORAGE, "nodefs.available")):
            limit = _threshold(config.get("evictionHard").get(signal, ""), capacity.get(name, zero))
            kept[name] = kept.get(name, zero) + limit
    for name, amount in capacity.items():
        if name.startswith(HUGEPAGES):
            kept[MEMORY] = kept.get(MEMORY, zero) + amount
    return {n: max(Quantity(0, q.format), q - kept.get(n, zero)) for n, q in capacity.items()}


def _reserved(config: Effective) -> Amounts:
    """Return what is kept from pods; CPUs that are kept by number count instead of amounts."""
    found: Amounts = {}
    for reserved in ("kubeReserved", "systemReserved"):
        part: Mapping[str, str] = config.get(reserved)
        for name, text in part.items():
            found[name] = found.get(name, Quantity(0)) + quantities.parse(text)
    fixed = cpus(config.str("reservedSystemCPUs"))
    if fixed:
        found[CPU] = Quantity.of(len(fixed))
    return found


def _threshold(text: str, capacity: Quantity) -> Quantity:
    share = percentage(text)
    if share is not None:
        return Quantity.of(int(capacity.value * share / 100), capacity.format)
    return quantities.parse(text) if text else Quantity(0)


def _disk(directory: str) -> int:
    """Return the size of the file system that a directory is, or will be, on."""
    while not os.path.isdir(directory) and directory not in ("", "/"):
        directory = os.path.dirname(directory)
    try:
        found = os.statvfs(directory or "/")
    except OSError:
        return 0
    return found.f_blocks * found.f_frsize


def _huge(root: str) -> Amounts:
    found: Amounts = {}
    top = os.path.join(root, _HUGEPAGES)
    for name in sorted(os.listdir(top)) if os.path.isdir(top) else ():
        size = int(name.removeprefix("hugepages-").removesuffix("kB")) * 1024
        with open(f"{top}/{name}/nr_hugepages", encoding="ascii") as file:
            count = int(file.read())
        shown = Quantity.of(size, Format.BINARY)
        found[f"{HUGEPAGES}{shown}"] = Quantity.of(size * count, Format.BINARY)
    return found


# --- addresses ---------------------------------------------------------------------------------


def node_ips(
    wanted: str, node: str, root: str = "/", route: Route | None = None
) -> tuple[str, ...]:
    """Return the node's addresses (N-19), the primary first.

    Those that are configured; or else what the node's name is, or is in the hosts file; or else
    that of the way out. ``0.0.0.0`` and ``::`` ask for one of their family.
    """
    route = route or source_address
    given = [ipaddress.ip_address(text.strip()) for text in wanted.split(",") if text.strip()]
    named = [str(ip) for ip in given if not ip.is_unspecified]
    if named:
        return tuple(named)
    families = [_FAMILY[ip.version] for ip in given] or [socket.AF_INET, socket.AF_INET6]
    for family in families:
        found = _by_name(node, family, root) or route(family)
        if found:
            return (found,)
    return (_LOOPBACK,)


def source_address(family: int) -> str:
    """Return the address of the default route's interface; nothing is sent for it."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_ELSEWHERE[socket.AddressFamily(family)], 9))
            address: str = probe.getsockname()[0]
    except OSError:
        return ""
    return address if _usable(address, family) else ""


def _by_name(node: str, family: int, root: str) -> str:
    """Return an address of this machine that the node's name stands for in the hosts file."""
    candidates = [node]
    try:
        with open(os.path.join(root, "etc/hosts"), encoding="utf-8", errors="replace") as file:
            lines = [line.partition("#")[0].split() for line in file]
    except OSError:
        lines = []
    candidates += [words[0] for words in lines if node in words[1:]]
    return next((c for c in candidates if _usable(c, family) and _local(c, family)), "")


def _usable(text: str, family: int) -> bool:
    """Whether others can reach the node at an address (N-20)."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return False
    odd = ip.is_loopback or ip.is_multicast or ip.is_link_local or ip.is_unspecified
    return _FAMILY[ip.version] == family and not odd


def _local(address: str, family: int) -> bool:
    """Whether an address is one of this machine's: only then can a socket be bound to it."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
