"""Facts of the node (N-2, N-16, N-17, N-19) and what containers are set up by."""

from __future__ import annotations

import json
import os

import pytest

from kubelet import config
from kubelet.cluster.rows import CLUSTER, NODE_KEY, NodeRow
from kubelet.pods.runtime import Handler, RuntimeRecord
from kubelet.process.tables import Tables
from kubelet.quantities import parse
from procs.syncloop.configs.policy import MASKED_PATHS, read_policy
from procs.syncloop.gather import NOTHING, Gatherer, NodeTable, gather, heard_in
from shm.codec import pack
from shm.table import Writer
from shm.tables import BY_NAME

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


@pytest.fixture
def load(tmp_path):
    """Load a configuration."""

    def of(text="", *flags):
        path = tmp_path / "config.yaml"
        path.write_text(HEAD + text)
        return config.load(
            [f"--config={path}", "--kubeconfig=/k", f"--root-dir={tmp_path}/root", *flags]
        ).config

    return of


@pytest.fixture
def machine(tmp_path):
    """Another machine: 8 GiB of memory, 1 GiB of swap, two sizes of huge pages, cgroup v1."""
    root = tmp_path / "machine"
    for name, text in {
        "proc/meminfo": "MemTotal:  8388608 kB\nMemFree: 1 kB\nSwapTotal: 1048576 kB\n",
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "512\n",
        "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "1",
        "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 box # own\n192.0.2.99 other\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


def test_configuration(load, machine, tmp_path):
    """Fields and flags end where pods' configurations look for them."""
    text = """
clusterDomain: cluster.local
clusterDNS: [10.96.0.10]
resolvConf: /run/resolv.conf
cgroupRoot: /pods
cgroupDriver: systemd
cpuCFSQuotaPeriod: 50ms
podPidsLimit: 99
seccompDefault: true
maxPods: 20
podsPerCore: 2
allowedUnsafeSysctls: ["net.*"]
podLogsDir: /var/log/mine
"""
    found = gather(load(text, "--node-labels=a=b", "--node-ip=192.0.2.5"), "box", None, machine)
    assert (found.node, found.ips, found.root_dir) == ("box", ("192.0.2.5",), f"{tmp_path}/root")
    assert (found.cluster_domain, found.cluster_dns) == ("cluster.local", ("10.96.0.10",))
    assert (found.resolv_conf, found.logs_dir) == ("/run/resolv.conf", "/var/log/mine")
    assert (found.cgroup_root, found.cgroup_driver) == ("/pods", "systemd")
    assert (found.cpu_cfs_period_us, found.pod_pids_limit) == (50_000, 99)
    assert (found.seccomp_default, found.sysctls) == (True, ("net.*",))
    assert (found.memory, found.swap) == (8 << 30, 1 << 30)
    assert (found.unified, found.single_process_oom_kill, found.limited_swap) == (
        False,
        True,
        False,
    )
    assert found.labels["a"] == "b"
    assert found.labels["kubernetes.io/hostname"] == "box"
    assert found.labels["kubernetes.io/os"] == "linux"
    assert found.allocatable["pods"] == str(min(20, 2 * (os.cpu_count() or 1)))


def test_defaults(load, machine):
    """Without a word the root cgroup, the runtime's driver and, on v2, whole containers."""
    found = gather(load(), "box", RuntimeRecord(cgroup_driver="systemd"), machine)
    assert (found.cgroup_root, found.cgroup_driver) == ("/", "systemd")
    with open(f"{machine}/sys/fs/cgroup/cgroup.controllers", "w", encoding="ascii"):
        pass
    found = gather(load(), "box", None, machine)
    assert (found.unified, found.single_process_oom_kill) == (True, False)
    assert found.cgroup_driver == "cgroupfs"
    assert gather(load("", "--seccomp-default"), "box", None, machine).seccomp_default


@pytest.mark.parametrize(
    ("text", "flags", "memory"),
    [
        ("evictionHard: {}\n", (), 7 << 30),
        ("", (), (7 << 30) - (100 << 20)),
        ("", ("--experimental-allocatable-ignore-eviction",), 7 << 30),
        ("evictionHard: {memory.available: 25%}\n", (), 5 << 30),
        (
            (
                "evictionHard: {memory.available: 1Gi}\nkubeReserved: {memory: 1Gi}\n"
                "systemReserved: {memory: 2Gi}\n"
            ),
            (),
            3 << 30,
        ),
        ("evictionHard: {}\nkubeReserved: {memory: 99Gi}\n", (), 0),
    ],
)
def test_allocatable_memory(load, machine, text, flags, memory):
    """N-17: capacity without what is reserved, the hard threshold, and 1 GiB of huge pages."""
    found = gather(load(text, *flags), "box", None, machine).allocatable
    assert parse(found["memory"]).value == memory


def test_allocatable_rest(load, machine):
    """N-16, N-17: CPUs, huge pages and disk."""
    count = os.cpu_count() or 1
    found = gather(load("kubeReserved: {cpu: 250m}\n"), "box", None, machine).allocatable
    assert parse(found["cpu"]).milli == count * 1000 - 250
    assert (found["hugepages-2Mi"], found["hugepages-1Gi"]) == ("1Gi", "0")
    assert parse(found["ephemeral-storage"]).value > 0
    fixed = load("kubeReserved: {cpu: 250m}\nreservedSystemCPUs: '0'\n")
    found = gather(fixed, "box", None, machine).allocatable
    assert parse(found["cpu"]).milli == (count - 1) * 1000


def test_what_the_api_server_says_of_the_node_counts(load, machine):
    """N-2, N-19: labels and addresses are those of the object; what it offers beside is kept."""
    document = {
        "metadata": {"labels": {"zone": "a", "odd": 5}},
        "status": {
            "addresses": [
                {"type": "Hostname", "address": "box"},
                {"type": "InternalIP", "address": "192.0.2.7"},
                {"type": "InternalIP", "address": "no address"},
                "nonsense",
            ],
            "allocatable": {"example.com/device": "2", "memory": "1Ki"},
        },
    }
    found = gather(load(), "box", None, machine, heard_in(document))
    assert (found.labels, found.ips) == ({"zone": "a"}, ("192.0.2.7",))
    assert found.allocatable["example.com/device"] == "2"
    assert parse(found.allocatable["memory"]).value > 1 << 30


@pytest.mark.parametrize("document", [{}, {"metadata": [], "status": 5}, {"status": {}}])
def test_an_object_that_says_nothing_changes_nothing(load, machine, document):
    """A node that is not registered, or an odd one, is what the machine says."""
    assert heard_in(document) == NOTHING
    assert gather(load(), "box", None, machine, heard_in(document)).labels["kubernetes.io/os"]


def test_the_row_is_read_when_it_changes(tmp_path):
    """What is no row is taken as not there."""
    writer = Writer.attach(tmp_path, BY_NAME[CLUSTER])
    tables = Tables(tmp_path, "syncloop")
    heard = NodeTable(tables)
    assert heard() == NOTHING
    document = json.dumps({"metadata": {"labels": {"a": "b"}}}).encode()
    writer.put(NODE_KEY, pack(NodeRow("box", "1", document).to_wire()))
    assert heard().labels == {"a": "b"}
    assert heard() is heard()
    for odd in (b"\xc1", pack(5), pack(NodeRow("box", "1", b"{").to_wire())):
        writer.put(NODE_KEY, odd)
        assert heard() == NOTHING
    tables.close()
    writer.close()


def test_gatherer(load):
    """The node is looked at again now and then, and when the runtime names its driver."""

    class Cache:
        record = None

        def runtime(self):
            return self.record

    cache = Cache()
    now = [0]
    facts = Gatherer(load(), "box", cache, lambda: now[0])
    first = facts()
    assert first.cgroup_driver == "cgroupfs"
    assert facts() is first
    now[0] = 11 * 10**9
    assert facts() is not first
    assert facts() == first
    assert facts.handler("") is None
    default = Handler("", user_namespaces=True)
    cache.record = RuntimeRecord(cgroup_driver="systemd", handlers=(default, Handler("x")))
    assert facts().cgroup_driver == "systemd"
    assert facts.handler("") is default
    assert facts.handler("y") is None


def test_policy(load, machine):
    """Gates, fields and the kernel make the policy."""
    found = read_policy(load(), machine)
    assert (found.selinux, found.swap_accounting, found.page_sizes) == (
        False,
        False,
        ("2MB", "1GB"),
    )
    assert (found.memory.enabled, found.memory.tiered, found.memory.factor) == (True, False, None)
    assert (found.stop_signals, found.env_files, found.default_sysctls) == (False, True, {})
    assert found.masked_paths == MASKED_PATHS
    for name in ("sys/fs/selinux/enforce", "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"):
        os.makedirs(os.path.dirname(f"{machine}/{name}"), exist_ok=True)
        with open(f"{machine}/{name}", "w", encoding="ascii"):
            pass
    os.makedirs(f"{machine}/sys/devices/system/cpu/cpu1/thermal_throttle")
    text = """
memoryReservationPolicy: TieredReservation
memoryThrottlingFactor: 0.8
featureGates: {ContainerStopSignals: true, DefaultPodSysctls: true}
defaultPodSysctls: {net.x: "1"}
userNamespaces: {idsPerPod: 131072}
"""
    found = read_policy(load(text), machine)
    assert (found.selinux, found.swap_accounting, found.stop_signals) == (True, True, True)
    assert (found.memory.tiered, found.memory.factor, found.ids_per_pod) == (True, 0.8, 131072)
    assert found.default_sysctls == {"net.x": "1"}
    assert found.masked_paths[-1] == "/sys/devices/system/cpu/cpu1/thermal_throttle"
