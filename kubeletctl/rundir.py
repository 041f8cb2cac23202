"""The run directory seen from outside: whether a kubelet runs, and what it says of itself."""

from __future__ import annotations

import os
import time
from typing import Final, NamedTuple

from kubeletctl import procfs, state
from kubeletctl.errors import NotThereError

DEFAULT: Final = "/run/kubelet"
VARIABLE: Final = "KUBELET_RUN_DIR"
_LATE_NS: Final = 5_000_000_000  # between the start of a process and its own note of it


class RunDir(NamedTuple):
    """Paths below the run directory."""

    root: str

    def path(self, *parts: str) -> str:
        """Return a path below the run directory."""
        return os.path.join(self.root, *parts)

    def read(self, *parts: str) -> bytes:
        """Read a file of the running kubelet; one that is missing means that there is none."""
        path = self.path(*parts)
        try:
            with open(path, "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            raise NotThereError(
                f"No kubelet runs with run directory {self.root}: {parts[-1]} is not there"
            ) from None
        except PermissionError:
            raise NotThereError(denied(path)) from None


def denied(path: str) -> str:
    """Say who may read what could not be read."""
    return f"Not allowed to read {path}: kubeletctl must run as root or as the kubelet's user"


def load_state(run_dir: RunDir) -> state.State:
    """Read the state of the running kubelet, or say that none runs."""
    path = run_dir.path("state.json")
    found = state.parse(run_dir.read("state.json"), path)
    why_not = _why_not_running(run_dir, found)
    if why_not:
        raise NotThereError(f"No kubelet runs with run directory {run_dir.root}: {why_not}")
    return found


def _why_not_running(run_dir: RunDir, found: state.State) -> str | None:
    """Tell whether the state file was left by a kubelet that is gone.

    The lock is the kernel's word; the pid may belong to somebody else by now.
    """
    held = procfs.lock_held(run_dir.path("lock"))
    if not procfs.is_alive(found.pid):
        gone = f"its supervisor (pid {found.pid}) is gone"
        return f"{gone}, and another one is just starting" if held else gone
    if held is False:
        return f"nobody holds its lock, and pid {found.pid} is some other process"
    if began_later(found):
        return f"pid {found.pid} is some other process, started later"
    return None


def began_later(found: state.State) -> bool:
    """Whether the process with the supervisor's pid is younger than the supervisor's own note."""
    began = procfs.started_ns(found.pid)
    asleep = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return began is not None and began > found.started_ns + asleep + _LATE_NS
