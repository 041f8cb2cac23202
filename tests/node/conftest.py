"""The fixtures of this directory, for its own tests."""

from tests.node.fixtures import (
    containerd,
    containerd16,
    containerd24,
    containerds,
    crictl,
    private_registry,
    pytest_collection_finish,
    pytest_configure,
    pytest_generate_tests,
    registry,
    shared_containerd,
)
from tests.node.shared import node, shared_node

__all__ = [
    "containerd",
    "containerd16",
    "containerd24",
    "containerds",
    "crictl",
    "node",
    "private_registry",
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_generate_tests",
    "registry",
    "shared_containerd",
    "shared_node",
]
