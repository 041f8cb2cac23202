"""What is true of this node whatever pod it runs: names, places, sizes, policies."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Site:
    """The node as the pods' configuration needs it."""

    node: str  # its name
    ips: tuple[str, ...]  # its addresses, the primary first; at most one of each family
    root_dir: str  # /var/lib/kubelet
    logs_dir: str  # /var/log/pods
    links_dir: str = "/var/log/containers"  # legacy links to logs (P-154)
    cluster_domain: str = ""
    cluster_dns: tuple[str, ...] = ()
    resolv_conf: str = "/etc/resolv.conf"  # the host's; "": none is used
    cpu_milli: int = 0  # capacity
    memory: int = 0
    swap: int = 0
    allocatable: dict[str, str] = field(default_factory=dict)  # quantities by resource
    labels: dict[str, str] = field(default_factory=dict)  # of the node
    cgroup_root: str = "/"
    cgroup_driver: str = "cgroupfs"  # or systemd
    cgroups_per_qos: bool = True
    unified: bool = False  # cgroup v2
    seccomp_default: bool = False
    cpu_cfs_quota: bool = True
    cpu_cfs_period_us: int = 100_000
    pod_pids_limit: int = -1
    single_process_oom_kill: bool = True
    limited_swap: bool = False
    sysctls: tuple[str, ...] = ()  # allowedUnsafeSysctls
    max_pods: int = 110
    pods_per_core: int = 0

    def pod_dir(self, uid: str) -> str:
        """Where the node keeps what belongs to a pod."""
        return f"{self.root_dir}/pods/{uid}"

    def pod_logs_dir(self, namespace: str, name: str, uid: str) -> str:
        """Where the logs of a pod's containers are (P-153)."""
        return f"{self.logs_dir}/{namespace}_{name}_{uid}"
