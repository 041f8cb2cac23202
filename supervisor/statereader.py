"""The state file as its readers see it: what the supervisor says about the tree, checked and typed.

For ``kubeletctl``, and for the process that tells the cluster whether this node is well.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

SCHEMA: Final = 1


class StateError(Exception):
    """There is no sense in the file; the text says why."""


class LastExit(NamedTuple):
    """How the previous life of a process ended."""

    reason: str
    at_ns: int  # monotonic
    report: str | None  # below the run directory


class ProcessState(NamedTuple):
    """One child as the supervisor knows it."""

    name: str
    pid: int  # 0: there is none
    state: str
    restarts: int
    started_ns: int
    last_exit: LastExit | None
    next_start_ns: int  # while it is in back-off, else 0
    cgroup: str | None


class Quarantined(NamedTuple):
    """A pod that is left alone because handling it kept killing a process."""

    pod: str
    kind: str
    deaths: int
    since_unix: float


class State(NamedTuple):
    """All of it."""

    version: str
    node: str
    pid: int
    started_ns: int
    started_unix: float
    ready: bool
    phase: str
    heartbeat_timeout_ms: int
    processes: tuple[ProcessState, ...]
    quarantine: tuple[Quarantined, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def parse(data: bytes, where: str) -> State:
    """Read ``state.json``; ``where`` is its path, for the error."""
    try:
        document = json.loads(data)
        schema = document["schema"]
        if schema != SCHEMA:
            raise StateError(
                f"{where}: schema is {schema!r}, this version reads {SCHEMA}: "
                "use the one that came with the running kubelet"
            )
        return _state(document)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise StateError(f"{where}: not a state file: {_what(problem)}") from problem


def _what(problem: Exception) -> str:
    if isinstance(problem, KeyError):
        return f"{problem.args[0]} is missing"
    return " ".join(str(problem).split()) or type(problem).__name__


def _state(document: dict[str, Any]) -> State:
    return State(
        version=str(document["version"]),
        node=str(document["node"]),
        pid=int(document["pid"]),
        started_ns=int(document["started_ns"]),
        started_unix=float(document["started_unix"]),
        ready=bool(document["ready"]),
        phase=str(document["phase"]),
        heartbeat_timeout_ms=int(document["heartbeat_timeout_ms"]),
        processes=tuple(_process(one) for one in document["processes"]),
        quarantine=tuple(_quarantined(one) for one in document.get("quarantine", ())),
        problems=tuple(str(problem) for problem in document.get("problems", ())),
        notes=tuple(str(note) for note in document.get("notes", ())),
    )


def _process(one: dict[str, Any]) -> ProcessState:
    return ProcessState(
        name=str(one["name"]),
        pid=int(one["pid"]),
        state=str(one["state"]),
        restarts=int(one["restarts"]),
        started_ns=int(one["started_ns"]),
        last_exit=_last_exit(one.get("last_exit")),
        next_start_ns=int(one.get("next_start_ns") or 0),
        cgroup=one.get("cgroup"),
    )


def _last_exit(found: dict[str, Any] | None) -> LastExit | None:
    if not found:
        return None
    return LastExit(str(found["reason"]), int(found["at_ns"]), found.get("report"))


def _quarantined(one: dict[str, Any]) -> Quarantined:
    return Quarantined(
        str(one["pod"]), str(one["kind"]), int(one["deaths"]), float(one["since_unix"])
    )
