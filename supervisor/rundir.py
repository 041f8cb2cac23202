"""The run directory: what lies where, and who may touch it.

Everything in it can be thrown away: it is rebuilt from the runtime, the API server and the disk.
It is closed to everyone but root and the group of the processes without root; tables are opened by
each process before it gives up its privileges, so their files are root's alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubelet.channels.errors import SocketPathTooLong
from kubelet.channels.paths import check_socket_paths

_CLOSED: Final = 0o700
_GROUP: Final = 0o2750  # set-group-id: what is made inside belongs to the group
_SHARED_DIRS: Final = ("board", "channels", "reports")
_PRIVATE_DIRS: Final = ("tables", "recorder", "stacks")


class RunDirError(Exception):
    """The run directory cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class RunDir:
    """Paths in the run directory."""

    root: str

    def path(self, *parts: str) -> str:
        """A path below the run directory."""
        return os.path.join(self.root, *parts)

    @property
    def lock(self) -> str:
        """Held by the supervisor for as long as it lives."""
        return self.path("lock")

    @property
    def socket(self) -> str:
        """The supervisor's control socket."""
        return self.path("supervisor.sock")

    @property
    def state(self) -> str:
        """The supervisor's knowledge, replaced at each change."""
        return self.path("state.json")

    @property
    def config(self) -> str:
        """The effective configuration."""
        return self.path("config.json")

    @property
    def tables(self) -> str:
        """The shared memory tables."""
        return self.path("tables")

    def board(self, kind: str) -> str:
        """A process's row."""
        return self.path("board", kind)

    def recorder(self, kind: str) -> str:
        """A process's ring of what it did."""
        return self.path("recorder", kind)

    def stacks(self, kind: str) -> str:
        """Where faulthandler writes a process's stacks."""
        return self.path("stacks", kind)

    def channels(self, kind: str) -> str:
        """Where a process binds its sockets."""
        return self.path("channels", kind)

    def report(self, kind: str, number: int) -> str:
        """The report on one ending of a process, relative to the run directory."""
        return os.path.join("reports", f"{kind}-{number}.txt")


def check_paths(run_dir: RunDir, kinds: Iterable[str]) -> None:
    """Refuse a run directory whose sockets would not fit into a socket address."""
    try:
        check_socket_paths(Path(run_dir.root), kinds)
    except SocketPathTooLong as err:
        size = len(os.fsencode(err.path))
        room = err.limit - (size - len(os.fsencode(run_dir.root)))
        raise RunDirError(
            f"--run-dir: {run_dir.root}: too long for the sockets in it: {err.path} has {size} "
            f"bytes and {err.limit} are allowed; use a path of at most {room} bytes"
        ) from None


def check_reachable(run_dir: RunDir, uid: int, gid: int) -> None:
    """Refuse a run directory that the processes without root could not get to."""
    path = os.path.dirname(run_dir.root)
    while True:
        found = os.stat(path)
        mode = found.st_mode
        opened = mode & 0o001
        opened = opened or (found.st_gid == gid and mode & 0o010)
        opened = opened or (found.st_uid == uid and mode & 0o100)
        if not opened:
            raise RunDirError(
                f"--run-dir: {run_dir.root}: {path} is closed to uid {uid}, which the processes "
                "without root run as; open it for searching (chmod o+x) or use another directory"
            )
        if path == "/":
            return
        path = os.path.dirname(path)


def prepare(run_dir: RunDir, owners: dict[str, int], gid: int) -> None:
    """Make the directories with their owners: ``owners`` maps each kind to its user."""
    try:
        os.makedirs(run_dir.root, mode=0o750, exist_ok=True)
        _set(run_dir.root, 0o750, 0, gid)
        for name in _SHARED_DIRS:
            _make(run_dir.path(name), _GROUP, 0, gid)
        for name in _PRIVATE_DIRS:
            _make(run_dir.path(name), _CLOSED, 0, 0)
        for kind, uid in owners.items():
            _make(run_dir.channels(kind), _GROUP, uid, gid)
    except OSError as err:
        raise RunDirError(
            f"--run-dir: {run_dir.root}: cannot be used: {err.strerror} ({err.filename}); "
            "it must be a directory that the kubelet may write to"
        ) from err


def _make(path: str, mode: int, uid: int, gid: int) -> None:
    os.makedirs(path, exist_ok=True)
    _set(path, mode, uid, gid)


def _set(path: str, mode: int, uid: int, gid: int) -> None:
    found = os.stat(path)
    if os.geteuid() == 0 and (found.st_uid, found.st_gid) != (uid, gid):
        os.chown(path, uid, gid)
    if stat.S_IMODE(found.st_mode) != mode:
        os.chmod(path, mode)


def replace_file(path: str, data: bytes, mode: int = 0o640, gid: int = -1) -> None:
    """Put a new file in place of an old one: a reader sees the one or the other, whole."""
    temporary = f"{path}.new"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        os.fchmod(fd, mode)
        if gid >= 0 and os.geteuid() == 0:
            os.fchown(fd, -1, gid)
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)
    os.replace(temporary, path)
