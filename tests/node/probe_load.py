"""Many probes on a node, asked of a server that writes down when, and eyes that see any change."""

from __future__ import annotations

import threading
import time
from typing import Any, Self

from tests.node.pod_node import PAUSE, SECONDS, Document, PodNode, is_ready, sleeper
from tests.node.probe_scene import run
from tests.node.shared import condition, pod
from tests.node.stamping_server import StampingServer, Visits
from tests.processes.node import wait_for

KINDS = ("livenessProbe", "readinessProbe")
ROUNDS = 3  # of each probe, before and after
EVERY = {"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1}


class Load:
    """Pods whose probes ask a server each second, and one whose probes are commands."""

    def __init__(
        self, node: PodNode, server: StampingServer, pods: int, containers: int = 2
    ) -> None:
        self.node = node
        self.server = server
        self._containers = [f"c{number}" for number in range(containers)]
        self.names = [node.write(self._pod(f"p{number}")) for number in range(pods)]
        command = run("true", timeoutSeconds=5)
        self.names.append(node.write(pod("command", sleeper(**dict.fromkeys(KINDS, command)))))
        self.probes = len(KINDS) * containers * pods  # a second

    def _pod(self, name: str) -> Document:
        return pod(name, *(sleeper(c, **self._probes(f"{name}/{c}")) for c in self._containers))

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
            self.node.await_ready(name, SECONDS + 2 * len(self.names))

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
            seen = self._eyes.statuses()
            self.unready += [
                {"name": name, **seen[name]}
                for name in self._names
                if name in seen and not is_ready(seen[name])
            ]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self._eyes._detach()
