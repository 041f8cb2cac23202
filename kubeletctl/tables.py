"""The shared memory tables seen from outside: which are readable, and which pods there are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kubeletctl.rundir import RunDir

if TYPE_CHECKING:
    from shm.tables import Declaration

# What is shown of a pod; the rest of an entry, its spec above all, may hold secrets.
_SHOWN: Final = ("name", "namespace", "source", "state", "phase", "step", "since_ns")


class Tables(NamedTuple):
    """What the tables say, and what is wrong with them."""

    pods: list[dict[str, Any]]
    problems: list[str]  # a sentence per table that cannot be read
    closed: bool  # they are not for this user to read, which is nobody's fault


def look(run_dir: RunDir) -> Tables:
    """Attach to every declared table and read the pods."""
    from shm.errors import TableError
    from shm.tables import TABLES

    directory = run_dir.path("tables")
    if not _readable(directory):
        return Tables([], [], closed=True)
    pods: list[dict[str, Any]] = []
    problems = []
    for declaration in TABLES:
        if not _readable(run_dir.path("tables", declaration.name)):
            return Tables([], [], closed=True)
        try:
            found = _read(directory, declaration)
        except TableError as problem:
            problems.append(f"table {problem.table} is unavailable: {problem.problem}")
        else:
            pods += found if declaration.name == "pods" else []
    return Tables(pods, problems, closed=False)


def _readable(path: str) -> bool:
    """Whether nothing but the absence of a file keeps this user from reading it."""
    try:
        os.stat(path)
    except PermissionError:
        return False
    except OSError:
        return True
    return os.access(path, os.R_OK)


def _read(directory: str, declaration: Declaration) -> list[dict[str, Any]]:
    """Attach to a table, which checks it; return the entries if they are pods."""
    from shm.reader import Reader  # not shm.table: that would load the writer as well

    reader = Reader.attach(Path(directory), declaration)
    try:
        if declaration.name != "pods":
            return []
        return [_pod(entry.key, entry.payload) for entry in reader.items()]
    finally:
        reader.close()


def _pod(uid: str, payload: bytes) -> dict[str, Any]:
    """Return what is shown of one pod."""
    from shm.codec import unpack  # MessagePack, only where there are pods

    try:
        entry = unpack(payload)
    except ValueError:
        entry = None
    if not isinstance(entry, dict):
        return {"uid": uid, "state": "unreadable"}
    return {"uid": uid, **{name: entry[name] for name in _SHOWN if name in entry}}
