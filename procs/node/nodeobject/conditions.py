"""The conditions of the node (N-13, N-14). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kubelet import times
from procs.node.apiserver.types import Json
from procs.node.nodeobject import odd
from procs.node.nodeobject.facts import DISK_PRESSURE, MEMORY_PRESSURE, PID_PRESSURE, Facts

READY: Final = "Ready"
TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"
HEARTBEAT: Final = "lastHeartbeatTime"
TRANSITION: Final = "lastTransitionTime"


@dataclass(frozen=True, slots=True)
class Said:
    """A condition with what the API shows of it but times."""

    type: str
    status: str
    reason: str
    message: str


_PRESSURES: Final = {
    MEMORY_PRESSURE: (
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    ),
    DISK_PRESSURE: (
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    ),
    PID_PRESSURE: (
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ),
}
OURS: Final = (*_PRESSURES, READY)  # in the order in which they are set


def all_of(facts: Facts) -> list[Said]:
    """Return every condition that the kubelet owns."""
    return [*(pressure(name, name in facts.pressures) for name in _PRESSURES), ready(facts.errors)]


def pressure(name: str, presses: bool) -> Said:
    """Return the condition of a resource."""
    reason, message = _PRESSURES[name][presses]
    return Said(name, TRUE if presses else FALSE, reason, message)


def ready(errors: Sequence[str]) -> Said:
    """Return whether the node can run pods, and if not, everything that is in the way."""
    if not errors:
        return Said(READY, TRUE, "KubeletReady", "kubelet is posting ready status")
    message = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    return Said(READY, FALSE, "KubeletNotReady", message)


def put(node: Json, said: Said, wall_ns: int) -> Json:
    """Return a node's condition as it is to be now; its age stays while its status does."""
    now = times.to_text(wall_ns)
    before = odd.condition(node, said.type)
    since = before.get(TRANSITION) if before.get("status") == said.status else None
    return {
        "type": said.type,
        "status": said.status,
        HEARTBEAT: now,
        TRANSITION: since if isinstance(since, str) and since else now,
        "reason": said.reason,
        "message": said.message,
    }
