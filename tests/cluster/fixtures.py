"""Fixtures: one control plane for the session, one node for a file, one namespace for a test.

    plane      the control plane, running
    node       a node of the file, ready and without pods, with a namespace of the test's own

A file may say how its kubelet is to be in ``CONFIG`` (fields of its configuration file) and
``ARGUMENTS`` (flags).
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.admin import Admin
from tests.cluster.cluster_node import ClusterNode, cluster_node
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.node import fixtures as runtimes
from tests.node.containerd import Containerd
from tests.node.fixtures import Instances, need, sayer
from tests.tools.install import ensure, ensure_packages

PACKAGES = ("etcd-server",)
# What is ended before its pods, or it would make them anew.
OWNERS = (
    ("apps/v1", "deployments"),
    ("apps/v1", "daemonsets"),
    ("apps/v1", "replicasets"),
    ("batch/v1", "jobs"),
)

_numbers = itertools.count(1)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install what the collected tests will ask for, before any test's time begins."""
    runtimes.pytest_collection_finish(session)
    here = Path(__file__).parent
    asked = any(here in item.path.parents for item in session.items)
    if asked and not session.config.option.collectonly and runtimes.why_not_here() is None:
        say = sayer(session.config)
        ensure_packages(*PACKAGES, say=say)
        ensure("kubernetes", say)


@pytest.fixture(scope="session")
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The session's control plane."""
    say = sayer(request.config)
    need(ensure_packages(*PACKAGES, say=say))
    tools = need(ensure("kubernetes", say))
    with control_plane(tools) as made:
        yield made


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A short directory on a tmpfs for the kubelet of a file."""
    made = Path(tempfile.mkdtemp(prefix="kt-", dir="/dev/shm"))
    made.chmod(0o755)  # processes without root must get through
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def shared_cluster_node(
    request: pytest.FixtureRequest,
    plane: ControlPlane,
    shared_containerd: Containerd,
    root: Path,
) -> Iterator[ClusterNode]:
    """The node of a file; when it ends, nothing of any pod is left."""
    name = request.module.__name__.rpartition(".")[2].removeprefix("test_").replace("_", "-")
    options = {
        "config": getattr(request.module, "CONFIG", None),
        "arguments": getattr(request.module, "ARGUMENTS", ()),
    }
    with cluster_node(plane, shared_containerd, root, name, **options) as made:
        yield made.start()


@pytest.fixture
def node(shared_cluster_node: ClusterNode) -> Iterator[ClusterNode]:
    """The node of the file, without pods, and with a namespace that no other test has."""
    node = shared_cluster_node
    node.namespace = f"t{next(_numbers)}"
    make_namespace(node.plane, node.namespace)
    yield node
    clear(node)


def make_namespace(plane: ControlPlane, name: str) -> None:
    """A namespace in which pods can be made."""
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    plane.await_default_account(name)


def clear(node: ClusterNode) -> None:
    """End everything of a test's namespace and every pod of the node."""
    for group, resource in OWNERS:
        _delete_all(node.admin, f"/apis/{group}/namespaces/{node.namespace}/{resource}")
    node.clear()
    node.admin.delete(f"/api/v1/namespaces/{node.namespace}")  # in its own time


def _delete_all(admin: Admin, collection: str) -> None:
    admin.request("DELETE", collection, {"propagationPolicy": "Background"})


__all__ = [
    "Instances",
    "node",
    "plane",
    "pytest_collection_finish",
    "root",
    "shared_cluster_node",
]
