"""One kubelet for all tests of a file: a test adds pods of its own, which go when it ends.

A file may say how its kubelet is to be in ``CONFIG`` (fields of its configuration file) and in
``arguments(request, directory)`` (flags; the directory is for the files that they name).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.node.containerd import Containerd
from tests.node.pod_node import PodNode, pod_node
from tests.processes.node import wait_for

SECONDS = 60.0  # how long anything may take on a machine that others use too


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
    """Take every manifest away; the pods end beside whatever is done next."""
    for path in node.manifests.iterdir():
        path.unlink()
