"""A stand-in for the tree in a run directory of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.kubeletctl.harness import ACTOR, ENVIRONMENT, Tree


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A short path on tmpfs, as sockets and tables want it."""
    path = Path(tempfile.mkdtemp(prefix="kctl-", dir="/dev/shm"))
    yield path
    shutil.rmtree(path)


@contextmanager
def _acting(run_dir: Path, *options: str) -> Iterator[Tree]:
    with subprocess.Popen(
        [sys.executable, str(ACTOR), str(run_dir), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as actor:
        assert actor.stdout is not None
        assert actor.stdout.readline() == "ready\n"
        yield Tree(run_dir)
        assert actor.stdin is not None
        actor.stdin.close()
        actor.wait(10)


@pytest.fixture
def tree(run_dir: Path) -> Iterator[Tree]:
    """Eight processes that live until the end of the test."""
    with _acting(run_dir) as tree:
        yield tree


@pytest.fixture
def free_tree(run_dir: Path) -> Iterator[Tree]:
    """The same, whose tables are for the test to write."""
    with _acting(run_dir, "free") as tree:
        yield tree


@pytest.fixture
def pod_tree(run_dir: Path) -> Iterator[Tree]:
    """The same, where syncloop takes pods and ends them."""
    with _acting(run_dir, "pods") as tree:
        yield tree


@pytest.fixture
def answering_tree(run_dir: Path) -> Iterator[Tree]:
    """The same, where pleg has an event loop that answers requests."""
    with _acting(run_dir, "answer") as tree:
        yield tree
