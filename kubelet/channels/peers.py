"""Who is at the other end of a connection: by the kernel's word, and the supervisor's list.

The kernel tells the user and process id of the peer; ``state.json``, which the supervisor
replaces at each change, tells which kind a process id is at the moment.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from kubelet.channels.messages import CTL, KINDS

ROOT: Final = 0
_DEPTH: Final = 64  # no sane process is deeper below the supervisor


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the kernel says about a peer."""

    uid: int
    pid: int


@lru_cache(maxsize=64)  # peers are few, and each speaks often
def parse_address(address: str) -> Credentials | None:
    """Read libzmq's ``Peer-Address`` of an ipc connection (``name:uid:gid:pid``)."""
    parts = address.rsplit(":", 3)
    if len(parts) != 4 or not all(p.isascii() and p.isdigit() for p in parts[1:]):
        return None
    return Credentials(uid=int(parts[1]), pid=int(parts[3]))


@dataclass(frozen=True, slots=True)
class _Tree:
    """What ``state.json`` says."""

    supervisor: int
    kinds: dict[int, str]  # by process id
    users: frozenset[int]  # under whose ids the kinds run


class PeerBook:
    """Maps a peer's credentials to its kind, to ``ctl``, or to None for a stranger.

    The list is read again whenever the file has been replaced, and only then: a process id that
    a dead process left behind is forgotten with the list that named it.
    """

    def __init__(self, state_path: Path, own_uid: int) -> None:
        self._path = state_path
        self._own_uid = own_uid
        self._stamp: tuple[int, int, int] | None = None
        self._tree: _Tree | None = None

    def __call__(self, uid: int, pid: int) -> str | None:
        """Tell the kind of a peer."""
        self._refresh()
        tree = self._tree
        if tree is None:
            return None
        kind = tree.kinds.get(pid)
        if kind is not None:
            return kind if uid in tree.users else None
        if uid in (ROOT, self._own_uid) and not _inside(tree.supervisor, pid):
            return CTL
        return None

    def _refresh(self) -> None:
        try:
            status = os.stat(self._path)
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            if stamp == self._stamp:
                return
            self._tree = _parse(json.loads(self._path.read_bytes()), self._own_uid)
            self._stamp = stamp
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # Without a list a kind cannot be told from kubeletctl, so nobody is anybody.
            self._tree, self._stamp = None, None


def _inside(supervisor: int, pid: int) -> bool:
    """Whether a process descends from the supervisor, or nothing can be known about it.

    A child just forked is not on the list yet, and a helper of a kind never is; neither may
    pass for the operator because it runs as root.
    """
    if pid == 0:  # from outside our pid namespace, so not below us
        return False
    for _ in range(_DEPTH):
        if pid == supervisor:
            return True
        if pid <= 1:
            return False
        parent = _parent(pid)
        if parent is None:
            return True
        pid = parent
    return True


def _parse(state: Any, own_uid: int) -> _Tree:
    kinds = {
        int(process["pid"]): str(process["name"])
        for process in state["processes"]
        if process["pid"] and process["name"] in KINDS
    }
    users = frozenset({own_uid, int(state.get("unprivileged_uid", own_uid))})
    return _Tree(int(state["pid"]), kinds, users)


def _parent(pid: int) -> int | None:
    """Read the parent from /proc; the name before it may hold any character, so cut it off."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return int(stat.rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None
