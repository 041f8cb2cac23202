"""Kubelets that the tests of one module share, one for each version of containerd.

To start a kubelet for each of many small tests would be most of their time. What a test leaves of
pods is ended before the next one begins, and a kubelet that cannot be put right is replaced.

    node24               on containerd 2.4
    each_node            each of both versions in turn

A module that uses them names `nodes` as well, so that pytest finds it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node import pod_node as plain
from tests.node.containerd import Containerd
from tests.node.fixtures import Instances
from tests.node.pod_node import PAUSE, SECONDS, Document, PodNode, pod_node
from tests.node.settings import VERSIONS
from tests.processes.node import wait_for

# Crash loops of tests turn fast; the long delays are what tests with a clock of their own are for.
CONFIG: dict[str, Any] = {
    "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
    "clusterDNS": ["192.0.2.53"],
}


class Nodes:
    """The kubelets of one module, each started when it is first asked for."""

    def __init__(self, containerds: Instances, root: Path) -> None:
        self._containerds = containerds
        self._root = root
        self._made: dict[str, tuple[PodNode, contextlib.ExitStack]] = {}
        self._count = 0

    def get(self, version: str) -> PodNode:
        """The kubelet on a containerd of this version, up and without pods."""
        if version not in self._made:
            self._made[version] = self._make(self._containerds.get(version))
        return self._made[version][0]

    def _make(self, containerd: Containerd) -> tuple[PodNode, contextlib.ExitStack]:
        self._count += 1
        with contextlib.ExitStack() as stack:
            stack.callback(containerd.reset)  # last of all: whatever happened to its pods
            name = f"n{self._count}"
            node = stack.enter_context(pod_node(containerd, self._root, name, config=CONFIG))
            node.start()
            kept = stack.pop_all()
        return node, kept

    def tidy(self, version: str) -> None:
        """End what a test has left; a kubelet that does not manage that is replaced."""
        node, _stack = self._made[version]
        try:
            clear(node)
        except BaseException:
            self.discard(version)
            raise

    def discard(self, version: str) -> None:
        """End a kubelet."""
        _node, stack = self._made.pop(version)
        stack.close()

    def close(self) -> None:
        """End all of them."""
        for version in list(self._made):
            self.discard(version)


def clear(node: PodNode) -> None:
    """Have every pod of a node end, whoever wanted it."""
    if not node.running:
        node.start()
    for manifest in node.manifests.iterdir():
        manifest.unlink()
    for row in node.pods().values():
        if row.source == "local":
            node.delete(row.name, "--grace-period=1", "--ignore-not-found")
    wait_for("all pods are gone", lambda: not node.pods(), SECONDS, PAUSE)
    wait_for("the runtime has no pod", lambda: not node.cache.uids(), SECONDS, PAUSE)


@pytest.fixture(scope="module")
def nodes(containerds: Instances) -> Iterator[Nodes]:
    """The kubelets of a module."""
    root = Path(tempfile.mkdtemp(prefix="kt-", dir="/dev/shm"))
    root.chmod(0o755)  # processes without root must get through
    made = Nodes(containerds, root)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(root)


@pytest.fixture
def node24(nodes: Nodes) -> Iterator[PodNode]:
    """A kubelet on containerd 2.4, without pods."""
    yield nodes.get("2.4")
    nodes.tidy("2.4")


@pytest.fixture(params=VERSIONS)
def each_node(nodes: Nodes, request: pytest.FixtureRequest) -> Iterator[PodNode]:
    """A kubelet without pods; the test runs once with each version of containerd."""
    yield nodes.get(request.param)
    nodes.tidy(request.param)


def pod(name: str, *containers: Document, patient: bool = False, **spec: Any) -> Document:
    """A pod's document; a patient one has a long grace, for tests of what happens in it.

    A shell that is told to end before its trap is set does not hear it: the others need not wait.
    """
    spec.setdefault("terminationGracePeriodSeconds", 60 if patient else 2)
    return plain.pod(name, *containers, **spec)


class Notes:
    """A directory of the host that containers write lines to: what they did, in its order."""

    def __init__(self, node: PodNode, name: str) -> None:
        self.directory = node.disk / "notes" / name
        self.directory.mkdir(parents=True, exist_ok=True)
        self.volumes = [{"name": "notes", "hostPath": {"path": str(self.directory)}}]

    @property
    def mounts(self) -> Document:
        """What a container needs to write into `/notes/lines`."""
        return {"volumeMounts": [{"name": "notes", "mountPath": "/notes"}]}

    def lines(self) -> list[str]:
        """What was written so far."""
        path = self.directory / "lines"
        return path.read_text().splitlines() if path.exists() else []

    def await_line(self, line: str, times: int = 1) -> list[str]:
        """Wait until a line is there; all of them."""
        wait_for(f"{line!r}", lambda: self.lines().count(line) >= times, SECONDS, PAUSE)
        return self.lines()


def note(line: str) -> str:
    """The shell command that writes a line."""
    return f"echo {line} >> /notes/lines"


def running(name: str = "c") -> Callable[[Document], bool]:
    """Whether a status says that a container runs."""
    return lambda status: "running" in state_of(status, name)


def state_of(status: Document, name: str = "c") -> Document:
    """The state of a container in a pod's status; empty when it has none."""
    return dict(container_of(status, name).get("state", {}))


def container_of(status: Document, name: str = "c") -> Document:
    """The status of a container in a pod's status; empty when there is none."""
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    every = [c for kind in kinds for c in status.get(kind, [])]
    return next((dict(c) for c in every if c["name"] == name), {})


def condition(status: Document, kind: str) -> tuple[str, str]:
    """The status and reason of a condition."""
    found: Document = next((c for c in status.get("conditions", []) if c["type"] == kind), {})
    return str(found.get("status", "")), str(found.get("reason", ""))
