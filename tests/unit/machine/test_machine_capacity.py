"""What the node has and what is left of it for pods (N-16, N-17)."""

from __future__ import annotations

import os

import pytest

from kubelet import config
from kubelet.machine import capacity
from kubelet.machine.capacity import Capacity

GIB = 1 << 30
CORES = os.sysconf("SC_NPROCESSORS_ONLN")


def of(*flags):
    """A configuration."""
    return config.load(["--kubeconfig=/k", *flags]).config


def test_the_node_is_measured(tmp_path):
    """What the kernel's files say; what is not there is nothing."""
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal:  1024 kB\nMemFree: 1 kB\nSwapTotal: 2 kB\n")
    (tmp_path / "proc/sys/kernel/pid_max").write_text("5000\n")
    (tmp_path / "proc/sys/kernel/threads-max").write_text("4000\n")
    pages = tmp_path / "sys/kernel/mm/hugepages"
    (pages / "hugepages-2048kB").mkdir(parents=True)
    (pages / "hugepages-2048kB/nr_hugepages").write_text("3\n")
    (pages / "odd").mkdir()
    found = capacity.read(str(tmp_path / "none"), str(tmp_path))
    assert (found.memory, found.swap, found.pids) == (1 << 20, 2048, 4000)
    assert found.hugepages == {"2MB": 6 << 20}
    assert found.cpu_milli == CORES * 1000
    assert found.storage > 0


@pytest.mark.parametrize("text", ["", "MemTotal:\n", "MemTotal: much kB\n", "\0\0"])
def test_what_cannot_be_read_is_nothing(tmp_path, text):
    """No file of the kernel, however odd, ends the process."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(text)
    found = capacity.read("/", str(tmp_path))
    assert (found.memory, found.swap, found.pids, found.hugepages) == (0, 0, 0, {})


def test_resources_have_the_names_and_forms_of_the_api():
    """N-16: cores, bytes with a binary suffix, pages by their size."""
    has = Capacity(3500, 8 * GIB, 100 * GIB, 9, {"2MB": 4 << 20, "1GB": 0, "64KB": 1 << 16})
    found = {
        name: str(amount) for name, amount in capacity.amounts(has, of("--max-pods=42")).items()
    }
    assert found == {
        "cpu": "3500m",
        "memory": "8Gi",
        "pods": "42",
        "ephemeral-storage": "100Gi",
        "hugepages-2Mi": "4Mi",
        "hugepages-1Gi": "0",
        "hugepages-64Ki": "64Ki",
    }


@pytest.mark.parametrize(
    ("flags", "pods"),
    [
        ((), 110),
        (("--max-pods=7",), 7),
        (("--pods-per-core=2",), 2 * CORES),
        (("--max-pods=1", "--pods-per-core=2"), 1),
    ],
)
def test_how_many_pods_may_run(flags, pods):
    """N-16: the lower of the two limits."""
    assert str(capacity.amounts(Capacity(), of(*flags))["pods"]) == str(pods)


def test_storage_that_is_not_isolated_is_not_offered():
    """Without isolation of local storage there is no such resource."""
    has = Capacity(storage=GIB)
    assert "ephemeral-storage" not in capacity.amounts(
        has, of("--local-storage-capacity-isolation=false")
    )
    assert "ephemeral-storage" not in capacity.amounts(Capacity(), of())


@pytest.mark.parametrize(
    ("flags", "memory"),
    [
        (("--eviction-hard=memory.available<1Gi",), 7 * GIB),
        (("--eviction-hard=memory.available<25%",), 6 * GIB),
        (("--eviction-hard=memory.available<1Gi", "--system-reserved=memory=2Gi"), 5 * GIB),
        (
            (
                "--eviction-hard=memory.available<1Gi",
                "--experimental-allocatable-ignore-eviction",
            ),
            8 * GIB,
        ),
        (("--kube-reserved=memory=90Gi",), 0),
    ],
)
def test_memory_for_pods(flags, memory):
    """N-17: without what is reserved and the hard threshold, and never below nothing."""
    found = capacity.allocatable(Capacity(memory=8 * GIB), of(*flags))
    assert found.memory == memory


def test_huge_pages_are_memory_that_is_taken():
    """N-17."""
    has = Capacity(memory=8 * GIB, hugepages={"2MB": GIB, "1GB": 2 * GIB})
    found = capacity.allocatable(has, of("--experimental-allocatable-ignore-eviction"))
    assert found.memory == 5 * GIB
    assert found.hugepages == has.hugepages


def test_a_share_is_counted_as_other_kubelets_count_it():
    """N-17: 10 % of this disk, to the byte."""
    disk = 61_255_492 * 1024
    found = capacity.allocatable(Capacity(storage=disk), of())
    assert found.storage == 56_453_061_334
