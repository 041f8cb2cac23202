"""One kubelet for all tests of a file: a test adds pods of its own, which go when it ends.

A file may say how its kubelet is to be in ``CONFIG`` (fields of its configuration file) and in
``arguments(request, directory)`` (flags; the directory is for the files that they name).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.containerd import Containerd
from tests.node.module_nodes import state_of
from tests.node.pod_node import SECONDS, Document, PodNode, pod, pod_node, sh
from tests.processes.node import wait_for

__all__ = ["SECONDS", "node", "run", "shared_node", "waiting"]


@pytest.fixture(scope="module")
def shared_node(request: pytest.FixtureRequest, shared_containerd: Containerd) -> Iterator[PodNode]:
    """The kubelet of a file; when it ends, no pod and nothing of any pod is left."""
    module = request.module
    options = {"config": getattr(module, "CONFIG", {})}
    arguments = getattr(module, "arguments", None)
    root = Path(tempfile.mkdtemp(prefix="kt-", dir="/dev/shm"))
    root.chmod(0o755)  # processes without root must get through
    try:
        given = arguments(request, root) if arguments is not None else ()
        with pod_node(shared_containerd, root, arguments=given, **options) as node:
            node.start()
            yield node
            _empty(node)
            wait_for("all pods are gone", lambda: not node.pods(), SECONDS)
            left = [str(path) for path in (node.root_dir / "pods").iterdir()]
            assert left == [], "the kubelet left directories of pods behind"
    finally:
        shutil.rmtree(root)


@pytest.fixture
def node(shared_node: PodNode) -> Iterator[PodNode]:
    """The kubelet of the file, without the pods that the tests before have made."""
    yield shared_node
    _empty(shared_node)


def _empty(node: PodNode) -> None:
    """Have no source want a pod any more; they end beside whatever is done next."""
    for path in node.manifests.iterdir():
        path.unlink()
    for row in node.pods().values():
        if row.source == "local":
            node.delete(row.name, "--grace-period=1", "--ignore-not-found")


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
    node.await_phase(full, "Succeeded", SECONDS)
    return node.output(full)


def waiting(node: PodNode, name: str, *reasons: str, container: str = "c") -> Document:
    """Wait until a container waits for one of these reasons; that state."""

    def look(status: Document) -> bool:
        return state_of(status, container).get("waiting", {}).get("reason") in reasons

    status = node.await_status(name, f"{name} waits for {', '.join(reasons)}", look, SECONDS)
    found: Document = state_of(status, container)["waiting"]
    return found
