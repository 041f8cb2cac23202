"""The shared memory tables seen from outside: are they readable, and which pods are there?"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kubeletctl.rundir import RunDir

# What is shown of a pod; the rest of an entry, its spec above all, may hold secrets.
_SHOWN: Final = ("name", "namespace", "source", "state", "phase", "step", "since_ns")


def pods_and_problems(run_dir: RunDir) -> tuple[list[dict[str, Any]], list[str]]:
    """Attach to every declared table; return the pods, and a sentence per unreadable table."""
    from shm.errors import TableUnavailable  # noqa: PLC0415 - after --help and --version
    from shm.table import Reader  # noqa: PLC0415
    from shm.tables import TABLES  # noqa: PLC0415

    pods: list[dict[str, Any]] = []
    problems = []
    for declaration in TABLES:
        try:
            reader = Reader.attach(Path(run_dir.path("tables")), declaration)
        except TableUnavailable as problem:
            problems.append(f"table {declaration.name} is unavailable: {problem.reason}")
            continue
        try:
            if declaration.name == "pods":
                pods = [_pod(entry.key, entry.payload) for entry in reader.items()]
        finally:
            reader.close()
    return pods, problems


def _pod(uid: str, payload: bytes) -> dict[str, Any]:
    """Return what is shown of one pod."""
    from shm.codec import unpack  # noqa: PLC0415 - MessagePack, only where there are pods

    try:
        entry = unpack(payload)
    except ValueError:
        entry = None
    if not isinstance(entry, dict):
        return {"uid": uid, "state": "unreadable"}
    return {"uid": uid, **{name: entry[name] for name in _SHOWN if name in entry}}
