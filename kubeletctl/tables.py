"""The shared memory tables seen from outside: which are readable, and which pods there are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kubeletctl.rundir import RunDir

if TYPE_CHECKING:
    from shm.reader import Reader

# What is shown of a pod; the rest of an entry, its spec above all, may hold secrets.
_SHOWN: Final = ("name", "namespace", "source", "state", "phase", "step", "since_ns")


class Tables(NamedTuple):
    """What the tables say, and what is wrong with them."""

    pods: list[dict[str, Any]]
    problems: list[str]  # a sentence per table that cannot be read
    closed: bool  # they are not for this user to read, which is nobody's fault
    runtime: str = ""  # what the container runtime is
    runtime_problem: str | None = None


def look(run_dir: RunDir) -> Tables:
    """Attach to every declared table and read the pods."""
    from shm.errors import TableError
    from shm.reader import Reader  # not shm.table: that would load the writer as well
    from shm.tables import TABLES

    directory = run_dir.path("tables")
    if not _readable(directory):
        return Tables([], [], closed=True)
    pods: list[dict[str, Any]] = []
    runtime: tuple[str, str | None] = ("", None)
    problems = []
    for declaration in TABLES:
        if not _readable(run_dir.path("tables", declaration.name)):
            return Tables([], [], closed=True)
        try:
            reader = Reader.attach(Path(directory), declaration)
            try:
                if declaration.name == "pods":
                    pods = [_pod(entry.key, entry.payload) for entry in reader.items()]
                elif declaration.name == "runtime":
                    runtime = _runtime(reader)
            finally:
                reader.close()
        except TableError as problem:
            problems.append(f"table {problem.table} is unavailable: {problem.problem}")
    return Tables(pods, problems, False, *runtime)


def _readable(path: str) -> bool:
    """Whether nothing but the absence of a file keeps this user from reading it."""
    try:
        os.stat(path)
    except PermissionError:
        return False
    except OSError:
        return True
    return os.access(path, os.R_OK)


def _runtime(reader: Reader) -> tuple[str, str | None]:
    """Return what pleg knows of the container runtime, and what is wrong with it."""
    from kubelet.pods.runtime import RUNTIME_KEY, BadRecordError, RuntimeRecord, problem
    from shm.codec import DecodeError, unpack

    entry = reader.get(RUNTIME_KEY)
    if entry is None:
        return "", None
    try:
        record = RuntimeRecord.from_wire(unpack(entry.payload))
    except (BadRecordError, DecodeError) as err:
        return "", f"container runtime: its record cannot be read: {err}"
    pods = len(reader) - 1
    known = " ".join(filter(None, (record.name, record.version))) or "not known yet"
    return f"{known} at {record.endpoint}, {pods} pods", problem(record)


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
