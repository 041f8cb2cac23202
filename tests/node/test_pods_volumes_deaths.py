"""Volumes dies at every step of mounting and unmounting, and at random: nothing is lost or left."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.node.containerd import Containerd
from tests.node.dying_volumes import ORDER, PROGRAM
from tests.node.pod_node import SECONDS, SLEEP, Document, PodNode, pod, pod_node, sh
from tests.node.traffic import full, traces
from tests.processes.conftest import run_root
from tests.processes.node import wait_for

__all__ = ["run_root"]

KILLS = int(os.environ.get("KUBELET_VOLUMES_KILLS", "40"))
PODS = int(os.environ.get("KUBELET_VOLUMES_PODS", "6"))
EARLY = 0.2  # the chance that a pod goes whatever it is at
STRIDE = int(os.environ.get("KUBELET_VOLUMES_STRIDE", "3"))  # 1: every step

REPEATED = re.compile(r"([2-9]|\d\d+) (row (put|told|delete)|os\.mkdir volume-subpaths)")

# Some of the steps that there are, so that what is not seen any more is missed.
STARTING = {
    "row put",
    "row told",
    "os.mkdir volumes",
    "os.mkdir volumes/kubernetes.io~empty-dir/d",
    "mount volumes/kubernetes.io~empty-dir/m",
    "mount volumes/kubernetes.io~downward-api/w",
    "open plugins/kubernetes.io~empty-dir/m/ready",
    "os.mkdir volumes/kubernetes.io~downward-api/w/..stamp",
    "open volumes/kubernetes.io~downward-api/w/..stamp/name",
    "os.rename volumes/kubernetes.io~downward-api/w/..data",
    "os.rename volumes/kubernetes.io~projected/p/deep",
    "os.mkdir volume-subpaths/d/c/0",
    "bind volume-subpaths/d/c/0",
    "bind volume-subpaths/h/c/1",
}
STOPPING = {
    "row put",
    "row told",
    "row delete",
    "unmount volume-subpaths/d/c/0",
    "unmount volumes/kubernetes.io~empty-dir/m",
    "unmount volumes/kubernetes.io~projected/p",
    "os.remove *",
    "os.rmdir volumes/kubernetes.io~empty-dir/d",
    "os.rmdir volumes",
}


@dataclass(slots=True)
class Made:
    """A pod that was wanted."""

    name: str
    uid: str = ""
    ran: bool = False  # when it was last looked at


@dataclass(slots=True)
class Household:
    """Pods with every kind of volume that a manifest may have, and what they keep in them."""

    node: PodNode
    directory: Path = field(init=False)
    wanted: dict[str, Made] = field(default_factory=dict)
    gone: list[Made] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory = self.node.disk / "host"
        self.directory.mkdir()

    def add(self, name: str) -> str:
        """Want one pod more."""
        self.wanted[name] = Made(name)
        return self.node.write(self._pod(name))

    def drop(self, name: str) -> None:
        """Want it no more, whatever it is at."""
        made = self.wanted.pop(name)
        known = self.node.pods().get(full(name))
        made.uid = known.uid if known is not None else ""
        made.ran = bool(self.lines(name))
        self.gone.append(made)
        self.node.remove(name)

    def lines(self, name: str) -> list[str]:
        """What the containers of a pod wrote into their directory of the host."""
        path = self.directory / name / "diary"
        return path.read_text().split() if path.exists() else []

    def _pod(self, name: str) -> Document:
        """It reads what was written for it, writes into all of the rest, and notes its start."""
        script = (
            f'test "$(cat /w/name)" = {full(name)} && test "$(cat /p/deep/name)" = {full(name)}'
            " && echo start >> /h/diary || echo bad >> /h/diary; "
            f"for v in d m part hpart; do echo {name} > /$v/kept; done; echo all; {SLEEP}"
        )
        mounts = [
            {"name": "d", "mountPath": "/part", "subPath": "a/b"},
            {"name": "h", "mountPath": "/hpart", "subPath": "x"},
            *({"name": volume, "mountPath": f"/{volume}"} for volume in ("d", "m", "w", "p", "h")),
        ]
        own = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
        deep = {"downwardAPI": {"items": [{**own, "path": "deep/name"}]}}
        host = {"path": str(self.directory / name), "type": "DirectoryOrCreate"}
        volumes = [
            {"name": "d", "emptyDir": {}},
            {"name": "m", "emptyDir": {"medium": "Memory"}},
            {"name": "w", "downwardAPI": {"items": [own]}},
            {"name": "p", "projected": {"sources": [deep]}},
            {"name": "h", "hostPath": host},
        ]
        container = sh(script, volumeMounts=mounts)
        return pod(name, container, volumes=volumes, terminationGracePeriodSeconds=5)

    # What must be true.

    def check(self, name: str) -> None:
        """It was started once, and all that it wrote is where it belongs, seen from both sides."""
        node = self.node
        status = node.await_ready(full(name), 120)
        assert status["containerStatuses"][0]["restartCount"] == 0, name
        node.await_output(full(name), "all")
        assert self.lines(name) == ["start"], (name, self.lines(name))
        volumes = node.root_dir / "pods" / node.uid(full(name)) / "volumes"
        inside = Path(f"/proc/{node.pid_of(full(name))}/root")
        for outer, inner in (
            (volumes / "kubernetes.io~empty-dir" / "d" / "kept", "d/kept"),
            (volumes / "kubernetes.io~empty-dir" / "d" / "a" / "b" / "kept", "part/kept"),
            (volumes / "kubernetes.io~empty-dir" / "m" / "kept", "m/kept"),
            (volumes / "kubernetes.io~downward-api" / "w" / "name", "w/name"),
            (volumes / "kubernetes.io~projected" / "p" / "deep" / "name", "p/deep/name"),
            (self.directory / name / "x" / "kept", "hpart/kept"),
        ):
            assert outer.read_text().startswith(name), outer
            assert outer.samefile(inside / inner), (outer, "is not what the container has")

    def check_gone(self, made: Made) -> None:
        """Nothing of it is left but what it wrote into the host's own directory."""
        if made.uid:  # logs of which no table knows are collected each minute
            wait_for(f"{made.name} is gone", lambda: traces(self.node, made.uid) == [], 90)
        lines = self.lines(made.name)
        assert lines == ["start"] or (not lines and not made.ran), (made, lines)
        if made.ran:
            wrote = self.directory / made.name / "x" / "kept"
            assert wrote.read_text() == f"{made.name}\n"

    def check_mounts(self) -> None:
        """Exactly the volumes of the pods that are wanted are mounted, each once."""
        found = Counter(mounts_below(self.node.root_dir))
        twice = [point for point, times in found.items() if times > 1]
        assert not twice, f"mounted more than once: {twice}"
        pods = self.node.root_dir / "pods"
        wanted = {
            f"{pods / self.node.uid(full(name))}/{place}"
            for name in self.wanted
            for place in (
                "volumes/kubernetes.io~empty-dir/m",
                "volumes/kubernetes.io~downward-api/w",
                "volumes/kubernetes.io~projected/p",
                "volume-subpaths/d/c/0",
                "volume-subpaths/h/c/1",
            )
        }
        assert set(found) == wanted, (set(found) - wanted, wanted - set(found))

    def check_all(self) -> None:
        """Check everything that there is, and that there is nothing else."""
        for name in sorted(self.wanted):
            self.check(name)
        names = {full(name) for name in self.wanted}
        wait_for("the others are gone", lambda: set(self.node.pods()) == names, 120)
        for made in self.gone:
            self.check_gone(made)
        self.check_mounts()
        uids = {self.node.uid(name) for name in names}
        there = {path.name for path in (self.node.root_dir / "pods").iterdir()}
        assert there == uids
        assert not list((self.node.run_dir / "operations").glob("*"))


def mounts_below(directory: Path) -> list[str]:
    """The mount points below a directory, one for each mount."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [point for line in lines if (point := line.split()[4]).startswith(f"{directory}/")]


@pytest.fixture
def dying(containerd24: Containerd, run_root: Path) -> Iterator[PodNode]:
    """A node whose process volumes dies when told."""
    environ = {ORDER: str(run_root / "die-at")}
    with pod_node(containerd24, run_root, program=PROGRAM, environ=environ) as node:
        yield node.start()


@pytest.fixture
def household(dying: PodNode) -> Household:
    """Its pods."""
    return Household(dying)


class Fate:
    """When volumes is to die."""

    def __init__(self, node: PodNode) -> None:
        self._order = node.run_dir.parent / "die-at"
        self._steps = node.run_dir.parent / "die-at.steps"
        self.deaths = 0

    def record(self) -> None:
        """Let it live, and have its steps written down."""
        self.order("none")

    def recorded(self) -> list[str]:
        """The steps since then, each with how often it was done before."""
        self._order.unlink()
        return self._steps.read_text().splitlines()

    def order(self, step: str) -> None:
        """Have it die before a step."""
        self._steps.unlink(missing_ok=True)
        temporary = self._order.with_suffix(".new")
        temporary.write_text(step)
        temporary.rename(self._order)

    def is_met(self) -> bool:
        """Whether it has died; if not, it is to live."""
        met = not self._order.exists()
        self._order.unlink(missing_ok=True)
        self.deaths += met
        return met


def names(steps: list[str]) -> set[str]:
    """Steps without how often they were done."""
    return {step.partition(" ")[2] for step in steps}


@pytest.mark.timeout(1800)
def test_volumes_dies_before_any_step_and_its_successor_does_the_rest(
    dying: PodNode, household: Household
) -> None:
    """Each pod starts once with all its volumes and ends whole, and the neighbour keeps its own."""
    fate = Fate(dying)
    come(household, "neighbour")
    fate.record()
    come(household, "whole")
    starting = fate.recorded()
    fate.record()
    leave(household, "whole")
    stopping = fate.recorded()
    assert names(starting) >= STARTING, STARTING - names(starting)
    assert names(stopping) >= STOPPING, STOPPING - names(stopping)
    unmet = []
    for number, (start, stop) in enumerate(zip_longest(starting[::STRIDE], stopping[::STRIDE])):
        if start is not None:
            fate.order(start)
        come(household, f"p{number}")
        unmet += [start] if start is not None and not fate.is_met() else []
        if stop is not None:
            fate.order(stop)
        leave(household, f"p{number}")
        unmet += [stop] if stop is not None and not fate.is_met() else []
    household.check_all()
    print(f"volumes died before {fate.deaths} steps; nobody came to {unmet}")
    # How often a row is written depends on what comes together; that it is does not.
    assert all(REPEATED.fullmatch(step) for step in unmet), unmet
    assert dying.processes()["volumes"]["restarts"] == fate.deaths
    assert dying.processes()["syncloop"]["restarts"] == 0


def come(household: Household, name: str) -> None:
    """Have a pod start, and check all that it has."""
    household.add(name)
    household.check(name)
    household.check_mounts()


def leave(household: Household, name: str) -> None:
    """Have it end, and check that nothing is left."""
    household.drop(name)
    household.node.await_gone(full(name), 60)
    household.check_gone(household.gone[-1])
    household.check_mounts()


@pytest.mark.timeout(1800)
def test_volumes_dies_at_random_while_pods_come_and_go(
    dying: PodNode, household: Household
) -> None:
    """Afterwards what is wanted is mounted, once; nothing else is; and no pod has lost a byte."""
    chance = random.Random(11)
    steady = ("s0", "s1")
    for name in steady:
        household.add(name)
    for name in steady:
        household.check(name)
    kept = {name: dying.container(full(name))["containerID"] for name in steady}
    made = 0
    for _ in range(KILLS):
        while len(household.wanted) < PODS + len(steady):
            household.add(f"r{made}")
            made += 1
        comers = sorted(set(household.wanted) - set(steady))
        ran = [name for name in comers if household.lines(name)]
        for name in chance.sample(ran, min(len(ran), chance.randint(0, 2))):
            household.check(name)
            household.drop(name)
        if chance.random() < EARLY:
            household.drop(chance.choice(sorted(set(household.wanted) - set(steady))))
        time.sleep(chance.uniform(0, 0.4))  # the moment of the next death
        pid = dying.pids()["volumes"]
        os.kill(pid, signal.SIGKILL)
        wait_for("volumes is back", lambda old=pid: dying.beating("volumes", old), SECONDS)
    household.check_all()
    went = len(household.gone)
    late = sum(pod.ran for pod in household.gone)
    print(f"{KILLS} deaths of volumes: {made} pods came, {went} went, {late} of them had run")
    assert dying.processes()["volumes"]["restarts"] == KILLS
    assert dying.processes()["syncloop"]["restarts"] == 0
    assert kept == {name: dying.container(full(name))["containerID"] for name in steady}
    for name in list(household.wanted):
        household.drop(name)
    household.check_all()
    assert mounts_below(dying.root_dir) == []  # which is a mount itself (L-2)
