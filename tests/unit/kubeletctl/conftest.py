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

from kubelet.pods.rows import Ending, Wait, WorkerState
from tests.unit.kubeletctl.harness import ACTOR, ENVIRONMENT, Tree
from tests.unit.kubeletctl.podfiles import IMAGE, Tables, ago, container, pod, status, text_ago


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


@pytest.fixture
def tables(run_dir: Path) -> Iterator[Tables]:
    """The tables that a kubelet has left in the run directory."""
    (run_dir / "recorder").mkdir()
    tables = Tables(run_dir).make()
    yield tables
    tables.close()


@pytest.fixture
def node(run_dir: Path, tables: Tables) -> Tree:
    """Four pods: one runs, one has restarted, one waits, one is being deleted."""
    last = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": text_ago(615)}}
    tables.pod(pod("web"), status())
    tables.pod(
        pod("db", "data", spec={"readinessGates": [{"conditionType": "Ready"}]}),
        status({**container(restarts=2), "lastState": last}),
    )
    tables.pod(
        pod("job"),
        status(container(waiting={"reason": "ImagePullBackOff"}), ready=False, phase="Pending"),
        waits=(Wait(IMAGE, ago(10), tried="refused"),),
        step="getting an image",
        since_ns=ago(9),
    )
    tables.pod(
        pod("old", state=WorkerState.TERMINATING, ending=Ending(grace=5, removed=True)), status()
    )
    tables.pod(
        pod("gone", state=WorkerState.FINISHED, ending=Ending(removed=True)), status(ready=False)
    )
    return Tree(run_dir)
