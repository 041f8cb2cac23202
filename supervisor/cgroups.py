"""A sub-cgroup for each process, so that one that leaks meets its own limit and nobody else's.

Cgroup v2 with a delegated unit: ``<unit>/<kind>``. Cgroup v1, and anywhere at the root: a group of
our own, named after the run directory, in each controller's hierarchy. Where nothing is writable
nothing is made, and the supervisor says so once.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# How often, and how many seconds apart, a group is removed that somebody is still in.
_TRIES: Final = 50
_PAUSE: Final = 0.01

V1_CONTROLLERS: Final = ("memory", "cpu", "cpuacct", "pids")
V2_CONTROLLERS: Final = ("memory", "cpu", "pids")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy, and the group in it under which ours are made."""

    base: str  # a directory
    version: int
    controllers: tuple[str, ...]


def parse_own(text: str) -> dict[str, str]:
    """``/proc/self/cgroup`` as controller -> path; the v2 hierarchy under the empty name."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for name in names.split(","):
            groups[name] = path
    return groups


def parse_mounts(text: str) -> dict[str, str]:
    """``/proc/self/mountinfo`` as controller -> mount point; cgroup v2 under the empty name."""
    mounts: dict[str, str] = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 5 or len(tail) < 3:
            continue
        if tail[0] == "cgroup2":
            mounts.setdefault("", fields[4])
        elif tail[0] == "cgroup":
            for option in tail[2].split(","):
                mounts.setdefault(option, fields[4])
    return mounts


def plan(own: dict[str, str], mounts: dict[str, str], run_dir: str) -> list[Hierarchy]:
    """The hierarchies to use: v1 where its controllers are mounted, else v2."""
    name = "kubelet-" + hashlib.sha256(run_dir.encode()).hexdigest()[:8]
    v1 = [c for c in V1_CONTROLLERS if c in mounts and c in own]
    if v1:
        by_base: dict[str, list[str]] = {}
        for controller in v1:
            base = _under(mounts[controller], own[controller], name)
            by_base.setdefault(base, []).append(controller)
        return [Hierarchy(base, 1, tuple(cs)) for base, cs in by_base.items()]
    if "" in mounts and "" in own:
        return [Hierarchy(_under(mounts[""], own[""], name), 2, V2_CONTROLLERS)]
    return []


def _under(mount: str, path: str, name: str) -> str:
    # A supervisor that has executed itself again is in its own sub-cgroup already.
    path = path.removesuffix("/supervisor")
    if path.endswith(name):
        return mount + path
    if path in ("", "/"):
        return os.path.join(mount, name)
    return mount + path if _is_unit(path) else os.path.join(mount + path, name)


def _is_unit(path: str) -> bool:
    return path.endswith(".service")  # delegated to us: ours to divide


class Groups:
    """The sub-cgroups of this tree."""

    def __init__(self, hierarchies: Iterable[Hierarchy]) -> None:
        self._usable: list[Hierarchy] = []
        self.problem: str | None = None
        for hierarchy in hierarchies:
            self._try(hierarchy)
        if not self._usable and self.problem is None:
            self.problem = "no cgroup hierarchy is mounted"

    @property
    def active(self) -> bool:
        """Whether any hierarchy could be used."""
        return bool(self._usable)

    def _try(self, hierarchy: Hierarchy) -> None:
        try:
            os.makedirs(os.path.join(hierarchy.base, "supervisor"), exist_ok=True)
            _write(os.path.join(hierarchy.base, "supervisor", "cgroup.procs"), str(os.getpid()))
            if hierarchy.version == 2:
                _enable(hierarchy.base)
        except OSError as err:
            self.problem = f"{hierarchy.base} is not writable: {err.strerror}"
            return
        self._usable.append(hierarchy)

    def place(self, kind: str, pid: int, memory_limit: int) -> str | None:
        """Put a process into its group; the path, or None where there is no group for it."""
        placed = None
        for hierarchy in self._usable:
            path = os.path.join(hierarchy.base, kind)
            try:
                os.makedirs(path, exist_ok=True)
                _limit(hierarchy, path, memory_limit)
                _write(os.path.join(path, "cgroup.procs"), str(pid))
            except OSError as err:
                self.problem = f"{path}: {err.strerror}"
                continue
            if placed is None or "memory" in hierarchy.controllers:
                placed = path
        return placed

    def out_of_memory_kills(self, kind: str) -> int:
        """How often the kernel has killed in this group for want of memory."""
        for hierarchy in self._usable:
            if "memory" in hierarchy.controllers:
                name = "memory.events" if hierarchy.version == 2 else "memory.oom_control"
                return _count(os.path.join(hierarchy.base, kind, name), "oom_kill")
        return 0

    def remove(self, kinds: Iterable[str]) -> None:
        """Give everything back. The supervisor goes up to its parent group first."""
        for hierarchy in self._usable:
            for kind in kinds:
                _remove(os.path.join(hierarchy.base, kind))
            with contextlib.suppress(OSError):
                if hierarchy.version == 2:
                    _disable(hierarchy.base)
                above = (
                    hierarchy.base if _is_unit(hierarchy.base) else os.path.dirname(hierarchy.base)
                )
                _write(os.path.join(above, "cgroup.procs"), str(os.getpid()))
                os.rmdir(os.path.join(hierarchy.base, "supervisor"))
                if not _is_unit(hierarchy.base):
                    os.rmdir(hierarchy.base)
        self._usable = []


def discover(run_dir: str) -> Groups:
    """The groups for this process, where it may make any."""
    with open("/proc/self/cgroup", encoding="utf-8") as own_file:
        own = parse_own(own_file.read())
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts_file:
        mounts = parse_mounts(mounts_file.read())
    return Groups(plan(own, mounts, run_dir))


def _remove(path: str) -> None:
    """Remove the group of a process that is dead; what it had started and left dies now."""
    for _ in range(_TRIES):
        try:
            os.rmdir(path)
        except OSError as err:
            if err.errno != errno.EBUSY:
                return
        else:
            return
        _kill(path)
        time.sleep(_PAUSE)


def _kill(path: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        with open(os.path.join(path, "cgroup.procs"), encoding="ascii") as file:
            left = [int(line) for line in file]
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _limit(hierarchy: Hierarchy, path: str, memory_limit: int) -> None:
    if "memory" not in hierarchy.controllers:
        return
    name = "memory.max" if hierarchy.version == 2 else "memory.limit_in_bytes"
    target = os.path.join(path, name)
    if os.path.exists(target):
        _write(target, str(memory_limit))


def _enable(base: str) -> None:
    with open(os.path.join(base, "cgroup.controllers"), encoding="ascii") as available_file:
        available = available_file.read().split()
    for controller in V2_CONTROLLERS:
        if controller in available:
            with contextlib.suppress(OSError):  # a controller that stays off costs its limit only
                _write(os.path.join(base, "cgroup.subtree_control"), f"+{controller}")


def _disable(base: str) -> None:
    for controller in V2_CONTROLLERS:
        with contextlib.suppress(OSError):
            _write(os.path.join(base, "cgroup.subtree_control"), f"-{controller}")


def _count(path: str, key: str) -> int:
    try:
        with open(path, encoding="ascii") as events:
            for line in events:
                name, _, value = line.partition(" ")
                if name == key:
                    return int(value)
    except (OSError, ValueError):
        return 0
    return 0


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
