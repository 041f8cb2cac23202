"""The fixtures of this directory, for its own tests."""

from tests.node.fixtures import (
    containerd,
    containerd16,
    containerd24,
    containerds,
    crictl,
    private_registry,
    pytest_collection_finish,
    registry,
)

__all__ = [
    "containerd",
    "containerd16",
    "containerd24",
    "containerds",
    "crictl",
    "private_registry",
    "pytest_collection_finish",
    "registry",
]
