"""The client in a tree of processes: loaded before the fork, opened after it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture
def server(sockets):
    """A runtime in a process of its own."""
    path = sockets / "runtime.sock"
    command = [sys.executable, "-m", "tests.unit.cri.runtime", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        yield path
        process.kill()


def forking(path, what):
    command = [sys.executable, "-m", "tests.unit.cri.forking", str(path), what]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return run.stdout.strip()


def test_loaded_before_the_fork_it_works_in_every_child(server):
    """Ten children of a parent with the client loaded: ten of ten, and the parent has no thread."""
    assert forking(server, "imported") == "10 of 10, 1 thread"


def test_opened_before_the_fork_it_is_refused_in_the_child(server):
    """An error at once, where gRPC would hang or crash; the parent's channel goes on."""
    assert forking(server, "opened") == "refused"
