"""Deaths under probes: prober, and all of the kubelet, die; no pod and no server notices.

Servers write down who asks them and when. Whoever dies: nobody becomes unready, nothing is
restarted, and no server is asked more often than it would have been, but for one probe of each that
may be made again because its result was lost with who had made it.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.node.containerd import Containerd
from tests.node.pod_node import PAUSE, SECONDS, Document, PodNode, is_ready, pod_node, sleeper
from tests.node.probe_scene import run
from tests.node.shared import condition, pod
from tests.node.stamping_server import StampingServer, Visits
from tests.node.test_pods_faults import crash, stop
from tests.processes.conftest import run_root
from tests.processes.node import alive, wait_for

__all__ = ["run_root"]

KILLS = int(os.environ.get("KUBELET_PROBER_KILLS", "15"))
PODS = int(os.environ.get("KUBELET_PROBER_PODS", "6"))
KINDS = ("livenessProbe", "readinessProbe")
ROUNDS = 3  # of each probe, before and after
EVERY = {"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1}


class Load:
    """Pods whose probes ask a server each second, and one whose probes are commands."""

    def __init__(self, node: PodNode, server: StampingServer) -> None:
        self.node = node
        self.server = server
        self.names = [node.write(self._pod(f"p{number}")) for number in range(PODS)]
        command = run("true", timeoutSeconds=5)
        self.names.append(node.write(pod("command", sleeper(**dict.fromkeys(KINDS, command)))))
        self.probes = 2 * 2 * PODS  # a second

    def _pod(self, name: str) -> Document:
        return pod(name, *(sleeper(c, **self._probes(f"{name}/{c}")) for c in ("a", "b")))

    def _probes(self, path: str) -> Document:
        here = {"host": "127.0.0.1", "port": self.server.port}
        return {
            kind: {
                "httpGet": {**here, "path": f"/{path}/{kind}"},
                **EVERY,
            }
            for kind in KINDS
        }

    def await_ready(self) -> None:
        """Wait until all pods are ready."""
        for name in self.names:
            self.node.await_ready(name)

    def await_rounds(self, rounds: int = ROUNDS) -> None:
        """Wait until each probe has been made so many times from now on."""
        since = time.monotonic()

        def look() -> bool:
            of = self.server.visits(since).of
            return len(of) == self.probes and all(len(came) >= rounds for came in of.values())

        wait_for(f"{rounds} rounds of {self.probes} probes", look, SECONDS, 0.1)

    def facts(self) -> dict[str, Any]:
        """What may not change of each pod."""
        return {name: facts_of(self.node.status(name)) for name in self.names}

    def judge(self, visits: Visits) -> None:
        """No server was asked more often than twice as often as ever."""
        assert len(visits.of) == self.probes
        assert visits.busiest() <= 2 * self.probes
        for who, came in visits.of.items():
            assert Visits([(moment, who) for moment in came]).busiest() <= 2, (who, came)


def facts_of(status: Document) -> Document:
    """Containers, their restarts, and since when the pod is how it is."""
    since = {c["type"]: c["lastTransitionTime"] for c in status["conditions"]}
    containers = {
        c["name"]: (c["containerID"], c["restartCount"], c["ready"], c["started"])
        for c in status["containerStatuses"]
    }
    return {"ready": condition(status, "Ready"), "since": since["Ready"], "containers": containers}


class Eyes(threading.Thread):
    """Looks all the time, and keeps each status in which a pod is not ready."""

    def __init__(self, node: PodNode, names: list[str]) -> None:
        super().__init__()
        # Readers of its own: those of the node are the test's.
        self._eyes = PodNode.__new__(PodNode)
        self._eyes.run_dir = node.run_dir
        self._eyes._readers, self._eyes._cache = {}, None
        self._names = names
        self._over = threading.Event()
        self.unready: list[Document] = []

    def run(self) -> None:
        """Look."""
        while not self._over.wait(PAUSE):
            for name in self._names:
                status = self._eyes.status(name)
                if status and not is_ready(status):
                    self.unready.append({"name": name, **status})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self._eyes._detach()


@pytest.fixture
def load(containerd24: Containerd, run_root: Path) -> Iterator[Load]:
    """A node under probes, everything ready and asked a few times."""
    with (
        StampingServer(run_root / "stamps") as server,
        pod_node(containerd24, run_root) as node,
    ):
        node.start()
        made = Load(node, server)
        made.await_ready()
        made.await_rounds()
        yield made


def test_prober_is_killed_at_random(load: Load) -> None:
    """So often, at any moment: no transition, no restart, no burst, and no probe forgotten."""
    chance, node = random.Random(11), load.node
    before, since = load.facts(), time.monotonic()
    with Eyes(node, load.names) as eyes:
        for _ in range(KILLS):
            time.sleep(chance.uniform(0, 0.7))  # the moment of the next death
            kill(node, "prober")
        load.await_rounds()
    load.judge(load.server.visits(since))
    assert eyes.unready == []
    assert load.facts() == before
    assert node.processes()["prober"]["restarts"] == KILLS
    assert not any("Unhealthy" in node.reasons(name) for name in load.names)


def test_others_die_under_probes(load: Load) -> None:
    """Who runs commands, who looks at containers, and prober with either: nothing comes of it."""
    chance, node = random.Random(12), load.node
    before, since = load.facts(), time.monotonic()
    with Eyes(node, load.names) as eyes:
        for kinds in (("syncloop",), ("pleg",), ("syncloop", "prober"), ("pleg", "prober")):
            time.sleep(chance.uniform(0, 0.5))  # the moment of the next death
            kill(node, *kinds)
        load.await_rounds()
    load.judge(load.server.visits(since))
    assert eyes.unready == []
    assert load.facts() == before
    assert not any("Unhealthy" in node.reasons(name) for name in load.names)


@pytest.mark.parametrize("down", [crash, stop])
def test_the_whole_kubelet_goes_and_comes_back(load: Load, down: Callable[[PodNode], None]) -> None:
    """With its tables, it goes on where it was: conditions are those of before."""
    node = load.node
    before, since = load.facts(), time.monotonic()
    for _ in range(2):
        down(node)
        node.start()
        with Eyes(node, load.names) as eyes:
            load.await_rounds()
        assert eyes.unready == []
    load.judge(load.server.visits(since))
    assert load.facts() == before


def kill(node: PodNode, *kinds: str) -> None:
    """Kill processes at one moment, and wait until their successors work."""
    pids = {kind: node.pids()[kind] for kind in kinds}
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    for kind, pid in pids.items():
        wait_for(f"{kind} is back", lambda k=kind, p=pid: node.beating(k, p), SECONDS)
        assert not alive(pid)
