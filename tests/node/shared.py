"""One kubelet for all tests of a file, and what tests say of its pods.

To start a kubelet for each of many small tests would be most of their time. A test takes `node`: a
kubelet on containerd 2.4, without pods; with mark ``both_versions`` it runs on each version. What a
test leaves of pods is ended before the next one begins, and a kubelet that does not manage that is
set up anew. When the file ends, no pod and no directory of a pod is left.

A file may say how its kubelet is to be in ``CONFIG`` (fields of its configuration file, instead of
those here) and in ``arguments(request, directory)`` (flags; the directory is for files they name).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kubelet.cri.client import RuntimeClient
from tests.node import pod_node as plain
from tests.node.containerd import Containerd
from tests.node.pod_node import PAUSE, SECONDS, Document, PodNode, pod_node, sh, unmount_below
from tests.processes.node import wait_for

# Crash loops of tests turn fast; the long delays are what tests with a clock of their own are for.
CONFIG: dict[str, Any] = {
    "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
    "clusterDNS": ["192.0.2.53"],
}
LOOP = "while true; do sleep 0.1; done"  # hears signals soon
STUBBORN = f"trap '' TERM; {LOOP}"  # has to be killed

Answer = TypeVar("Answer")


# The kubelet.


@pytest.fixture(scope="module")
def shared_node(request: pytest.FixtureRequest, shared_containerd: Containerd) -> Iterator[PodNode]:
    """The kubelet of a file; when it ends, no pod and nothing of any pod is left."""
    config = getattr(request.module, "CONFIG", CONFIG)
    arguments = getattr(request.module, "arguments", None)
    root = Path(tempfile.mkdtemp(prefix="kt-", dir="/dev/shm"))
    root.chmod(0o755)  # processes without root must get through
    try:
        given = arguments(request, root) if arguments is not None else ()
        with pod_node(shared_containerd, root, arguments=given, config=config) as made:
            made.start()
            yield made
            clear(made)
            left = [str(path) for path in (made.root_dir / "pods").iterdir()]
            assert left == [], "the kubelet left directories of pods behind"
    finally:
        shutil.rmtree(root)


@pytest.fixture
def node(shared_node: PodNode) -> Iterator[PodNode]:
    """The kubelet of the file, up and without pods."""
    yield shared_node
    try:
        clear(shared_node)
    except BaseException:
        _renew(shared_node)  # the next test does not suffer for it
        raise


def clear(node: PodNode) -> None:
    """Have every pod of a node end, whoever wanted it."""
    if not node.running:
        node.start()
    withdraw(node)
    wait_for("all pods are gone", lambda: not node.pods(), SECONDS, PAUSE)
    wait_for("the runtime has no pod", lambda: not node.cache.uids(), SECONDS, PAUSE)


def withdraw(node: PodNode, *kept: str) -> None:
    """Have no source want a pod any more, except for the manifests of these files."""
    for path in node.manifests.iterdir():
        if path.name in kept:
            continue
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    for row in node.pods().values():
        if row.source == "local":
            node.delete(row.name, "--grace-period=1", "--ignore-not-found")


def _renew(node: PodNode) -> None:
    """Set a kubelet up anew, in whatever state it is: nothing that it knew or made stays."""
    node.end()
    os.unlink(node.notify_path)
    node.containerd.reset()
    unmount_below(node.disk)
    shutil.rmtree(node.run_dir)
    for directory in (node.root_dir, node.manifests, node.logs):
        shutil.rmtree(directory)
        directory.mkdir()
    node.start()


def with_client(
    containerd: Containerd, work: Callable[[RuntimeClient], Awaitable[Answer]]
) -> Answer:
    """Do something with a client of a runtime."""

    async def main() -> Answer:
        async with await RuntimeClient.connect(containerd.endpoint) as client:
            return await work(client)

    return asyncio.run(main())


# Pods.


def pod(name: str, *containers: Document, patient: bool = False, **more: Any) -> Document:
    """A pod's document; a patient one has a long grace, for tests of what happens in it.

    A shell that is told to end before its trap is set does not hear it: the others need not wait.
    """
    more.setdefault("terminationGracePeriodSeconds", 60 if patient else 2)
    return plain.pod(name, *containers, **more)


def run(
    node: PodNode,
    name: str,
    script: str,
    *,
    meta: Document | None = None,
    spec: Document | None = None,
    **container: Any,
) -> str:
    """Run a script as the one container of a pod to its good end; what it wrote."""
    more = {"restartPolicy": "Never", **(spec or {})}
    full = node.write(pod(name, sh(script, **container), meta=meta, **more))
    node.await_phase(full, "Succeeded")
    return node.output(full)


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


# What is said of them.


def container_of(status: Document, name: str = "c") -> Document:
    """The status of a container in a pod's status; empty when there is none."""
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    every = [c for kind in kinds for c in status.get(kind, [])]
    return next((dict(c) for c in every if c["name"] == name), {})


def state_of(status: Document, name: str = "c") -> Document:
    """The state of a container in a pod's status; empty when it has none."""
    return dict(container_of(status, name).get("state", {}))


def running(name: str = "c") -> Callable[[Document], bool]:
    """Whether a status says that a container runs."""
    return lambda status: "running" in state_of(status, name)


def restarts(status: Document, name: str = "c") -> int:
    """How often a container was started again."""
    return int(container_of(status, name).get("restartCount", 0))


def condition(status: Document, kind: str) -> tuple[str, str]:
    """The status and reason of a condition."""
    found: Document = next((c for c in status.get("conditions", []) if c["type"] == kind), {})
    return str(found.get("status", "")), str(found.get("reason", ""))


def waiting(node: PodNode, name: str, *reasons: str, container: str = "c") -> Document:
    """Wait until a container waits for one of these reasons; that state."""

    def look(status: Document) -> bool:
        return state_of(status, container).get("waiting", {}).get("reason") in reasons

    status = node.await_status(name, f"{name} waits for {', '.join(reasons)}", look)
    found: Document = state_of(status, container)["waiting"]
    return found


def problem(node: PodNode, *words: str) -> str:
    """Wait until the sources complain of something with these words; the sentence."""

    def look() -> str | None:
        problems = node.sources().problems
        return next((p for p in problems if all(word in p for word in words)), None)

    try:
        return str(wait_for(f"a complaint with {words}", look, SECONDS, PAUSE))
    except AssertionError as err:
        raise AssertionError(f"{err}: {node.sources().problems}") from None
