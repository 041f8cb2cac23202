"""From limits to the files of a cgroup, by the facts."""

from __future__ import annotations

import pytest

from kubelet.channels.messages import EnsurePodCgroup
from kubelet.machine import capacity
from kubelet.machine.capacity import Capacity
from procs.eviction.cgroupfiles import (
    Limits,
    Role,
    all_pods_limits,
    burstable_shares,
    parents_of,
    pod_limits,
    problem_with,
    role_of,
    settings,
    shares_in,
)
from procs.eviction.cgrouptree import parse

UID = "0b5c1d5e-6a0e-4d0f-9f43-8d0a5f3e2b11"
SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"


def written(limits, *, unified):
    """The files and values."""
    return {s.file: s.value for s in settings(limits, unified=unified)}


@pytest.mark.parametrize(
    ("limits", "v1", "v2"),
    [
        (Limits(shares=2), {"cpu.shares": "2"}, {"cpu.weight": "1"}),
        (Limits(shares=1024), {"cpu.shares": "1024"}, {"cpu.weight": "39"}),
        (Limits(shares=262_144), {"cpu.shares": "262144"}, {"cpu.weight": "10000"}),
        (
            Limits(quota=50_000),
            {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"},
            {"cpu.max": "50000 100000"},
        ),
        (
            Limits(quota=0, period=10_000),
            {"cpu.cfs_period_us": "10000", "cpu.cfs_quota_us": "-1"},
            {"cpu.max": "max 10000"},
        ),
        (
            Limits(quota=-1),
            {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1"},
            {"cpu.max": "max 100000"},
        ),
        (Limits(memory=4096), {"memory.limit_in_bytes": "4096"}, {"memory.max": "4096"}),
        (Limits(memory=0), {"memory.limit_in_bytes": "-1"}, {"memory.max": "max"}),
        (Limits(pids=100), {"pids.max": "100"}, {"pids.max": "100"}),
        (Limits(pids=0), {"pids.max": "max"}, {"pids.max": "max"}),
        (
            Limits(hugepages={"2MB": 4096, "1GB": 0}),
            {"hugetlb.2MB.limit_in_bytes": "4096", "hugetlb.1GB.limit_in_bytes": "0"},
            {"hugetlb.2MB.max": "4096", "hugetlb.1GB.max": "0"},
        ),
        (Limits(unified={"memory.oom.group": "1"}), {}, {"memory.oom.group": "1"}),
        (Limits(), {}, {}),
    ],
)
def test_what_limits_are_called(limits, v1, v2):
    """P-192, P-193, P-194, P-198: 0 is no limit of its own, None is left as it is."""
    assert written(limits, unified=False) == v1
    assert written(limits, unified=True) == v2


def test_huge_pages_that_a_pod_did_not_ask_for_it_does_not_get():
    """P-194: limits come from requests, for each size that the node has."""
    request = EnsurePodCgroup(UID, f"/kubepods/pod{UID}", hugepages={"2MB": 2 << 20})
    assert pod_limits(request, ("2MB", "1GB")).hugepages == {"2MB": 2 << 20, "1GB": 0}


def test_the_shares_of_a_class_are_what_its_pods_requested():
    """P-195: the least share stands for no request; there is a least and a most."""
    assert burstable_shares([]) == 2
    assert burstable_shares([2, 2]) == 2
    assert burstable_shares([2, 102, 1024]) == 1126
    assert burstable_shares([200_000, 200_000]) == 262_144


def test_all_pods_together_have_what_is_not_reserved():
    """P-196."""
    limits = all_pods_limits(Capacity(3500, 1 << 30, pids=1000, hugepages={"2MB": 0}))
    assert limits == Limits(shares=3584, memory=1 << 30, pids=1000, hugepages={"2MB": 0})


def test_shares_are_read_back():
    """P-192: the weight of cgroup v2 is turned round, up to its rounding."""
    assert shares_in("1024\n", unified=False) == 1024
    assert shares_in("10000\n", unified=True) == 262_144
    assert shares_in("39\n", unified=True) == 998
    assert shares_in("", unified=True) == 0


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("/kubepods", Role.ALL_PODS),
        ("/some/kubepods/burstable", Role.BURSTABLE),
        ("/kubepods/besteffort", Role.BEST_EFFORT),
        ("/kubepods.slice", Role.ALL_PODS),
        ("/kubepods.slice/kubepods-burstable.slice", Role.BURSTABLE),
        ("/a.slice/a-kubepods.slice/a-kubepods-besteffort.slice", Role.BEST_EFFORT),
        (f"/kubepods/pod{UID}", None),
        ("/system.slice", None),
    ],
)
def test_groups_above_pods_are_known_by_name(path, role):
    """P-190, P-191."""
    assert role_of(path) is role


def test_the_groups_above_one():
    """From the outermost."""
    assert parents_of(f"/kubepods/burstable/pod{UID}") == ["/kubepods", "/kubepods/burstable"]
    assert parents_of("/x") == []


@pytest.mark.parametrize(
    ("path", "good"),
    [
        (f"/kubepods/pod{UID}", True),
        (f"/kubepods.slice/kubepods-burstable.slice/{SLICE}", True),
        ("/kubepods", False),
        ("/", False),
        ("", False),
        (f"kubepods/pod{UID}", False),
        (f"/kubepods/../pod{UID}", False),
        (f"/kubepods/pod{UID}/", False),
        ("/kubepods/podother", False),
    ],
)
def test_only_a_pods_own_group_is_touched(path, good):
    """Whatever is below it gets killed in the end."""
    assert (problem_with(path, UID) is None) is good
    assert problem_with("/kubepods", "") is not None


V1 = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
V2 = "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"


def test_hierarchies_are_found_in_the_kernels_list():
    """A mix of both versions is v1; the group of v2 is still the runtime's to leave things in."""
    v1 = parse(V1)
    assert not v1.unified
    assert v1.mounts["cpuacct"] == "/sys/fs/cgroup/cpu,cpuacct"
    assert v1.roots == (
        "/sys/fs/cgroup/cpu,cpuacct",
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/systemd",
    )
    assert v1.others == ("/sys/fs/cgroup/unified",)
    v2 = parse(V2)
    assert v2.unified
    assert v2.roots == ("/sys/fs/cgroup",)
    assert parse("").roots == ()


class Config:
    """A configuration of a few values."""

    def __init__(self, **values):
        self._values = {
            "enforceNodeAllocatable": ["pods"],
            "kubeReserved": {},
            "systemReserved": {},
            "reservedSystemCPUs": "",
            "evictionHard": {},
            "--experimental-allocatable-ignore-eviction": False,
            **values,
        }

    def get(self, name):
        return self._values[name]

    str = bool = get


WHOLE = Capacity(4000, 1000, 10_000, 500)


@pytest.mark.parametrize(
    ("config", "enforced", "offered"),
    [
        ({}, WHOLE, WHOLE),
        (
            {"kubeReserved": {"cpu": "500m", "memory": "100"}, "systemReserved": {"pid": "50"}},
            Capacity(3500, 900, 10_000, 450),
            Capacity(3500, 900, 10_000, 450),
        ),
        (
            {"kubeReserved": {"cpu": "500m"}, "reservedSystemCPUs": "0-1"},
            Capacity(2000, 1000, 10_000, 500),
            Capacity(2000, 1000, 10_000, 500),
        ),
        (
            {"evictionHard": {"memory.available": "100", "nodefs.available": "10%"}},
            WHOLE,
            Capacity(4000, 900, 9000, 500),
        ),
        (
            {"enforceNodeAllocatable": ["none"], "kubeReserved": {"memory": "100"}},
            WHOLE,
            Capacity(4000, 900, 10_000, 500),
        ),
    ],
)
def test_what_is_kept_back(config, enforced, offered):
    """P-196: the enforced limit leaves eviction's reserve to pods; what is offered does not."""
    assert capacity.enforced(WHOLE, Config(**config)) == enforced
    assert capacity.allocatable(WHOLE, Config(**config)) == offered
