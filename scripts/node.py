#!/usr/bin/env python3
"""Starts a kubelet in the background and stops it again.

This is behind ``make run DETACH=1`` and ``make stop``. Nothing here polls: the start waits for
READY=1 on a notification socket of its own and for the process's pidfd at once, the stop waits for
the pidfd. Whether a kubelet runs is answered by the kernel: its supervisor holds a lock on ``<run
directory>/lock`` as long as it lives, and ``with_containerd.py`` one in a directory beside it.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOG_TAIL_LINES: Final = 40
STOP_SECONDS: Final = 45.0  # the stages of a stop take 30 s at the very most; deploy/ says so too
KEEPER_SECONDS: Final = 90.0  # the same, and then pods and a containerd are removed
ABANDON_SECONDS: Final = 30.0  # for a kubelet that was told to stop because it did not come up
NOTIFICATION_BYTES: Final = 4096


class NodeError(Exception):
    """What stood in the way, in words for the person at the terminal."""


def keeper_directory(run_dir: Path) -> Path:
    """Return where ``with_containerd.py`` holds its lock as long as it has a containerd."""
    return run_dir.with_name(f"{run_dir.name}-containerd")


def lock_holder(run_dir: Path) -> int | None:
    """Return the pid of the supervisor that holds the run directory, or None.

    The kernel's list is read instead of trying the lock: a try that succeeds would stand in the
    way of a kubelet starting at that instant.
    """
    try:
        stat = (run_dir / "lock").stat()
    except FileNotFoundError:
        return None
    device = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[1] == "FLOCK" and words[5] == device:  # a waiter has "->" in words[1]
            return int(words[4])
    return None


def wait_gone(pid: int, seconds: float, *signals: signal.Signals) -> bool:
    """Send the signals to a process and return whether it is gone within that time."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        for each in signals:
            signal.pidfd_send_signal(pidfd, each)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    except ProcessLookupError:
        return True
    finally:
        os.close(pidfd)


@contextmanager
def notify_socket() -> Iterator[tuple[socket.socket, str]]:
    """Open a notification socket that only this user can reach; yield it with its address."""
    with (
        tempfile.TemporaryDirectory(prefix="kubelet-") as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications,
    ):
        address = str(Path(directory, "notify"))
        notifications.bind(address)
        yield notifications, address


def await_ready(notifications: socket.socket, pid: int, seconds: float) -> None:
    """Return when READY=1 arrives; raise NodeError when the process ends or time is up first."""
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(notifications, select.POLLIN)
        poll.register(pidfd, select.POLLIN)
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            ready = {fd for fd, _ in poll.poll(left * 1000)}
            if notifications.fileno() in ready:
                if _take_notification(notifications):
                    return
            elif pidfd in ready:
                raise NodeError("the kubelet ended before it was up")
    finally:
        os.close(pidfd)
    raise NodeError(f"the kubelet is not up after {seconds:g} s")


def _take_notification(notifications: socket.socket) -> bool:
    """Show a STATUS, and return whether the notification says READY=1."""
    lines = notifications.recv(NOTIFICATION_BYTES).decode(errors="replace").splitlines()
    for line in lines:
        if line.startswith("STATUS="):
            print(f"    {line.removeprefix('STATUS=')}", flush=True)
    return "READY=1" in lines


def start(run_dir: Path, log: Path, seconds: float, command: Sequence[str]) -> None:
    """Start the command in a session of its own and return when it says that it is ready."""
    if (pid := lock_holder(run_dir)) is not None:
        print(f"==> A kubelet already runs in {run_dir} (pid {pid}); 'make stop' ends it")
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_name(log.name + ".1"))
    print(f"==> Starting a node in the background; its log is {log}", flush=True)
    began = time.monotonic()
    with notify_socket() as (notifications, address), log.open("xb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=_environment(address),
        )
        try:
            await_ready(notifications, process.pid, seconds)
        except (NodeError, KeyboardInterrupt) as failure:
            raise NodeError(_give_up(process, log, failure)) from None
    print(f"==> Up after {time.monotonic() - began:.1f} s (pid {process.pid})", flush=True)


def _environment(address: str) -> dict[str, str]:
    """Return this environment without what another service manager meant for this process."""
    theirs = {"WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}
    mine = {name: value for name, value in os.environ.items() if name not in theirs}
    return mine | {"NOTIFY_SOCKET": address}


def _give_up(process: subprocess.Popen[bytes], log: Path, failure: BaseException) -> str:
    """End a kubelet that did not come up, show the end of its log, and return why."""
    if process.poll() is None and not wait_gone(process.pid, ABANDON_SECONDS, signal.SIGTERM):
        wait_gone(process.pid, ABANDON_SECONDS, signal.SIGKILL)
    status = process.wait()
    for line in log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]:
        print(f"    {line}", file=sys.stderr)
    cause = str(failure) or "interrupted"
    ended = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    return f"{cause} ({ended}); its log is {log}"


def stop(run_dir: Path, seconds: float) -> None:
    """Ask the kubelet of a run directory to stop, and return when it is gone.

    One with a containerd of its own is stopped through its keeper, which cleans up afterwards. A
    keeper that was killed has left its directory, and the work to do now.
    """
    keeper = lock_holder(keeper_directory(run_dir))
    pid = keeper or lock_holder(run_dir)
    if pid is None:
        print(f"==> No kubelet runs in {run_dir}")
    else:
        print(f"==> Stopping the kubelet in {run_dir} (pid {pid})", flush=True)
        left = "nothing of its pods is left" if keeper else "pods, if any, go on"
        took = _end(run_dir, pid, max(seconds, KEEPER_SECONDS) if keeper else seconds)
        print(f"==> Stopped after {took:.1f} s; {left}", flush=True)
    if keeper_directory(run_dir).exists():
        cleaner = str(Path(__file__).with_name("with_containerd.py"))
        clean = [sys.executable, cleaner, "clean", "--run-dir", str(run_dir)]
        if subprocess.run(clean, check=False).returncode:
            raise NodeError("what a run that was killed has left could not be removed")


def _end(run_dir: Path, pid: int, seconds: float) -> float:
    """Ask a process to end, and return how long that took."""
    began = time.monotonic()
    try:
        gone = wait_gone(pid, seconds, signal.SIGTERM)
    except PermissionError:
        raise NodeError(f"pid {pid} belongs to another user: stop it as that user") from None
    if not gone:
        raise NodeError(
            f"it still runs after {seconds:g} s; 'kubeletctl --run-dir {run_dir} status' shows "
            f"what it waits for, 'kill -KILL {pid}' ends it (pods go on either way)"
        )
    return time.monotonic() - began


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Start or stop a kubelet in the background.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    starting = verbs.add_parser("start", help="start a kubelet and return when it is up")
    starting.add_argument("--log", type=Path, required=True, help="where its output goes")
    starting.add_argument("command", nargs="+", help="the kubelet's command line, after --")
    stopping = verbs.add_parser("stop", help="stop the kubelet of a run directory")
    for verb, seconds in ((starting, 30.0), (stopping, STOP_SECONDS)):
        verb.add_argument("--run-dir", type=Path, required=True)
        verb.add_argument("--seconds", type=float, default=seconds, help="how long to wait")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit status."""
    options = parse(arguments)
    try:
        if options.verb == "start":
            start(options.run_dir, options.log, options.seconds, options.command)
        else:
            stop(options.run_dir, options.seconds)
    except (NodeError, OSError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
