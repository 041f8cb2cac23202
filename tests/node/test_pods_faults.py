"""Everything around pods fails while they come, run and go: what runs runs on, the rest converges.

Processes other than syncloop die, alone and with it; containerd hangs and restarts; the whole
kubelet dies, stops, and forgets; tables are damaged; pods are deleted before they have begun.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.node.containerd import Containerd
from tests.node.pod_node import SECONDS, Document, PodNode, pod, pod_node, sh, sleeper
from tests.node.test_pods_deaths import held
from tests.node.traffic import Traffic, full, traces
from tests.processes.conftest import run_root
from tests.processes.node import alive, wait_for

__all__ = ["run_root"]

ROUNDS = int(os.environ.get("KUBELET_FAULT_ROUNDS", "2"))
FREEZE = float(os.environ.get("KUBELET_POD_FREEZE_SECONDS", "3"))

OTHERS = ("pleg", "volumes", "eviction", "prober", "api", "node")
PAIRS = (("syncloop", "pleg"), ("syncloop", "volumes"))
TABLES = {"pods": "syncloop", "inflight": "syncloop", "status": "syncloop"} | {
    "events": "syncloop",
    "mounts": "volumes",
}


@pytest.fixture
def node(containerd24: Containerd, run_root: Path) -> Iterator[PodNode]:
    """A node that is up."""
    with pod_node(containerd24, run_root) as made:
        yield made.start()


@pytest.fixture
def traffic(node: PodNode) -> Traffic:
    """Pods that run on it all the time, and others that come and go."""
    found = Traffic(node)
    found.begin()
    return found


def kill(node: PodNode, *kinds: str) -> None:
    """Kill processes at one moment, and wait until their successors work."""
    pids = {kind: node.pids()[kind] for kind in kinds}
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    for kind, pid in pids.items():
        wait_for(f"{kind} is back", lambda k=kind, p=pid: node.beating(k, p), SECONDS)


def assert_nobody_died(node: PodNode) -> None:
    """No process had to be replaced."""
    died = [name for name, process in node.processes().items() if process["restarts"]]
    assert not died, (died, "\n".join(node.log().splitlines()[-60:]))


def test_others_die_while_pods_come_and_go(node: PodNode, traffic: Traffic) -> None:
    """Whoever of the other processes dies, pods come and go as if nobody had."""
    for kind in OTHERS * ROUNDS:
        traffic.move()
        time.sleep(traffic.chance.uniform(0, 0.4))  # the moment of the next death
        kill(node, kind)
    traffic.check()
    assert node.processes()["syncloop"]["restarts"] == 0


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_two_die_at_once(node: PodNode, traffic: Traffic, pair: tuple[str, str]) -> None:
    """Syncloop dies together with one that it needs; neither misses what the other forgot."""
    for _ in range(2 * ROUNDS):
        traffic.move()
        time.sleep(traffic.chance.uniform(0, 0.4))  # the moment of the next deaths
        kill(node, *pair)
    traffic.check()


# The container runtime.


def why(node: PodNode, name: str) -> str:
    """What kubeletctl says of a pod."""
    done = node.ctl("why", name)
    return done.stdout + done.stderr


def test_a_runtime_that_hangs(node: PodNode, traffic: Traffic) -> None:
    """Frozen in the middle of starts and stops: it is said, and all goes on after the thaw."""
    first = [traffic.add() for _ in range(2)]
    for name in first:
        node.await_ready(full(name))
    traffic.drop(first[0])
    starting = [traffic.add() for _ in range(2)]
    wait_for("a sandbox is made", lambda: begun(node, starting), SECONDS)
    node.containerd.freeze()
    try:
        late = traffic.add()
        wait_for("it is known", lambda: full(late) in node.pods(), SECONDS)
        time.sleep(FREEZE)  # that it hangs, and nobody gives up
        wait_for("it is said", lambda: "has not answered" in node.ctl("status").stdout, SECONDS)
        wait_for("and why", lambda: "container runtime" in why(node, full(late)), SECONDS)
    finally:
        node.containerd.thaw()
    traffic.check()
    assert_nobody_died(node)


def begun(node: PodNode, names: list[str]) -> bool:
    """Whether a worker of one of these pods has begun to make a sandbox."""
    known = node.pods()
    return any(full(n) in known and node.work(full(n)).step for n in names)


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_runtime_that_restarts(node: PodNode, traffic: Traffic, killed: bool) -> None:
    """Down while pods start, stop and run: what runs runs on, and the rest converges."""
    ready = [traffic.add() for _ in range(2)]
    for name in ready:
        node.await_ready(full(name))
    hook = {"postStart": {"exec": {"command": ["sleep", "100000"]}}}
    node.apply(pod("hooked", sleeper(lifecycle=hook)))
    at(node, "hooked", "running the postStart hook")
    traffic.drop(ready[0])
    starting = [traffic.add() for _ in range(2)]
    wait_for("a start is under way", lambda: begun(node, starting), SECONDS)
    time.sleep(traffic.chance.uniform(0, 0.3))  # the moment of its end
    (node.containerd.kill if killed else node.containerd.stop)()
    late = traffic.add()
    wait_for("it is said", lambda: "cannot reach" in node.ctl("status").stdout, SECONDS)
    wait_for("and why", lambda: "container runtime" in why(node, full(late)), SECONDS)
    for name in traffic.steady:
        assert alive(traffic.kept[name][1])
    node.containerd.start()
    node.await_event("hooked", "FailedPostStartHook")  # it was broken off, and nobody broke
    ends_whole(node, "hooked")
    traffic.check()
    assert_nobody_died(node)


# The whole kubelet.


def crash(node: PodNode) -> None:
    """Kill the supervisor, and wait until all that it had started is gone."""
    pids = list(node.pids().values())
    node.signal(signal.SIGKILL)
    node.wait()
    wait_for("nobody is left", lambda: not any(map(alive, pids)), SECONDS)
    node.end()
    Path(node.notify_path).unlink()


def stop(node: PodNode) -> None:
    """Stop it as a service manager does."""
    assert node.stop() == 0


@pytest.mark.parametrize("down", [crash, stop])
@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_the_kubelet_goes_and_comes_back(
    node: PodNode, traffic: Traffic, down: Callable[[PodNode], None], lost: bool
) -> None:
    """With its tables or without: containers are left alone, edits seen, starts finished."""
    node.write(pod("edited", sleeper()))
    node.apply(pod("own", sleeper()))
    for name in (full("edited"), "own"):
        node.await_ready(name)
    own = (node.uid("own"), node.container("own")["containerID"], node.pid_of("own"))
    before = node.uid(full("edited")), node.pid_of(full("edited"))
    leaving = traffic.add()
    node.await_ready(full(leaving))
    traffic.drop(leaving)
    starting = traffic.add()
    wait_for("a start is under way", lambda: begun(node, [starting]), SECONDS)
    time.sleep(traffic.chance.uniform(0, 0.3))  # the moment of the end
    down(node)
    assert alive(own[2])
    node.write(pod("edited", sleeper(env=[{"name": "NEW", "value": "1"}])))
    if lost:
        shutil.rmtree(node.run_dir)
    node.start()
    node.await_ready("own")
    assert own == (node.uid("own"), node.container("own")["containerID"], node.pid_of("own"))
    wait_for("the edit is seen", lambda: node.uid(full("edited")) != before[0], SECONDS)
    node.await_ready(full("edited"))
    assert not alive(before[1])
    node.remove("edited")
    node.delete("own")
    traffic.check()
    assert traces(node, own[0]) == []
    assert traces(node, before[0]) == []


# Tables.


def overwritten(path: Path) -> None:
    """Junk over its middle."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 4)
        file.write(os.urandom(size // 2))


def headless(path: Path) -> None:
    """Junk over its first page."""
    with path.open("r+b") as file:
        file.write(os.urandom(4096))


def cut(path: Path) -> None:
    """Half of it is gone."""
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    """All of it is gone."""
    os.truncate(path, 0)


@pytest.mark.parametrize("damage", [overwritten, headless, cut, emptied])
def test_damaged_tables(node: PodNode, traffic: Traffic, damage: Callable[[Path], None]) -> None:
    """Each table in turn, while pods come and go: it is made anew, and no container is touched."""
    for table, writer in TABLES.items():
        traffic.move()
        time.sleep(traffic.chance.uniform(0, 0.3))  # the moment of the damage
        pid = node.pids()[writer]
        damage(node.run_dir / "tables" / table)
        if alive(pid) and node.row(writer).pid == pid:
            os.kill(pid, signal.SIGKILL)  # a writer does not read what it has written
        wait_for(f"{writer} is back", lambda w=writer, p=pid: node.beating(w, p), SECONDS)
    traffic.check()


# Deleted before it has begun.


class Silent:
    """A registry that takes connections and never says a word."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.asked = threading.Event()
        self._taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                self._taken.append(self._socket.accept()[0])
            except OSError:
                return
            self.asked.set()

    def close(self) -> None:
        """Take no more."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for taken in self._taken:
            taken.close()


@pytest.fixture
def silent(containerd24: Containerd) -> Iterator[Silent]:
    """A registry that the runtime knows."""
    found = Silent()
    containerd24.trust(found.host, f"http://{found.host}")
    yield found
    found.close()


def at(node: PodNode, name: str, step: str) -> None:
    """Wait until the worker of a pod is at a step."""
    wait_for(f"{name}: {step}", lambda: node.work(name).step.startswith(step), SECONDS)


def ends_whole(node: PodNode, name: str, *options: str) -> None:
    """Delete a pod: it is gone in every respect."""
    uid = node.uid(name)
    node.delete(name, *options)
    node.await_gone(name)
    assert traces(node, uid) == []
    found, _ = held(node.containerd)
    assert name not in found
    assert not (node.root_dir / "local-pods" / f"{uid}.json").exists()


def test_deleted_while_it_starts(node: PodNode, silent: Silent) -> None:
    """At its sandbox, at its image or at its hook: it ends whole, and its name is free again."""
    node.apply(pod("box", sleeper()))
    at(node, "box", "creating the sandbox")
    ends_whole(node, "box")
    pulled = {"name": "c", "image": f"{silent.host}/never:1"}
    node.apply(pod("image", pulled))
    wait_for("it is pulled", silent.asked.is_set, SECONDS)
    at(node, "image", "getting image")
    ends_whole(node, "image")
    hook = {"postStart": {"exec": {"command": ["sleep", "100000"]}}}
    node.apply(pod("hook", sleeper(lifecycle=hook)))
    at(node, "hook", "running the postStart hook")
    ends_whole(node, "hook")
    for name in ("box", "image", "hook"):
        node.apply(pod(name, sleeper()))
        node.await_ready(name)


def test_deleted_at_random_moments(node: PodNode) -> None:
    """However far its start has come, a pod that is deleted ends whole."""
    chance = random.Random(3)
    for number in range(6 * ROUNDS):
        name = node.apply(pod(f"r{number}", sleeper(), terminationGracePeriodSeconds=5))
        time.sleep(chance.uniform(0, 0.5))  # the moment of its end
        ends_whole(node, name)
    assert node.pods() == {}
    assert held(node.containerd) == ({}, [])


STUBBORN = "trap 'echo told' TERM; echo up; while true; do sleep 0.1; done"


def test_less_grace_while_it_ends(node: PodNode) -> None:
    """A pod with an hour to end is deleted again with a second: it ends now (P-37)."""
    node.apply(pod("late", sh(STUBBORN), terminationGracePeriodSeconds=3600))
    node.await_output("late", "up")
    node.delete("late")
    node.await_output("late", "told")
    node.delete("late", "--grace-period=1800")
    assert node.pods()["late"].ending.grace == 1800
    ends_whole(node, "late", "--grace-period=1")


def test_less_grace_while_its_hook_runs(node: PodNode) -> None:
    """The same while the preStop hook takes its time."""
    hook = {"preStop": {"exec": {"command": ["sleep", "100000"]}}}
    document: Document = pod("hooked", sh(STUBBORN, lifecycle=hook))
    document["spec"]["terminationGracePeriodSeconds"] = 3600
    node.apply(document)
    node.await_ready("hooked")
    node.delete("hooked")
    at(node, "hooked", "stopping c")
    assert json.loads(node.ctl("get", "pod", "hooked", "-o", "json").stdout)["metadata"]["uid"]
    ends_whole(node, "hooked", "--grace-period=1")
