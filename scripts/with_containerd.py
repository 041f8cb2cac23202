#!/usr/bin/env python3
"""Runs a kubelet on a containerd of its own, with images made on the spot: behind ``make run``.

The containerd is Debian's, in a directory, with a bridge and cgroups of its own, so that nothing of
this machine's runtime is touched and no registry is needed. It lives as long as the kubelet: what
ends the one ends the other, and then every trace of both is removed. One that was killed is
cleaned up after by the next start, and by ``make stop``.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from node import keeper_directory, lock_holder

CHECKOUT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))  # a private containerd is what the tests have, too

from kubelet.startup import TUNABLES  # noqa: E402  # after the path
from tests.node import images  # noqa: E402
from tests.node.containerd import Containerd, base_directory, sweep  # noqa: E402
from tests.node.fixtures import RUNTIME_PACKAGES, why_not_here  # noqa: E402
from tests.node.pod_node import remove_links  # noqa: E402
from tests.tools.install import Skip, ensure_packages  # noqa: E402

VERSION: Final = "1.6"  # Debian's
DEMO_IMAGE: Final = "kubelet.demo/busybox:1"
LOG_LINKS: Final = Path("/var/log/containers")
SYSCTLS: Final = Path("/proc/sys")
INTERRUPTED: Final = 130


class DemoError(Exception):
    """What stood in the way, in words for the person at the terminal."""


def say(line: str) -> None:
    """Tell what is being done, also to whoever waits for the kubelet in the background."""
    print(f"==> {line}", flush=True)
    if address := os.environ.get("NOTIFY_SOCKET"):
        notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with notifications, contextlib.suppress(OSError):  # nobody may wait any more
            notifications.sendto(f"STATUS={line}".encode(), address.replace("@", "\0", 1))


class Signals:
    """SIGINT and SIGTERM: noted until the kubelet runs, then handed on to it, each one once.

    Nothing is ever broken off by them: the steps before and after the kubelet are short, and each
    must be undone in full.
    """

    def __init__(self) -> None:
        self.received = 0
        self._sent = 0
        self._pid: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._take)

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        self.received += 1
        self._deliver()

    def _deliver(self) -> None:
        while self._pid is not None and self._sent < self.received:
            self._sent += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)

    def run(self, command: Sequence[str]) -> int:
        """Run the command to its end and return its exit status."""
        # A group of its own: Ctrl-C of a terminal reaches it once, through here.
        process = subprocess.Popen(command, process_group=0)
        self._pid = process.pid
        self._deliver()
        status = process.wait()
        self._pid = None
        return status if status >= 0 else 128 - status


def prepare() -> list[images.Image]:
    """See that this machine can run containers, and return the images of the demo."""
    if os.geteuid() != 0:
        raise DemoError(
            "containers need root: run 'sudo make run', "
            "or 'make run RUNTIME=sim' for a simulated runtime"
        )
    for missing in (ensure_packages(*RUNTIME_PACKAGES, say=say), _forbidden()):
        if missing is not None:
            raise DemoError(
                f"no containerd can run here: {missing.reason}. "
                "'make run RUNTIME=sim' has a simulated runtime, RUNTIME=host takes the "
                "containerd that this machine runs"
            )
    built = []
    for image in (images.pause(), images.busybox(DEMO_IMAGE)):
        if isinstance(image, Skip):
            raise DemoError(f"the images of the demo cannot be built: {image.reason}")
        built.append(image)
    return built


def _forbidden() -> Skip | None:
    reason = why_not_here()
    return Skip(reason) if reason else None


def run(run_dir: Path, manifests: Path, command: Sequence[str]) -> int:
    """Run the kubelet until it ends; return its exit status. Nothing is left of either."""
    if (pid := lock_holder(run_dir)) is not None:
        raise DemoError(f"a kubelet already runs in {run_dir} (pid {pid}); 'make stop' ends it")
    local = prepare()
    signals = Signals()
    with ExitStack() as stack:
        stack.enter_context(_kept(run_dir))
        stack.enter_context(_restored_settings())
        runtime = stack.enter_context(_containerd(local))
        if signals.received:
            return INTERRUPTED
        return signals.run(_command(command, runtime, manifests))


@contextmanager
def _kept(run_dir: Path) -> Iterator[None]:
    """Hold the lock that says that this run directory has a containerd; clean up before and after.

    The run directory goes at the end unless somebody else's state was in it before.
    """
    keeper = keeper_directory(run_dir)
    keeper.mkdir(parents=True, exist_ok=True)
    with (keeper / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(f"'make run' or 'make stop' is at work in {run_dir}") from None
        clean_up(run_dir)
        ours = not run_dir.exists()
        if ours:
            (keeper / "ours").touch()
        try:
            yield
        finally:
            _remove_run_dir(run_dir)
            shutil.rmtree(keeper)


def clean_up(run_dir: Path) -> None:
    """Remove what a run that was killed has left."""
    for name in sweep():
        remove_links(base_directory() / name)
        say(f"Cleaned up after an earlier run that was killed ({name})")
    _remove_run_dir(run_dir)


def _remove_run_dir(run_dir: Path) -> None:
    if (keeper_directory(run_dir) / "ours").exists():
        shutil.rmtree(run_dir, ignore_errors=True)


@contextmanager
def _restored_settings() -> Iterator[None]:
    """Put the kernel settings back that a kubelet makes, for this one goes without a trace."""
    before = {name: (SYSCTLS / name).read_text() for name in TUNABLES if (SYSCTLS / name).exists()}
    try:
        yield
    finally:
        for name, value in before.items():
            if (SYSCTLS / name).read_text() != value:
                (SYSCTLS / name).write_text(value)


@contextmanager
def _containerd(local: Sequence[images.Image]) -> Iterator[Containerd]:
    """A running containerd that has these images; afterwards it is gone with all its pods."""
    say(f"Starting a containerd {VERSION} of its own, with {' and '.join(i.name for i in local)}")
    had_links = LOG_LINKS.exists()
    try:
        runtime = Containerd(VERSION)
    except RuntimeError as failure:
        raise DemoError(f"no network for pods: {failure}") from None
    try:
        try:
            runtime.start()
            runtime.keep(*local)
        except AssertionError as failure:  # its own words, with the end of the log
            raise DemoError(str(failure)) from None
        yield runtime
    finally:
        say("Removing the pods, the containerd and everything that they made")
        runtime.close()
        remove_links(runtime.directory)
        if not had_links:
            with contextlib.suppress(OSError):  # somebody else's links are there by now
                LOG_LINKS.rmdir()


def _command(given: Sequence[str], runtime: Containerd, manifests: Path) -> list[str]:
    """Return the kubelet's command line for this runtime; flags that were given win."""
    here = runtime.directory / "kubelet"
    drop_ins = here / "config.d"
    drop_ins.mkdir(parents=True)
    settings = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": runtime.endpoint,
        "staticPodPath": str(manifests),
        "podLogsDir": str(here / "logs"),
        "cgroupRoot": runtime.cgroup_parent,
    }
    (drop_ins / "50-containerd.conf").write_text(json.dumps(settings, indent=2))
    own = [f"--config-dir={drop_ins}", f"--root-dir={here}/root", f"--cert-dir={here}/root/pki"]
    return [given[0], *own, *given[1:]]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Run a kubelet on a containerd of its own.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("prepare", help="install what is missing")
    running = verbs.add_parser("run", help="run a kubelet until it ends")
    running.add_argument("--manifests", type=Path, required=True, help="pods that it shall run")
    running.add_argument("command", nargs="+", help="the kubelet's command line, after --")
    cleaning = verbs.add_parser("clean", help="remove what a run that was killed has left")
    for verb in (running, cleaning):
        verb.add_argument("--run-dir", type=Path, required=True)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit status."""
    options = parse(arguments)
    try:
        if options.verb == "run":
            return run(options.run_dir, options.manifests, options.command)
        if options.verb == "clean":
            with _kept(options.run_dir):
                return 0
        prepare()
    except (DemoError, OSError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
