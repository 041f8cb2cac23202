"""``scripts/node.py``: starting in the background and stopping, with real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NODE = ROOT / "scripts/node.py"
STAND_IN = Path(__file__).with_name("stand_in.py")


class Node:
    """A run directory and a log, and ``scripts/node.py`` applied to them."""

    def __init__(self, directory: Path) -> None:
        self.run_dir = directory / "run"
        self.log = directory / "kubelet.log"

    def start(self, manner: str, seconds: float = 20) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, STAND_IN, self.run_dir, manner]
        options = ["--run-dir", self.run_dir, "--log", self.log, "--seconds", str(seconds)]
        return self._run("start", *options, "--", *command)

    def stop(self, seconds: float = 20) -> subprocess.CompletedProcess[str]:
        return self._run("stop", "--run-dir", self.run_dir, "--seconds", str(seconds))

    def _run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, NODE, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def pid_of(output: str) -> int:
    found = re.search(r"\(pid (\d+)\)", output)
    assert found, output
    return int(found[1])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.stop()


def test_start_returns_when_the_process_is_ready(node: Node) -> None:
    """A start shows the statuses on the way, returns on READY=1 and leaves the process running."""
    result = node.start("ready")

    assert result.returncode == 0, result.stderr
    assert "Starting 7 processes" in result.stdout
    os.kill(pid_of(result.stdout), 0)
    assert "stand-in at work" in node.log.read_text()


def test_stop_returns_when_the_process_is_gone(node: Node) -> None:
    """A stop ends the process of the run directory and returns only then."""
    pid = pid_of(node.start("ready").stdout)

    result = node.stop()

    assert result.returncode == 0, result.stderr
    assert f"(pid {pid})" in result.stdout
    assert "Stopped" in result.stdout
    assert "No kubelet runs" in node.stop().stdout


def test_stop_says_that_nothing_runs(node: Node) -> None:
    """A stop with no run directory at all, or with a lock nobody holds, is no error."""
    assert "No kubelet runs" in node.stop().stdout
    node.run_dir.mkdir()
    (node.run_dir / "lock").touch()

    result = node.stop()

    assert result.returncode == 0
    assert "No kubelet runs" in result.stdout


def test_second_start_leaves_the_first_alone(node: Node) -> None:
    """A start beside a running kubelet says so and starts nothing."""
    pid = pid_of(node.start("ready").stdout)

    result = node.start("ready")

    assert result.returncode == 0
    assert f"already runs in {node.run_dir} (pid {pid})" in result.stdout


def test_failed_start_shows_why(node: Node) -> None:
    """A process that ends before it is ready fails the start at once, with its status and log."""
    began = time.monotonic()

    result = node.start("fails")

    assert result.returncode == 1
    assert "stand-in at work, fails" in result.stderr
    assert "ended before it was up (exit status 3)" in result.stderr
    assert time.monotonic() - began < 10


def test_start_that_never_gets_ready_is_ended(node: Node) -> None:
    """A process that says nothing is ended when time is up, and the run directory is free."""
    result = node.start("silent", seconds=0.5)

    assert result.returncode == 1
    assert "not up after 0.5 s (exit status 0)" in result.stderr
    assert "No kubelet runs" in node.stop().stdout


def test_stop_that_takes_too_long_says_what_to_do(node: Node) -> None:
    """A process that does not heed SIGTERM in time is left alone and named."""
    pid = pid_of(node.start("deaf").stdout)

    result = node.stop(seconds=0.3)

    assert result.returncode == 1
    assert f"kill -KILL {pid}" in result.stderr
    pidfd = os.pidfd_open(pid)
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)


def test_start_keeps_the_log_of_the_run_before(node: Node) -> None:
    """A new start begins a new log and keeps one old one."""
    node.start("fails")

    node.start("ready")

    assert "fails" in node.log.with_name("kubelet.log.1").read_text()
    assert "ready" in node.log.read_text()
