"""``make run``: a real pod on a real containerd from a checkout alone, and ``make stop``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node import pod_node
from tests.node.fixtures import RUNTIME_PACKAGES, need, sayer, why_not_here
from tests.node.leftovers import Leftovers
from tests.node.settings import Place
from tests.processes.node import cgroups_of, free_port, wait_for
from tests.tools.install import ensure_packages

ROOT = Path(__file__).parents[2]
SECONDS = 240  # that a start may take on a machine that has other things to do
LOG_LINKS = Path("/var/log/containers")


class Demo:
    """A node that ``make`` starts and stops, in a run directory of its own."""

    def __init__(self, root: Path) -> None:
        self.run_dir = root / "run"
        self.keeper = root / "run-containerd"
        self._log = root / "kubelet.log"
        self._leftovers: Leftovers | None = None
        self._directory: Path | None = None

    def make(self, target: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Run make as a user does: not as a part of the make that may run the tests."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        flags = f"--port={free_port()} --healthz-port=0 --hostname-override=node-1"
        given = (f"RUN_DIR={self.run_dir}", f"LOG={self._log}", f"ARGS={flags}", *more)
        return subprocess.run(
            ["make", target, *given],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def start(self) -> str:
        """Start it in the background; what was printed."""
        done = self.make("run", "DETACH=1")
        log = self._log.read_text() if self._log.exists() else ""
        assert done.returncode == 0, done.stdout + done.stderr + log
        self._remember()
        return done.stdout

    def stop(self) -> str:
        """Stop it; what was printed."""
        done = self.make("stop")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ctl(self, *words: str) -> Any:
        """What kubeletctl says, as JSON."""
        command = [sys.executable, "-m", "kubeletctl.main", "--run-dir", str(self.run_dir)]
        done = subprocess.run(
            [*command, *words, "-o", "json"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return json.loads(done.stdout)

    def keeper_pid(self) -> int:
        """The process that has the containerd."""
        inode = str((self.keeper / "lock").stat().st_ino)
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        (pid,) = {int(w[4]) for w in locks if w[1] == "FLOCK" and w[5].endswith(f":{inode}")}
        return pid

    def left(self) -> list[str]:
        """What is still there of the node, its runtime and its pods."""
        assert self._leftovers is not None
        assert self._directory is not None
        here = (self.run_dir, self.keeper, self._directory)
        links = LOG_LINKS.iterdir() if LOG_LINKS.is_dir() else ()
        return [
            *self._leftovers.find(),
            *(str(path) for path in here if path.exists()),
            *(str(link) for link in links if os.readlink(link).startswith(f"{self._directory}/")),
            *cgroups_of(self.run_dir),
        ]

    def _remember(self) -> None:
        """Take note of what the runtime has made, as long as it is there to be asked."""
        endpoint = self.ctl("config")["containerRuntimeEndpoint"]
        self._directory = Path(endpoint.removeprefix("unix://")).parent
        self._leftovers = Leftovers(Place.load(self._directory))
        self._leftovers.remember()


@pytest.fixture
def demo(request: pytest.FixtureRequest, run_root: Path) -> Iterator[Demo]:
    """A node that is gone at the end, whatever the test did."""
    reason = why_not_here()
    if reason:
        pytest.skip(reason)
    need(ensure_packages(*RUNTIME_PACKAGES, say=sayer(request.config)))
    demo = Demo(run_root)
    yield demo
    demo.stop()


@pytest.mark.timeout(900)
def test_a_pod_is_ready_and_nothing_is_left(demo: Demo) -> None:
    """The start returns when the demo pod is ready and shows it; a stop leaves no trace."""
    printed = demo.start()

    assert "hello-node-1" in printed
    (pod,) = demo.ctl("pods")
    assert pod["ready"]
    assert pod["status"] == "Running"
    (document,) = demo.ctl("get", "pods")["items"]
    assert pod_node.is_ready(document["status"])
    assert document["status"]["podIP"]
    assert demo.left()

    assert "nothing of its pods is left" in demo.stop()
    assert demo.left() == []


@pytest.mark.timeout(900)
def test_what_a_killed_run_leaves_is_removed(demo: Demo) -> None:
    """A run that was killed leaves a containerd and pods behind; a stop removes them."""
    demo.start()
    os.kill(demo.keeper_pid(), signal.SIGKILL)

    assert "Cleaned up after an earlier run" in demo.stop()
    wait_for("nothing is left", lambda: demo.left() == [], 5)


def test_without_root_it_says_what_it_needs() -> None:
    """One sentence names what is missing, and what works instead."""
    command = [sys.executable, str(ROOT / "scripts/with_containerd.py"), "prepare"]
    if os.geteuid() == 0:  # in a user namespace without a map nobody is root
        if subprocess.run(["unshare", "--user", "true"], check=False).returncode:
            pytest.skip("no user namespaces here")
        command = ["unshare", "--user", *command]

    asked = subprocess.run(command, capture_output=True, text=True, check=False)

    assert asked.returncode == 1
    assert asked.stderr.count("\n") == 1
    assert "need root" in asked.stderr
    assert "RUNTIME=sim" in asked.stderr
