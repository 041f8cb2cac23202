"""Cgroups on disk: making, writing, emptying and removing them, in every hierarchy at once."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kubelet import logging as klog
from procs.eviction.cgroupfiles import DEFAULTS, Setting

log = klog.get_logger(__name__)

MOUNTINFO: Final = "/proc/self/mountinfo"
V2: Final = ""  # the name of the one hierarchy of cgroup v2
TRIES: Final = 5  # P-34
_PATIENCE: Final = 0.5  # seconds that the killed get to go, at each try
# What cgroup v2 has pods' groups divide; "cpuset" and "io" are for those who set them later.
_CONTROLLERS: Final = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids", "rdma", "misc")
_CPUSET_FILES: Final = ("cpuset.cpus", "cpuset.mems")
_KERNEL_OPTIONS: Final = frozenset(
    {"rw", "ro", "xattr", "clone_children", "noprefix", "favordynmods", "cpuset_v2_mode"}
)


class CgroupError(Exception):
    """A cgroup could not be made, set or removed; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where cgroups are mounted."""

    unified: bool
    mounts: dict[str, str]  # controller -> directory; V2 -> the one directory of cgroup v2
    others: tuple[str, ...] = field(
        default=()
    )  # hierarchies in which only the runtime makes groups

    @property
    def roots(self) -> tuple[str, ...]:
        """The directory of each hierarchy, once: several controllers may share one."""
        return tuple(dict.fromkeys(self.mounts.values()))


def parse(mountinfo: str) -> Hierarchies:
    """Return the hierarchies in the kernel's list of mounts; a mix of both versions is v1."""
    v1: dict[str, str] = {}
    v2 = ""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 5 or len(tail) < 3:
            continue
        if tail[0] == "cgroup2":
            v2 = v2 or fields[4]
        elif tail[0] == "cgroup":
            for option in tail[2].split(","):
                if option not in _KERNEL_OPTIONS and not option.startswith("release_agent="):
                    v1.setdefault(option, fields[4])
    if v1:
        return Hierarchies(unified=False, mounts=v1, others=(v2,) if v2 else ())
    return Hierarchies(unified=True, mounts={V2: v2} if v2 else {})


def find() -> Hierarchies:
    """Return the hierarchies of this node."""
    with open(MOUNTINFO, encoding="utf-8", errors="replace") as file:
        return parse(file.read())


class Tree:
    """The groups of this node."""

    def __init__(self, hierarchies: Hierarchies) -> None:
        self._hierarchies = hierarchies
        self._missing: set[str] = set()  # files that this kernel does not have, said once
        self._values: dict[str, dict[str, str]] = {}  # what was written, by directory and file
        self._divided: set[str] = set()  # directories whose groups have controllers

    @property
    def unified(self) -> bool:
        """Whether cgroups are of version 2."""
        return self._hierarchies.unified

    def exists(self, path: str) -> bool:
        """Tell whether a group is there, by one look."""
        roots = self._hierarchies.roots
        return bool(roots) and os.path.isdir(roots[0] + path)

    # Making.

    def make(self, path: str) -> bool:
        """Have a group in each hierarchy; whether it was missing in the first of them."""
        roots = self._hierarchies.roots
        if not roots:
            raise CgroupError("no cgroup hierarchy is mounted")
        try:
            made = [self._make_one(root, path) for root in roots]
        except OSError as err:
            raise CgroupError(f"could not make cgroup {err.filename}: {err.strerror}") from err
        return made[0]

    def _make_one(self, root: str, path: str) -> bool:
        made, above = False, root
        for name in path.strip("/").split("/"):
            if self.unified:
                self._divide(above)
            here = f"{above}/{name}"
            made = _mkdir(here)
            if made:
                self._forget(here)
                if self._is_cpuset(here):
                    _inherit_cpus(above, here)
            above = here
        return made

    def _divide(self, directory: str) -> None:
        """Let groups in a directory have controllers of their own (cgroup v2)."""
        if directory in self._divided:
            return
        file = f"{directory}/cgroup.subtree_control"
        there = set(_read(f"{directory}/cgroup.controllers").split())
        on = set(_read(file).split())
        for controller in _CONTROLLERS:
            if controller in there - on:
                try:
                    _write(file, f"+{controller}")
                except OSError as err:
                    self._say_missing(file, f"+{controller}: {err.strerror}")
        self._divided.add(directory)

    def _is_cpuset(self, directory: str) -> bool:
        root = self._hierarchies.mounts.get("cpuset")
        return root is not None and directory.startswith(root + "/")

    # Writing.

    def set(self, path: str, wanted: Iterable[Setting], *, fresh: bool = False) -> None:
        """Write what differs from what was written before, or from what a new group has."""
        for setting in wanted:
            root = self._root(setting.controller)
            if root is None:
                self._say_missing(setting.controller, "no such controller is mounted")
                continue
            known = self._values.setdefault(root + path, {})
            default = DEFAULTS.get(setting.file) if fresh else None
            if known.get(setting.file, default) != setting.value:
                self._set_one(root + path, setting)
                known[setting.file] = setting.value

    def _set_one(self, directory: str, setting: Setting) -> None:
        file = f"{directory}/{setting.file}"
        try:
            _write(file, setting.value)
        except FileNotFoundError:
            if not os.path.isdir(directory):
                raise CgroupError(f"cgroup {directory} is gone") from None
            self._say_missing(setting.file, "this kernel has no such file")
        except OSError as err:
            raise CgroupError(
                f"could not write {setting.value!r} to {file}: {err.strerror}"
            ) from err

    def read(self, path: str, controller: str, file: str) -> str:
        """Return what a file of a group holds; "" if it cannot be read."""
        root = self._root(controller)
        return _read(f"{root}{path}/{file}") if root is not None else ""

    def children(self, path: str, controller: str) -> list[str]:
        """Return the paths of the groups inside one."""
        root = self._root(controller)
        if root is None:
            return []
        try:
            with os.scandir(root + path) as found:
                return sorted(f"{path}/{e.name}" for e in found if e.is_dir(follow_symlinks=False))
        except OSError:
            return []

    def forget_written(self, path: str) -> None:
        """Write a group's values again next time, whatever was written before."""
        for root in self._hierarchies.roots:
            self._forget(root + path)

    def _root(self, controller: str) -> str | None:
        mounts = self._hierarchies.mounts
        return mounts.get(V2) if self.unified else mounts.get(controller)

    def _forget(self, directory: str) -> None:
        self._values.pop(directory, None)
        self._divided.discard(directory)

    def _say_missing(self, what: str, why: str) -> None:
        if what not in self._missing:
            self._missing.add(what)
            log.warning("A cgroup setting is not available here, left out", what=what, why=why)

    # Removing.

    def remove(self, path: str) -> int:
        """Remove a group with all that is in it; how many processes were killed for that."""
        directories = [r + path for r in (*self._hierarchies.roots, *self._hierarchies.others)]
        killed: set[int] = set()
        problem = ""
        for _ in range(TRIES):
            killed |= kill(processes(directories), _PATIENCE)
            left = [problem for d in directories for problem in _remove_tree(d)]
            if not left:
                break
            problem = left[0]
        else:
            inside = processes(directories)
            more = f", processes {sorted(inside)} are still in it" if inside else ""
            raise CgroupError(f"could not remove cgroup {problem}{more}")
        for directory in directories:
            self._forget(directory)
        return len(killed)


def processes(directories: Iterable[str]) -> set[int]:
    """Return the processes in groups and all groups below them."""
    found: set[int] = set()
    for directory in directories:
        for place in _groups(directory):
            words = _read(f"{place}/cgroup.procs").split()
            found |= {int(word) for word in words if word.isdigit()}
    return found - {0, os.getpid()}  # 0 is a process that this namespace cannot name


def kill(pids: Iterable[int], seconds: float) -> set[int]:
    """Kill processes and wait until they are gone, as long as is given; those that were there."""
    handles: dict[int, int] = {}
    try:
        for pid in pids:
            # One that is gone is fine; one that cannot be killed is named when its group stays.
            with contextlib.suppress(OSError):
                handles[pid] = os.pidfd_open(pid)
                signal.pidfd_send_signal(handles[pid], signal.SIGKILL)
        _wait(handles.values(), seconds)
    finally:
        for handle in handles.values():
            os.close(handle)
    return set(handles)


def _wait(handles: Iterable[int], seconds: float) -> None:
    poll = select.poll()
    waiting = set(handles)
    for handle in waiting:
        poll.register(handle, select.POLLIN)
    deadline = time.monotonic() + seconds
    while waiting:
        left = deadline - time.monotonic()
        ended = poll.poll(left * 1000) if left > 0 else []
        if not ended:
            return
        for handle, _ in ended:
            poll.unregister(handle)
            waiting.discard(handle)


def _groups(directory: str) -> Iterator[str]:
    """Yield a group and those below it, the innermost first."""
    for place, _, _ in os.walk(directory, topdown=False):
        yield place


def _remove_tree(directory: str) -> list[str]:
    """Remove a group and those below it; what could not be removed, with why."""
    problems = []
    for place in _groups(directory):
        _thaw(place)
        try:
            os.rmdir(place)
        except FileNotFoundError:
            continue
        except OSError as err:
            problems.append(f"{place}: {err.strerror}")
    return problems


def _thaw(directory: str) -> None:
    """Let what is frozen die (cgroup v1): a signal alone does not reach it."""
    file = f"{directory}/freezer.state"
    if _read(file).strip() not in ("", "THAWED"):
        with contextlib.suppress(OSError):
            _write(file, "THAWED")


def _inherit_cpus(above: str, here: str) -> None:
    """Fill in what a new cpuset of cgroup v1 lacks: without it nothing can run there."""
    for file in _CPUSET_FILES:
        value = _read(f"{above}/{file}").strip()
        if value:
            with contextlib.suppress(OSError):
                _write(f"{here}/{file}", value)


def _mkdir(path: str) -> bool:
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        return False
    except OSError as err:
        if err.errno == errno.ENOENT:  # somebody removes what is above: it is tried again
            raise CgroupError(f"cgroup {os.path.dirname(path)} is gone") from err
        raise
    return True


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, value: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(handle, value.encode())
    finally:
        os.close(handle)
