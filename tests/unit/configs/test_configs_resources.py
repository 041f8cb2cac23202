"""QoS, sums of resources, cgroup names and values (P-190..P-201)."""

from __future__ import annotations

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.pods import cgroups, priority, qos
from kubelet.pods.cgroups import MemoryQos
from kubelet.pods.resources import hugepages, page_size, parse, pod_limits, pod_requests
from procs.syncloop.configs import linux
from procs.syncloop.configs.policy import Policy
from tests.unit.configs.config_pods import pod, raw, resources, site

BOTH = {"cpu": "1", "memory": "1Gi"}
GI = 1 << 30


def containers(*parts, init=(), **spec):
    """Return a pod with these containers."""
    named = [{"name": f"c{i}", "image": "x", **part} for i, part in enumerate(parts)]
    first = [{"name": f"i{i}", "image": "x", **part} for i, part in enumerate(init)]
    return pod({"containers": named, "initContainers": first, **spec})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (containers({}), "BestEffort"),
        (containers(resources({"cpu": "0"}, {"memory": "0"})), "BestEffort"),
        (containers(resources({"ephemeral-storage": "1Gi"})), "BestEffort"),
        (containers(resources(BOTH, BOTH)), "Guaranteed"),
        (containers(resources({}, BOTH)), "Guaranteed"),  # defaulting makes requests of limits
        (containers(resources(BOTH)), "Burstable"),
        (containers(resources(BOTH, BOTH), {}), "Burstable"),
        (containers(resources(BOTH, BOTH), init=({},)), "Burstable"),
        (containers(resources({"cpu": "1"}, {"cpu": "1"})), "Burstable"),
        (containers({}, resources={"requests": BOTH, "limits": BOTH}), "Guaranteed"),
        (containers(resources(BOTH, BOTH), resources={"requests": {"cpu": "9"}}), "Burstable"),
        (pod(status={"qosClass": "Guaranteed"}), "Guaranteed"),
    ],
)
def test_qos(found, expected):
    """P-201: resources make the class, those of the pod as a whole first; the status wins."""
    assert qos.qos_class(found) == expected


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("found", "cpu", "overhead"),
    [
        (containers(resources({"cpu": "1"}), resources({"cpu": "500m"})), 1500, True),
        (containers(resources({"cpu": "1"}), init=(resources({"cpu": "3"}),)), 3000, True),
        (
            containers(resources({"cpu": "1"}), init=({**SIDECAR, **resources({"cpu": "2"})},)),
            3000,
            True,
        ),
        # An init container runs beside the sidecars before it, not beside those after it.
        (
            containers(
                resources({"cpu": "1"}),
                init=(
                    {**SIDECAR, **resources({"cpu": "1"})},
                    resources({"cpu": "4"}),
                    {**SIDECAR, **resources({"cpu": "1"})},
                ),
            ),
            5000,
            True,
        ),
        (containers(resources({"cpu": "1"}), resources={"requests": {"cpu": "7"}}), 7000, True),
        (containers(resources({"cpu": "1"}), overhead={"cpu": "250m"}), 1250, True),
        (containers(resources({"cpu": "1"}), overhead={"cpu": "250m"}), 1000, False),
    ],
)
def test_pod_requests(found, cpu, overhead):
    """A pod asks for what may run at the same time, plus its overhead."""
    assert pod_requests(found, overhead=overhead)["cpu"].milli == cpu


def test_overhead_raises_only_limits_that_are_there():
    """A pod without a CPU limit does not get one from its overhead."""
    found = pod_limits(
        containers(resources({}, {"memory": "1Gi"}), overhead={"cpu": "1", "memory": "1Gi"})
    )
    assert {name: amount.value for name, amount in found.items()} == {"memory": 2 * GI}


@pytest.mark.parametrize(
    ("class_", "root", "driver", "expected"),
    [
        ("Guaranteed", "/", "cgroupfs", "/kubepods/podu-1"),
        ("Burstable", "/", "cgroupfs", "/kubepods/burstable/podu-1"),
        ("BestEffort", "/own", "cgroupfs", "/own/kubepods/besteffort/podu-1"),
        ("Guaranteed", "/", "systemd", "/kubepods.slice/kubepods-podu_1.slice"),
        (
            "Burstable",
            "/",
            "systemd",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1.slice",
        ),
        (
            "BestEffort",
            "/r-x",
            "systemd",
            "/r_x.slice/r_x-kubepods.slice/r_x-kubepods-besteffort.slice/r_x-kubepods-besteffort-podu_1.slice",
        ),
    ],
)
def test_cgroup_names(class_, root, driver, expected):
    """P-190, P-191: the path of a pod's cgroup in both drivers."""
    found = pod(status={"qosClass": class_})
    assert cgroups.pod_path(found, site(cgroup_root=root, cgroup_driver=driver)) == expected


def test_no_cgroups_of_their_own():
    """Without cgroupsPerQOS no cgroup is named, and the runtime chooses."""
    assert cgroups.pod_path(pod(), site(cgroups_per_qos=False)) == ""


@pytest.mark.parametrize(
    ("milli", "shares"),
    [(0, 2), (1, 2), (2, 2), (3, 3), (100, 102), (1000, 1024), (10**9, 262144)],
)
def test_shares(milli, shares):
    """P-192: shares of CPU, between the kernel's bounds."""
    assert cgroups.cpu_shares(milli) == shares


@pytest.mark.parametrize(
    ("shares", "weight"), [(2, 1), (1024, 39), (262143, 9999), (262144, 10000)]
)
def test_weight(shares, weight):
    """P-192: shares as weight, and back to what gives the same weight."""
    assert cgroups.cpu_weight(shares) == weight
    assert abs(cgroups.cpu_weight(cgroups.shares_of(weight)) - weight) <= 1


@pytest.mark.parametrize(
    ("milli", "quota"), [(0, 0), (1, 1000), (9, 1000), (10, 1000), (20, 2000), (1500, 150000)]
)
def test_quota(milli, quota):
    """P-193: at least a millisecond in each period; nothing is no limit."""
    assert cgroups.cpu_quota(milli, 100_000) == quota


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (containers({}), (2, 0, 0)),
        (containers(resources(BOTH, BOTH)), (1024, 100_000, GI)),
        (containers(resources(BOTH)), (1024, 0, 0)),
        (
            containers(resources(BOTH, {"cpu": "2"}), resources(BOTH, {"cpu": "1"})),
            (2048, 300_000, 0),
        ),
        (containers(resources(BOTH, BOTH), resources(BOTH)), (2048, 0, 0)),
        (containers(resources(BOTH, BOTH), init=(resources(BOTH),)), (1024, 0, 0)),
        (containers(resources(BOTH), resources={"limits": {"cpu": "3"}}), (1024, 300_000, 0)),
    ],
)
def test_pod_values(found, expected):
    """P-194: a Burstable pod is limited only in what all of its containers are limited in."""
    made = cgroups.pod_cgroup(found, site())
    assert (made.cpu_shares, made.cpu_quota, made.memory) == expected


def test_pod_values_by_configuration():
    """P-193, P-194: quota switched off, processes limited, huge pages from requests."""
    found = containers(
        resources({**BOTH, "hugepages-2Mi": "4Mi"}, {**BOTH, "hugepages-2Mi": "4Mi"})
    )
    made = cgroups.pod_cgroup(found, site(cpu_cfs_quota=False, pod_pids_limit=100))
    assert (made.cpu_quota, made.pids, made.hugepages) == (-1, 100, {"2MB": 4 << 20})
    assert cgroups.pod_cgroup(found, site()).pids == 0


@pytest.mark.parametrize(
    ("size", "name"), [(2 << 20, "2MB"), (1 << 30, "1GB"), (64 << 10, "64KB"), (512 << 20, "512MB")]
)
def test_page_sizes(size, name):
    """The kernel's names of huge pages."""
    assert page_size(size) == name
    assert hugepages({f"hugepages-{size}": parse("8")}) == {name: 8}


ON = MemoryQos(enabled=True, tiered=True, factor=0.9)


@pytest.mark.parametrize(
    ("class_", "policy", "expected"),
    [
        ("Guaranteed", ON, {"memory.min": "7", "memory.low": "0"}),
        ("Burstable", ON, {"memory.min": "0", "memory.low": "7"}),
        ("BestEffort", ON, {"memory.min": "0", "memory.low": "0"}),
        ("Guaranteed", MemoryQos(enabled=True), {"memory.min": "0", "memory.low": "0"}),
        ("Guaranteed", MemoryQos(), {}),
    ],
)
def test_memory_protection(class_, policy, expected):
    """P-197: requests are protected under TieredReservation, otherwise protection is taken back."""
    assert cgroups.protection(class_, 7, policy) == expected


@pytest.mark.parametrize(
    ("request_", "limit", "policy", "expected"),
    [
        (GI, 2 * GI, ON, str((GI + int(GI * 0.9)) // 4096 * 4096)),
        (GI, 0, ON, str(int(GI + 9 * GI * 0.9) // 4096 * 4096)),
        (GI, GI, ON, ""),
        (0, 0, ON, ""),
        (GI, 2 * GI, MemoryQos(enabled=True), ""),
        (GI, 2 * GI, MemoryQos(), "max"),
    ],
)
def test_memory_high(request_, limit, policy, expected):
    """P-197: throttled between request and limit, only with a factor; the gate off undoes it."""
    assert cgroups.memory_high(request_, limit, 10 * GI, policy) == expected


@pytest.mark.parametrize(
    ("found", "name", "expected"),
    [
        (containers({}), "c0", 1000),
        (containers(resources(BOTH, BOTH)), "c0", -997),
        (containers(resources({"memory": "4Gi"})), "c0", 750),
        (containers(resources({"cpu": "1"})), "c0", 999),
        (containers(resources({"memory": "16Gi"})), "c0", 3),
        (
            containers(resources({"memory": "4Gi"}), init=({**SIDECAR, **resources(BOTH)},)),
            "i0",
            750,
        ),
        (
            containers(
                resources({"memory": "1Gi"}), init=({**SIDECAR, **resources({"memory": "8Gi"})},)
            ),
            "i0",
            500,
        ),
        # 8 GiB for the pod, 4 asked for by containers: the rest is shared by the two.
        (
            containers(resources({"memory": "4Gi"}), {}, resources={"requests": {"memory": "8Gi"}}),
            "c1",
            875,
        ),
    ],
)
def test_oom_score(found, name, expected):
    """P-199: who asks for much is killed late; a sidecar never before what it serves."""
    among = (*found.spec.init_containers, *found.spec.containers)
    (container,) = [c for c in among if c.name == name]
    assert linux.oom_score(found, container, 16 * GI) == expected


def test_oom_score_of_what_the_node_needs():
    """P-199: a node-critical pod is killed last, whatever it asks for."""
    found = pod({"priorityClassName": "system-node-critical", "priority": 2_000_001_000})
    assert linux.oom_score(found, found.spec.containers[0], GI) == -997


@pytest.mark.parametrize(
    ("found", "critical"),
    [
        (pod(), False),
        (pod({"priority": 1_999_999_999}), False),
        (pod({"priority": 2_000_000_000}), True),
        (pod(meta={"annotations": {"kubernetes.io/config.source": "file"}}), True),
        (pod(meta={"annotations": {"kubernetes.io/config.source": "http"}}), True),
        (pod(meta={"annotations": {"kubernetes.io/config.source": "local"}}), False),
        (pod(meta={"annotations": {"kubernetes.io/config.source": "api"}}), False),
        (pod(meta={"annotations": {"kubernetes.io/config.mirror": "x"}}), True),
    ],
)
def test_critical(found, critical):
    """Static pods, their mirrors and the system's priorities go before all others."""
    assert priority.is_critical(found) is critical


def test_container_resources_v1():
    """P-192, P-193, P-200: shares of the limit where nothing is asked for; no swap on v1."""
    limits = {"resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}}}
    found = raw({"spec": {"containers": [limits]}, "status": {"qosClass": "Guaranteed"}})
    made = linux.container_resources(found, found.spec.containers[0], site())
    assert made == pb.LinuxContainerResources(
        cpu_shares=1536,
        cpu_period=100_000,
        cpu_quota=150_000,
        memory_limit_in_bytes=64 << 20,
        memory_swap_limit_in_bytes=64 << 20,
        oom_score_adj=-997,
    )
    assert (
        linux.container_resources(
            found, found.spec.containers[0], site(), Policy(swap_accounting=False)
        ).memory_swap_limit_in_bytes
        == 0
    )


def test_quota_switched_off():
    """P-193: with cpuCFSQuota false neither quota nor period is sent."""
    found = pod(container=resources({}, {"cpu": "1"}))
    made = linux.container_resources(found, found.spec.containers[0], site(cpu_cfs_quota=False))
    assert (made.cpu_period, made.cpu_quota, made.cpu_shares) == (0, 0, 1024)


@pytest.mark.parametrize(
    ("container", "spec", "limited", "expected"),
    [
        (resources({"memory": "4Gi"}), {}, False, "0"),
        (resources({"memory": "4Gi"}), {}, True, str(2 * GI)),
        (resources({"memory": "4Gi", "cpu": "1"}, {"memory": "4Gi"}), {}, True, "0"),
        (resources({"memory": "4Gi"}), {"priority": 2_000_000_000}, True, "0"),
        (resources({"cpu": "1"}), {}, True, "0"),
        ({}, {}, True, "0"),
    ],
)
def test_swap_v2(container, spec, limited, expected):
    """P-200: swap in proportion to what is asked for, for Burstable and not critical ones."""
    found = pod(spec, container)
    node = site(unified=True, limited_swap=limited, swap=8 * GI)
    made = linux.container_resources(found, found.spec.containers[0], node)
    assert made.unified["memory.swap.max"] == expected


def test_unified_files():
    """P-197, P-198: what goes into files of cgroup v2."""
    found = pod(container=resources({"memory": "1Gi"}, {"memory": "2Gi"}))
    node = site(unified=True, single_process_oom_kill=False)
    made = linux.container_resources(found, found.spec.containers[0], node, Policy(memory=ON))
    assert dict(made.unified) == {
        "memory.oom.group": "1",
        "memory.min": "0",
        "memory.low": str(GI),
        "memory.high": str((GI + int(GI * 0.9)) // 4096 * 4096),
        "memory.swap.max": "0",
    }
    assert not linux.container_resources(found, found.spec.containers[0], site()).unified


def test_hugepages_of_every_size_are_limited():
    """A container that asks for no huge pages gets none of the sizes that the node has."""
    found = pod(
        container=resources({"cpu": "1"}, {"hugepages-2Mi": "4Mi", "cpu": "1", "memory": "1Gi"})
    )
    policy = Policy(page_sizes=("2MB", "1GB"))
    made = linux.container_resources(found, found.spec.containers[0], site(), policy)
    assert {page.page_size: page.limit for page in made.hugepage_limits} == {
        "2MB": 4 << 20,
        "1GB": 0,
    }


def test_sandbox_resources():
    """P-162: the sum without overhead, and the overhead apart."""
    found = containers(
        resources(BOTH, BOTH), resources(BOTH, BOTH), overhead={"cpu": "500m", "memory": "1Gi"}
    )
    made = linux.sandbox_resources(found, site())
    assert (made.cpu_shares, made.cpu_quota) == (2048, 200_000)
    assert made.memory_limit_in_bytes == 2 * GI
    extra = linux.overhead(found, site())
    assert (extra.cpu_shares, extra.cpu_quota) == (512, 50_000)
    assert linux.overhead(pod(), site()) == pb.LinuxContainerResources()
