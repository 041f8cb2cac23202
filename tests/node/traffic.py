"""Pods that come and go while something else happens, and what must be true of them afterwards."""

from __future__ import annotations

import random
from pathlib import Path

from kubelet.cri import api_pb2
from kubelet.cri.api_pb2_grpc import RuntimeServiceStub
from tests.node.pod_node import NODE_NAME, SECONDS, PodNode
from tests.node.test_pods_deaths import Diary, held
from tests.processes.node import wait_for

PODS = 4  # that come and go at a time


class Traffic:
    """Pods of which each writes how often it was started and ended."""

    def __init__(self, node: PodNode) -> None:
        self.node = node
        self.diary = Diary(node.disk / "diary")
        self.chance = random.Random(7)
        self.steady = ("s0", "s1")
        self.wanted: set[str] = set()
        self.gone: dict[str, str] = {}  # short name -> uid
        self.kept: dict[str, tuple[str, int]] = {}
        self.made = 0

    def begin(self) -> None:
        """Have the pods that run all the time."""
        for name in self.steady:
            self.node.write(self.diary.pod(name, hooks=False))
        for name in self.steady:
            self.node.await_ready(full(name))
        self.kept = {name: self.identity(name) for name in self.steady}

    def identity(self, name: str) -> tuple[str, int]:
        """Which container a pod has, and its process."""
        return self.node.container(full(name))["containerID"], self.node.pid_of(full(name))

    def add(self) -> str:
        """One pod more."""
        name = f"t{self.made}"
        self.made += 1
        self.wanted.add(name)
        self.node.write(self.diary.pod(name, hooks=False))
        return name

    def drop(self, name: str) -> None:
        """One pod less, whatever it is at."""
        known = self.node.pods().get(full(name))
        self.gone[name] = known.uid if known is not None else ""
        self.node.remove(name)
        self.wanted.discard(name)

    def move(self) -> None:
        """Have some pods come and some go."""
        while len(self.wanted) < PODS:
            self.add()
        for name in self.chance.sample(sorted(self.wanted), self.chance.randint(0, 2)):
            self.drop(name)

    def check(self) -> None:
        """Wait for what is wanted: each started once, the others gone whole, none disturbed."""
        node = self.node
        names = {full(name) for name in (*self.wanted, *self.steady)}
        for name in sorted(names):
            status = node.await_ready(name)
            assert status["containerStatuses"][0]["restartCount"] == 0, name
        wait_for("the others are gone", lambda: set(node.pods()) == names, SECONDS)
        node.await_settled()
        found, _ = held(node.containerd)
        assert set(found) == names
        assert all(len(ids) == 1 for ids in found.values()), found
        assert ready_sandboxes(node) == sorted(names)  # dead ones of theirs wait for the collector
        for name in (*self.wanted, *self.steady):
            assert self.diary.lines(name) == ["start"], (name, self.diary.lines(name))
        for name, uid in self.gone.items():
            assert self.diary.lines(name).count("start") <= 1, name
            if uid:  # logs of which no table knows are collected each minute
                wait_for(f"{name} is gone whole", lambda u=uid: traces(node, u) == [], 90)
        assert self.kept == {name: self.identity(name) for name in self.steady}


def full(name: str) -> str:
    """The name of a static pod."""
    return f"{name}-{NODE_NAME}"


def ready_sandboxes(node: PodNode) -> list[str]:
    """The pods of all sandboxes that are ready."""
    with node.containerd.channel() as channel:
        request = api_pb2.ListPodSandboxRequest()
        found = RuntimeServiceStub(channel).ListPodSandbox(request).items
    return sorted(s.metadata.name for s in found if s.state == api_pb2.SANDBOX_READY)


def traces(node: PodNode, uid: str) -> list[str]:
    """What there is of a pod on the node: its directory, logs, mounts and cgroups."""
    places = [node.root_dir / "pods" / uid, *node.logs.glob(f"*_{uid}")]
    groups = Path("/sys/fs/cgroup") / node.containerd.cgroup_parent.lstrip("/")
    found = [str(path) for path in places if path.exists()]
    found += [str(p) for p in groups.rglob("*") if uid in p.name or uid.replace("-", "_") in p.name]
    return found
