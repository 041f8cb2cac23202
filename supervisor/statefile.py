"""The state file: what the supervisor knows, for ``kubeletctl`` and for the children. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Final

from supervisor import quarantine
from supervisor.fleet import Handle

SCHEMA: Final = 1


class Phase(Enum):
    """Where the whole tree is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    RELOADING = "reloading"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree as a whole."""

    version: str
    node: str
    pid: int
    started_ns: int
    started_unix: float
    ready: bool
    phase: Phase
    heartbeat_timeout_ms: int
    unprivileged_uid: int
    problems: tuple[str, ...] = field(default=())  # what is wrong with the tree itself
    notes: tuple[str, ...] = field(default=())  # what is worth knowing


def render(tree: Tree, handles: dict[str, Handle], cases: tuple[quarantine.Case, ...]) -> bytes:
    """The state file's content."""
    body = asdict(tree)
    body["schema"] = SCHEMA
    body["phase"] = tree.phase.value
    body["processes"] = [_process(name, handle) for name, handle in handles.items()]
    body["quarantine"] = [
        {"pod": c.pod, "kind": c.kind, "deaths": c.deaths, "since_unix": c.since_unix}
        for c in cases
        if c.quarantined
    ]
    return json.dumps(body, indent=1).encode() + b"\n"


def _process(name: str, handle: Handle) -> dict[str, Any]:
    child = handle.child
    last = None
    if child.last_exit is not None:
        at_ns = int(child.last_exit_at * 1e9)
        last = {"reason": child.last_exit, "at_ns": at_ns, "report": handle.report}
    return {
        "name": name,
        "pid": child.pid,
        "state": child.state.value,
        "restarts": child.restarts,
        "started_ns": int(child.started * 1e9),
        "last_exit": last,
        "next_start_ns": int(child.next_start * 1e9) if child.state.value == "backoff" else 0,
        "cgroup": handle.cgroup,
    }
