"""Syncloop dies at every step of a pod's life, and at random: the pods never notice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubelet.cri import api_pb2
from kubelet.cri.api_pb2_grpc import RuntimeServiceStub
from kubelet.pods.rows import CallStep, WorkRow
from tests.node.containerd import Containerd
from tests.node.dying_node import ORDER, PROGRAM
from tests.node.pod_node import Document, PodNode, pod, pod_node, sh
from tests.processes.conftest import run_root
from tests.processes.node import wait_for

__all__ = ["run_root"]

KILLS = int(os.environ.get("KUBELET_SYNCLOOP_KILLS", "40"))
PODS = int(os.environ.get("KUBELET_SYNCLOOP_PODS", "8"))

STARTING = [
    "cgroup:before",
    "cgroup:after",
    "sandbox:before",
    "sandbox:before+5",
    "sandbox:before+60",
    "sandbox:after",
    "create:before",
    "create:before+5",
    "create:after",
    "start:before",
    "start:before+5",  # later, containerd may lose sight of what it has begun: see below
    "start:after",
    "post-start:before",
    "post-start:after",
]
STOPPING = [
    "pre-stop:before",
    "pre-stop:after",
    "stop:before",
    "stop:before+20",
    "stop:after",
    "sandbox-stop:before",
    "sandbox-stop:before+20",
    "sandbox-stop:after",
    "clean:before",
    "remove-pod:before",
    "remove-pod:before+5",
    "remove-pod:after",
    "clean:after",
]


class Diary:
    """A directory in which containers write what happens to them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def lines(self, name: str) -> list[str]:
        """What the containers of a pod wrote."""
        path = self.directory / name
        return path.read_text().split() if path.exists() else []

    def pod(self, name: str, *, hooks: bool = True) -> Document:
        """A pod that writes its start, its hooks and its end."""
        script = (
            f"echo start >> /diary/{name}; trap 'echo end >> /diary/{name}; exit 0' TERM; "
            "while true; do sleep 0.05; done"
        )
        lifecycle = {
            "postStart": {"exec": {"command": ["sh", "-c", f"echo hook >> /diary/{name}"]}},
            "preStop": {"exec": {"command": ["sh", "-c", f"echo last >> /diary/{name}"]}},
        }
        mounts = [{"name": "diary", "mountPath": "/diary"}, {"name": "own", "mountPath": "/own"}]
        container = sh(script, volumeMounts=mounts, **({"lifecycle": lifecycle} if hooks else {}))
        volumes = [
            {"name": "diary", "hostPath": {"path": str(self.directory)}},
            {"name": "own", "emptyDir": {}},
        ]
        return pod(name, container, volumes=volumes, terminationGracePeriodSeconds=20)


@pytest.fixture
def dying(containerd24: Containerd, run_root: Path) -> Iterator[PodNode]:
    """A node whose syncloop dies when told."""
    environ = {ORDER: str(run_root / "die-at")}
    with pod_node(containerd24, run_root, program=PROGRAM, environ=environ) as node:
        yield node.start()


@pytest.fixture
def diary(dying: PodNode) -> Diary:
    """Where its containers write."""
    return Diary(dying.disk / "diary")


def held(containerd: Containerd) -> tuple[dict[str, list[str]], list[str]]:
    """What the runtime holds: ids of containers by pod, and sandboxes."""
    with containerd.channel() as channel:
        stub = RuntimeServiceStub(channel)
        containers = stub.ListContainers(api_pb2.ListContainersRequest()).containers
        sandboxes = stub.ListPodSandbox(api_pb2.ListPodSandboxRequest()).items
    found: dict[str, list[str]] = {s.metadata.name: [] for s in sandboxes}
    for container in containers:
        found.setdefault(container.labels["io.kubernetes.pod.name"], []).append(container.id)
    return found, [s.id for s in sandboxes]


def order(node: PodNode, step: str) -> Path:
    """Have syncloop die at a step; the file that is there until it has."""
    path = node.run_dir.parent / "die-at"
    temporary = path.with_suffix(".new")
    temporary.write_text(step)
    temporary.rename(path)
    return path


def test_a_death_at_any_step_of_a_start_or_a_stop_is_not_noticed(
    dying: PodNode, diary: Diary, containerd24: Containerd
) -> None:
    """Each container is started once, each pod ends whole, and the neighbour is left alone."""
    neighbour = dying.write(diary.pod("neighbour"))
    dying.await_ready(neighbour, 60)
    kept = dying.container(neighbour)["containerID"]
    missed = []
    for number, step in enumerate([*STARTING, *STOPPING]):
        short = f"p{number}"
        if step in STARTING:
            file = order(dying, step)
        name = dying.write(diary.pod(short))
        dying.await_ready(name, 60)
        status = dying.container(name)
        cut_off = step.startswith("start:before+")
        if status["restartCount"]:  # the second start came while the first was being given up
            assert cut_off, step
            assert status["lastState"]["terminated"]["reason"] == "StartError", status
        found, _ = held(containerd24)
        assert len(found[name]) <= 1 + cut_off, (step, found)
        # A call that loses its caller in its middle is broken off by the runtime, which kills
        # what it has started by then: that instance never counted, and another takes its place.
        assert 1 <= diary.lines(short).count("start") <= 1 + cut_off, (step, diary.lines(short))
        assert "hook" in diary.lines(short), step
        if step in STOPPING:
            file = order(dying, step)
        dying.remove(short)
        dying.await_gone(name, 60)
        lines = diary.lines(short)
        assert lines.count("end") == 1, (step, lines)
        assert "last" in lines, step
        found, _ = held(containerd24)
        assert name not in found, (step, found)
        assert not (dying.root_dir / "pods" / name).exists()
        if file.exists():  # the call was over before the moment came
            missed.append(step)
            file.unlink()
    assert all("+" in step for step in missed), missed
    assert dying.container(neighbour)["containerID"] == kept
    assert diary.lines("neighbour") == ["start", "hook"]
    deaths = dying.processes()["syncloop"]["restarts"]
    assert deaths == len(STARTING) + len(STOPPING) - len(missed)


def starting(node: PodNode) -> bool:
    """Whether the runtime is starting a container."""
    rows = (WorkRow.from_wire(value) for value in node._rows("inflight").values())
    return any(call.step is CallStep.START for row in rows for call in row.calls.values())


def test_deaths_at_random_while_pods_come_and_go(
    dying: PodNode, diary: Diary, containerd24: Containerd
) -> None:
    """Afterwards exactly the desired containers run, and nothing else."""
    chance = random.Random(5)
    wanted: set[str] = set()
    steady = {f"s{i}" for i in range(2)}
    for name in steady:
        dying.write(diary.pod(name, hooks=False))
    for name in steady:
        dying.await_ready(f"{name}-testnode", 60)
    ids = {name: dying.container(f"{name}-testnode")["containerID"] for name in steady}
    made = 0
    for _ in range(KILLS):
        while len(wanted) < PODS:
            wanted.add(f"r{made}")
            dying.write(diary.pod(f"r{made}", hooks=False))
            made += 1
        for name in chance.sample(sorted(wanted), chance.randint(0, 2)):
            dying.remove(name)
            wanted.discard(name)
        time.sleep(chance.uniform(0, 0.4))  # the moment of the next death
        # containerd gives up a start whose caller is gone, and may lose sight of what it began:
        # a task that is there for a container that has ended, which nothing removes any more.
        wait_for("no start is under way", lambda: not starting(dying), 30, 0.002)
        pid = dying.pids()["syncloop"]
        os.kill(pid, signal.SIGKILL)
        wait_for("syncloop is back", lambda old=pid: dying.beating("syncloop", old), 30)
    again = set()
    for name in sorted(wanted):
        status = dying.await_ready(f"{name}-testnode", 120)["containerStatuses"][0]
        if status["restartCount"]:
            # A start that is made again while the runtime still gives up the first one fails, too.
            assert status["lastState"]["terminated"]["reason"] == "StartError", (name, status)
            again.add(f"{name}-testnode")
    assert len(again) <= 1, again
    names = {f"{name}-testnode" for name in wanted | steady}
    wait_for("others are gone", lambda: set(dying.pods()) == names, 120)
    # What the runtime was asked for by one that is dead may come after its pod is gone.
    wait_for("orphans are gone", lambda: len(held(containerd24)[1]) == len(names), 60)
    found, _ = held(containerd24)
    assert set(found) == names
    assert all(len(found[name]) == 1 for name in names - again), found
    for name in wanted | steady:  # one that was started a moment ago may not have written yet
        wait_for(f"{name} has begun", lambda name=name: diary.lines(name), 30)
    for name in steady:
        assert diary.lines(name) == ["start"], (name, diary.lines(name))
    # The runtime gives up a start whose caller has died, at times when the container has begun.
    starts = [diary.lines(f"r{number}").count("start") for number in range(made)]
    assert max(starts) <= 2, starts
    assert starts.count(2) <= max(1, KILLS // 10), starts
    assert ids == {name: dying.container(f"{name}-testnode")["containerID"] for name in steady}
