"""What is true of this node, from its configuration, the kernel, the runtime and its object.

What the API server says of the node's labels and addresses counts where it says something: they
are what pods were scheduled by. Nothing here waits for the network: a name server that does not
answer must not stop pods.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kubelet import logging as klog
from kubelet.cluster.rows import CLUSTER, NODE_KEY, NodeRow
from kubelet.config.effective import Effective
from kubelet.machine import addresses, capacity, identity
from kubelet.pods.cache import RuntimeCache
from kubelet.pods.runtime import Handler, RuntimeRecord
from kubelet.pods.wire import BadRecordError
from kubelet.process.tables import Tables
from kubelet.startup import Cgroups, cgroup_version
from procs.syncloop.configs.policy import Policy, read_policy
from procs.syncloop.site import Site
from shm.codec import DecodeError, unpack

log = klog.get_logger(__name__)

_REFRESH_NS: Final = 10 * 10**9  # as often as a node's status is computed (T-4)


@dataclass(frozen=True, slots=True)
class Heard:
    """What the API server says of this node; nothing while it has said nothing."""

    labels: dict[str, str] = field(default_factory=dict)
    ips: tuple[str, ...] = ()
    allocatable: dict[str, str] = field(default_factory=dict)


NOTHING: Final = Heard()


class NodeTable:
    """The node's object, as ``node`` wrote it to table ``cluster``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._payload = b""
        self._heard = NOTHING

    def __call__(self) -> Heard:
        """Return what was heard last."""
        entry = self._tables.get(CLUSTER, NODE_KEY)
        payload = entry.payload if entry is not None else b""
        if payload != self._payload:
            self._payload = payload
            self._heard = _heard(payload)
        return self._heard


def _heard(payload: bytes) -> Heard:
    try:
        row = NodeRow.from_wire(unpack(payload)) if payload else None
        found = json.loads(row.document) if row is not None and row.document else {}
    except (BadRecordError, DecodeError, ValueError) as err:
        log.error("The node's object cannot be read, taken as not there", err=err)
        return NOTHING
    return heard_in(found) if isinstance(found, dict) else NOTHING


def heard_in(document: Mapping[str, Any]) -> Heard:
    """Return what matters here of a node's object, whatever else is in it."""
    metadata, status = _map(document.get("metadata")), _map(document.get("status"))
    listed = status.get("addresses")
    found = [_map(one) for one in listed] if isinstance(listed, list) else []
    ips = [one.get("address") for one in found if one.get("type") == addresses.INTERNAL_IP]
    return Heard(
        labels=_texts(metadata.get("labels")),
        ips=tuple(ip for ip in ips if isinstance(ip, str) and addresses.family_of(ip)),
        allocatable=_texts(status.get("allocatable")),
    )


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> dict[str, str]:
    return {key: text for key, text in _map(value).items() if isinstance(text, str)}


class Gatherer:
    """The facts of the node at any moment.

    They are looked up anew now and then, when the runtime names its driver, and when the node's
    object is another.
    """

    def __init__(
        self,
        config: Effective,
        node: str,
        cache: RuntimeCache,
        clock: Callable[[], int] = time.monotonic_ns,
        heard: Callable[[], Heard] = lambda: NOTHING,
    ) -> None:
        self._config = config
        self._node = node
        self._cache = cache
        self._clock = clock
        self._heard = heard
        self._policy = read_policy(config)
        self._known: tuple[tuple[str, Heard], int, Site] | None = None

    def __call__(self) -> Site:
        """Return the facts of the node."""
        runtime = self._cache.runtime()
        said = (runtime.cgroup_driver if runtime is not None else "", self._heard())
        now = self._clock()
        if self._known is None or self._known[0] != said or now - self._known[1] > _REFRESH_NS:
            site = gather(self._config, self._node, runtime, heard=said[1])
            self._known = (said, now, site)
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
    config: Effective,
    node: str,
    runtime: RuntimeRecord | None = None,
    root: str = "/",
    heard: Heard = NOTHING,
) -> Site:
    """Return the facts of the node; ``root`` is another machine's in tests."""
    has = capacity.read(config.str("--root-dir"), root)
    offered = capacity.amounts(capacity.allocatable(has, config), config)
    unified = cgroup_version(Path(root)) is Cgroups.V2
    single = config.get("singleProcessOOMKill")
    driver = runtime.cgroup_driver if runtime is not None else ""
    return Site(
        node=node,
        ips=heard.ips or addresses.node_ips(config.str("--node-ip"), node, root),
        root_dir=config.str("--root-dir"),
        logs_dir=config.str("podLogsDir").rstrip("/"),
        cluster_domain=config.str("clusterDomain"),
        cluster_dns=tuple(config.get("clusterDNS")),
        resolv_conf=config.str("resolvConf"),
        cpu_milli=has.cpu_milli,
        memory=has.memory,
        swap=has.swap,
        # What others offer on this node, such as devices, only its object knows.
        allocatable=heard.allocatable | {name: str(amount) for name, amount in offered.items()},
        labels=heard.labels or identity.labels(config, node),
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
