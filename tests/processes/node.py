"""One real kubelet under test, started as a user starts it."""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shm.board import Row, read_row
from shm.recorder import Record, merge
from supervisor.kinds import EVERYONE, NAMES

CONFIG = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {"webhook": {"enabled": False}, "anonymous": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "failCgroupV1": False,
    "failSwapOn": False,
    "healthzPort": 0,
}


def wait_for(
    what: str, check: Callable[[], Any], seconds: float = 20.0, pause: float = 0.002
) -> Any:
    """Look until the check finds something; AssertionError names what did not come."""
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds:g}s: {what}"
        time.sleep(pause)


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def unmount_root(directory: Path) -> None:
    """Unmount the root directory of a kubelet, which makes a mount of it (L-2)."""
    while _is_bound(directory):
        subprocess.run(["umount", "-l", str(directory)], check=True)


def _is_bound(directory: Path) -> bool:
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        return any(line.split()[4] == str(directory) for line in mounts)


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split(maxsplit=1)[0] != "Z"


def cgroups_of(run_dir: Path) -> list[str]:
    """The groups that a kubelet with this run directory has made."""
    name = "kubelet-" + hashlib.sha256(str(run_dir).encode()).hexdigest()[:8]
    # Others make and remove groups meanwhile, which this walk does not mind.
    walk = os.walk("/sys/fs/cgroup")
    return [os.path.join(path, name) for path, names, _ in walk if name in names]


class Node:
    """A kubelet with its run directory, its configuration file and its notify socket."""

    def __init__(
        self,
        root: Path,
        name: str,
        arguments: tuple[str, ...] = (),
        *,
        config: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        program: tuple[str, ...] | None = None,
    ) -> None:
        self.run_dir = root / name
        self.config_path = root / f"{name}.yaml"
        self.log_path = root / f"{name}.log"
        # A runtime of its own choice or none at all, never the one of this machine.
        nowhere = f"unix://{root}/no-runtime.sock"
        self.config = {"containerRuntimeEndpoint": nowhere, **CONFIG, **(config or {})}
        self._environ = dict(environ or {})
        self._program = program or (sys.executable, "-m", "kubelet.main")
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self.notify_path = str(root / f"{name}.n")
        self._notify: socket.socket | None = None
        self.said: list[str] = []  # what was told to systemd
        self.stored: dict[str, int] = {}  # what was stored with it
        self.write_config()

    def write_config(self, **changes: Any) -> None:
        """Write the configuration file."""
        self.config.update(changes)
        self.config_path.write_text(json.dumps(self.config))

    @property
    def command(self) -> list[str]:
        """The command line."""
        files = [f"--config={self.config_path}", f"--run-dir={self.run_dir}"]
        # Never those of this machine.
        own = [f"--root-dir={self.run_dir}-root", f"--cert-dir={self.run_dir}-pki"]
        return [*self._program, *files, *own, *self._arguments]

    # Life.

    def spawn(self, pass_fds: tuple[int, ...] = (), **environ: str) -> Node:
        """Start it and return at once."""
        self._listen()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=pass_fds,
                env={
                    **os.environ,
                    "NOTIFY_SOCKET": self.notify_path,
                    **self._environ,
                    **environ,
                },
            )
        return self

    def start(self, **options: Any) -> Node:
        """Start it and wait until it says that it is ready."""
        self.spawn(**options)
        self.await_notice("READY=1")
        return self

    def spawn_with_stored(self, stored: dict[str, int]) -> Node:
        """Start it as systemd does after a crash: with the descriptors that it had stored."""
        moved = [os.dup(fd) for fd in stored.values()]
        # They must be at 3, 4, ...: a tiny program moves them there and becomes the kubelet.
        mover = (
            "import os, sys\n"
            f"for at, fd in enumerate({moved!r}, 3):\n"
            "    os.dup2(fd, at) if fd != at else os.set_inheritable(fd, True)\n"
            "os.environ['LISTEN_PID'] = str(os.getpid())\n"
            "os.execv(sys.argv[1], sys.argv[1:])\n"
        )
        program, self._program = self._program, (sys.executable, "-c", mover, *self._program)
        names = {"LISTEN_FDS": str(len(moved)), "LISTEN_FDNAMES": ":".join(stored)}
        try:
            return self.spawn(pass_fds=tuple(moved), **names)
        finally:
            self._program = program
            for fd in moved:
                os.close(fd)

    def _listen(self) -> None:
        if self._notify is None:
            self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._notify.bind(self.notify_path)

    def await_notice(self, text: str, seconds: float = 20.0) -> None:
        """Wait for a word to systemd."""
        assert self._notify is not None
        assert self._process is not None
        deadline = time.monotonic() + seconds
        pidfd = os.pidfd_open(self._process.pid)
        try:
            while not any(line.startswith(text) for line in self.said):
                left = deadline - time.monotonic()
                ready, _, _ = select.select([self._notify, pidfd], [], [], max(0, left))
                if self._notify in ready:
                    self._hear()
                else:
                    why = "it ended" if pidfd in ready else f"not within {seconds:g}s"
                    raise AssertionError(f"no {text}: {why}\n{self.log()}")
        finally:
            os.close(pidfd)
        self.said = []

    def _hear(self) -> None:
        assert self._notify is not None
        data, fds, _, _ = socket.recv_fds(self._notify, 4096, 4)
        lines = data.decode().split("\n")
        self.said += lines
        if fds:
            self.stored[lines[1].removeprefix("FDNAME=")] = fds[0]

    def wait(self, seconds: float = 20.0) -> int:
        """Wait for its end; the exit code."""
        assert self._process is not None
        return self._process.wait(seconds)

    def signal(self, number: signal.Signals) -> None:
        """Send the supervisor a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> int:
        """Ask it to stop; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(40)

    def end(self) -> None:
        """Make sure that nothing of it runs."""
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGTERM)
            try:
                self._process.wait(40)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        unmount_root(Path(f"{self.run_dir}-root"))
        for fd in self.stored.values():
            os.close(fd)
        self.stored = {}
        if self._notify is not None:
            self._notify.close()
            self._notify = None

    def assert_nothing_left(self) -> None:
        """No process of its tree, and no cgroup, is left on the machine."""
        needle = str(self.run_dir).encode()
        wait_for("its processes are gone", lambda: not _processes_with(needle), 3)
        assert cgroups_of(self.run_dir) == []

    # Looking.

    @property
    def running(self) -> bool:
        """Whether the supervisor is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The supervisor."""
        assert self._process is not None
        return self._process.pid

    def state(self) -> dict[str, Any]:
        """The state file."""
        found: dict[str, Any] = json.loads((self.run_dir / "state.json").read_bytes())
        return found

    def processes(self) -> dict[str, dict[str, Any]]:
        """The state file's lines on the processes, by name."""
        return {p["name"]: p for p in self.state()["processes"]}

    def pids(self) -> dict[str, int]:
        """Process ids by name."""
        return {name: p["pid"] for name, p in self.processes().items()}

    def row(self, kind: str) -> Row | None:
        """A row of the board."""
        return read_row(self.run_dir / "board" / kind)

    def beating(self, kind: str, other_than: int) -> bool:
        """Whether this kind has a new process whose heartbeat moves."""
        row = self.row(kind)
        return row is not None and row.pid != other_than and row.beats > 0 and alive(row.pid)

    def all_running(self) -> bool:
        """Whether everybody is up."""
        return all(p["state"] == "running" for p in self.processes().values())

    def events(self) -> list[Record]:
        """Everything that the processes noted, in order."""
        return merge(self.run_dir / "recorder")

    def log(self) -> str:
        """What it has logged so far."""
        return self.log_path.read_text()

    def ctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run kubeletctl on it."""
        return subprocess.run(
            [sys.executable, "-m", "kubeletctl.main", "--run-dir", str(self.run_dir), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def status(self) -> dict[str, Any]:
        """``kubeletctl status -o json``."""
        found: dict[str, Any] = json.loads(self.ctl("status", "-o", "json").stdout)
        return found


def _processes_with(needle: bytes) -> list[int]:
    """Processes that have a file below a directory mapped or were started with it."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                if needle in Path(f"/proc/{entry}/maps").read_bytes() and alive(int(entry)):
                    found.append(int(entry))
            except OSError:
                continue
    return found


def descriptors(pid: int) -> int:
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def children(pid: int) -> dict[int, str]:
    """The children of a process with the kernel's letter for their state."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            stat = Path(f"/proc/{child}/stat").read_text()
            found[int(child)] = stat.rpartition(")")[2].split(maxsplit=1)[0]
    return found


__all__ = ["EVERYONE", "NAMES", "Node", "alive", "children", "descriptors", "free_port", "wait_for"]
