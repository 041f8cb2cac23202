"""The fixtures of this directory, for its own tests."""

from tests.cluster.fixtures import (
    node,
    plane,
    pytest_collection_finish,
    root,
    shared_cluster_node,
)
from tests.node.fixtures import (
    containerds,
    private_registry,
    pytest_configure,
    pytest_generate_tests,
    registry,
    shared_containerd,
)

__all__ = [
    "containerds",
    "node",
    "plane",
    "private_registry",
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_generate_tests",
    "registry",
    "root",
    "shared_cluster_node",
    "shared_containerd",
]
