"""Fixtures that run a real kubelet: the whole tree, in a run directory of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes.node import Node


@pytest.fixture
def run_root() -> Iterator[Path]:
    """A short directory on a tmpfs: socket addresses have room for 107 bytes."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    root = Path(tempfile.mkdtemp(prefix="kt-", dir=base))
    root.chmod(0o755)  # processes without root must get through
    yield root
    shutil.rmtree(root)


@pytest.fixture
def make_node(run_root: Path) -> Iterator[Callable[..., Node]]:
    """A maker of nodes; each is ended, and what it left behind is an error."""
    nodes: list[Node] = []

    def make(*arguments: str, **options: object) -> Node:
        node = Node(run_root, f"n{len(nodes)}", arguments, **options)
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.end()
    for node in nodes:
        node.assert_nothing_left()


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    """A node that is up."""
    return make_node().start()
