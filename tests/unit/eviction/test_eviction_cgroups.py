"""The cgroups of pods: on directories like the kernel's, and on the kernel's own where possible."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import uuid

import pytest

from kubelet.channels.errors import ErrorKind, HandlerError
from kubelet.channels.messages import EnsurePodCgroup, RemovePodCgroup
from kubelet.machine.capacity import Capacity
from procs.eviction import cgrouptree
from procs.eviction.cgrouptree import CgroupError, Hierarchies, Tree
from procs.eviction.podcgroups import PodCgroups

UID = "0b5c1d5e-6a0e-4d0f-9f43-8d0a5f3e2b11"
OTHER = "1b5c1d5e-6a0e-4d0f-9f43-8d0a5f3e2b11"
CAPACITY = Capacity(2000, 1 << 30, pids=1000)
V2_FILES = ("cpu.weight", "cpu.max", "memory.max", "pids.max", "cgroup.procs")


class Process:
    """What the handlers stand on."""

    def __init__(self):
        self.records = []

    def doing(self, _operation, _pod="", **_more):
        return contextlib.nullcontext()

    def record(self, what, text="", pod=""):
        self.records.append((what, text, pod))


class Fake:
    """A tree of cgroup v2 made of plain directories: each new one gets its files."""

    def __init__(self, root, monkeypatch):
        self.root = root
        real = os.mkdir

        def mkdir(path, mode=0o777, **more):
            real(path, mode, **more)
            if str(path).startswith(f"{root}/"):
                self._fill(str(path))

        root.mkdir()
        self._fill(str(root))
        monkeypatch.setattr(os, "mkdir", mkdir)
        self.tree = Tree(Hierarchies(unified=True, mounts={"": str(root)}))

    def _fill(self, path):
        for name in (*V2_FILES, "cgroup.subtree_control"):
            with open(f"{path}/{name}", "w", encoding="ascii"):
                pass
        with open(f"{path}/cgroup.controllers", "w", encoding="ascii") as file:
            file.write("cpu memory pids")

    def read(self, path, file):
        with open(f"{self.root}{path}/{file}", encoding="ascii") as there:
            return there.read()


@pytest.fixture
def fake(tmp_path, monkeypatch):
    return Fake(tmp_path / "cgroup", monkeypatch)


def make(tree):
    return PodCgroups(Process(), tree, lambda: CAPACITY)


def ensure(groups, *requests):
    async def ask():
        return [await groups.ensure(request, None) for request in requests]

    return asyncio.run(ask())


def remove(groups, *requests):
    async def ask():
        return [await groups.remove(request, None) for request in requests]

    return asyncio.run(ask())


def burstable(pod, shares):
    return EnsurePodCgroup(pod, f"/kubepods/burstable/pod{pod}", cpu_shares=shares)


def test_a_pods_cgroup_has_its_limits(fake):
    """P-190, P-194: made with what is above it, and written once."""
    request = EnsurePodCgroup(
        UID, f"/kubepods/pod{UID}", cpu_shares=1024, cpu_quota=50_000, memory=4096, pids=10
    )
    groups = make(fake.tree)
    assert [reply.created for reply in ensure(groups, request, request)] == [True, False]
    values = {name: fake.read(request.path, name) for name in V2_FILES}
    assert values == {
        "cpu.weight": "39",
        "cpu.max": "50000 100000",
        "memory.max": "4096",
        "pids.max": "10",
        "cgroup.procs": "",
    }
    assert groups._process.records == [("cgroup made", request.path, UID)]


def test_groups_above_may_divide_what_they_have(fake):
    """On cgroup v2 a controller is there for a group only if the one above passes it on."""
    ensure(make(fake.tree), burstable(UID, 100))
    for above in ("", "/kubepods", "/kubepods/burstable"):
        assert fake.read(above, "cgroup.subtree_control") == "+pids"  # the last of what was written


def test_all_pods_and_classes_have_theirs(fake):
    """P-195, P-196: kubepods is limited, burstable has the sum, besteffort the least."""
    groups = make(fake.tree)
    ensure(groups, burstable(UID, 1024), burstable(OTHER, 512))
    ensure(groups, EnsurePodCgroup("x", "/kubepods/besteffort/podx"))
    assert fake.read("/kubepods", "memory.max") == str(1 << 30)
    assert fake.read("/kubepods", "pids.max") == "1000"
    assert fake.read("/kubepods", "cpu.weight") == "79"
    assert fake.read("/kubepods/burstable", "cpu.weight") == "59"  # of 1536 shares
    assert fake.read("/kubepods/besteffort", "cpu.weight") == "1"


def test_what_differs_is_written_and_nothing_else(fake):
    """Other limits for the same pod; what somebody has written meanwhile stays where it is."""
    groups = make(fake.tree)
    path = f"/kubepods/pod{UID}"
    ensure(groups, EnsurePodCgroup(UID, path, memory=4096, pids=10))
    with open(f"{fake.root}{path}/pids.max", "w", encoding="ascii") as file:
        file.write("untouched")
    ensure(groups, EnsurePodCgroup(UID, path, memory=8192, pids=10))
    assert fake.read(path, "memory.max") == "8192"
    assert fake.read(path, "pids.max") == "untouched"


def test_a_cgroup_that_vanished_is_made_again(fake):
    """Remembering is no substitute for looking."""
    groups = make(fake.tree)
    request = burstable(UID, 100)
    ensure(groups, request)
    directory = f"{fake.root}{request.path}"
    for name in os.listdir(directory):
        os.unlink(f"{directory}/{name}")
    os.rmdir(directory)
    assert ensure(groups, request)[0].created


def test_a_successor_counts_the_pods_that_it_finds(fake):
    """P-195 after a restart: what a pod was given is in its group."""
    request = burstable(UID, 20_000)
    ensure(make(fake.tree), request)
    before = fake.read("/kubepods/burstable", "cpu.weight")
    successor = make(Tree(Hierarchies(unified=True, mounts={"": str(fake.root)})))
    ensure(successor, EnsurePodCgroup(OTHER, f"/kubepods/burstable/pod{OTHER}"))
    after = fake.read("/kubepods/burstable", "cpu.weight")
    assert abs(int(after) - int(before)) <= 1  # a weight is rounded


def test_what_is_above_is_set_again_each_minute(fake):
    """T-13: others on the node can write there."""
    groups = make(fake.tree)
    ensure(groups, burstable(UID, 1024))
    with open(f"{fake.root}/kubepods/burstable/cpu.weight", "w", encoding="ascii") as file:
        file.write("10000")
    groups.refresh()
    assert fake.read("/kubepods/burstable", "cpu.weight") == "39"


def test_a_file_that_the_kernel_lacks_is_left_out(fake):
    """A controller that is not built in keeps no pod from running."""
    request = EnsurePodCgroup(UID, f"/kubepods/pod{UID}", unified={"memory.odd": "1"})
    assert ensure(make(fake.tree), request)[0].created


@pytest.mark.parametrize("request_", [EnsurePodCgroup(UID, "/kubepods"), RemovePodCgroup(UID, "/")])
def test_a_path_that_is_no_pods_is_refused(fake, request_):
    """The node's own groups are never set or removed as if they were a pod's."""
    groups = make(fake.tree)
    with pytest.raises(HandlerError) as caught:
        (ensure if isinstance(request_, EnsurePodCgroup) else remove)(groups, request_)
    assert caught.value.kind is ErrorKind.BAD_REQUEST


def test_without_cgroups_the_sentence_says_so():
    """Nothing is mounted, or nothing can be written."""
    tree = Tree(Hierarchies(unified=True, mounts={}))
    with pytest.raises(HandlerError, match="no cgroup hierarchy is mounted"):
        ensure(make(tree), burstable(UID, 100))


def test_what_cannot_be_made_is_named(tmp_path):
    """The path and the kernel's word."""
    (tmp_path / "file").write_text("")
    tree = Tree(Hierarchies(unified=True, mounts={"": str(tmp_path / "file")}))
    with pytest.raises(CgroupError, match=r"could not make cgroup .*/kubepods: Not a directory"):
        tree.make("/kubepods")


def test_removing_what_is_not_there_is_done(fake):
    """The request may be repeated."""
    request = RemovePodCgroup(UID, f"/kubepods/pod{UID}")
    assert [reply.killed for reply in remove(make(fake.tree), request, request)] == [0, 0]


# On the kernel's own.


@pytest.fixture
def real():
    """The node's cgroups, with a path of our own in them that goes away again."""
    found = cgrouptree.find()
    name = f"/kubelet-test-{uuid.uuid4().hex[:8]}"
    tree = Tree(found)
    try:
        tree.make(name)
    except CgroupError as err:
        pytest.skip(f"cgroups cannot be made here: {err}")
    yield tree, name
    tree.remove(name)


def test_real_limits_are_in_force(real):
    """P-193, P-194: the kernel has taken the values, in each hierarchy."""
    tree, name = real
    path = f"{name}/pod{UID}"
    request = EnsurePodCgroup(UID, path, 512, cpu_quota=50_000, memory=64 << 20, pids=20)
    groups = make(tree)
    assert [reply.created for reply in ensure(groups, request, request)] == [True, False]
    if tree.unified:
        assert tree.read(path, "cpu", "cpu.weight").strip() == "20"
        assert tree.read(path, "memory", "memory.max").strip() == str(64 << 20)
    else:
        assert tree.read(path, "cpu", "cpu.shares").strip() == "512"
        assert tree.read(path, "cpu", "cpu.cfs_quota_us").strip() == "50000"
        assert tree.read(path, "memory", "memory.limit_in_bytes").strip() == str(64 << 20)
    assert tree.read(path, "pids", "pids.max").strip() == "20"
    ensure(groups, EnsurePodCgroup(UID, path, 512))
    assert tree.read(path, "pids", "pids.max").strip() == "max"


def test_real_processes_are_killed_and_all_is_gone(real):
    """P-34: leftovers get SIGKILL, groups go from the innermost, in every hierarchy."""
    tree, name = real
    path = f"{name}/pod{UID}"
    tree.make(f"{path}/container/inner")
    children = [subprocess.Popen(["sleep", "1000"]) for _ in range(3)]
    try:
        for root in tree._hierarchies.roots:
            for child, group in zip(children, ("", "/container", "/container/inner"), strict=True):
                with open(f"{root}{path}{group}/cgroup.procs", "w", encoding="ascii") as file:
                    file.write(str(child.pid))
        assert remove(make(tree), RemovePodCgroup(UID, path))[0].killed == 3
        assert [child.wait(5) for child in children] == [-9, -9, -9]
        assert not tree.exists(path)
        assert not any(os.path.exists(root + path) for root in tree._hierarchies.roots)
    finally:
        for child in children:
            child.kill()
            child.wait()
