"""The phase of a pod (P-110..P-117)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubelet.api.container import Container, is_sidecar
from kubelet.api.pod import Pod
from kubelet.api.status import ContainerStateTerminated, ContainerStatus
from kubelet.pods.runtime import ContainerRecord, ContainerState
from procs.syncloop.runtime import restart
from procs.syncloop.runtime.restart import Verdict

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
TERMINAL: Final = frozenset({SUCCEEDED, FAILED})

RESTARTING_ALL: Final = "RestartingAllContainers"
DEADLINE_REASON: Final = "DeadlineExceeded"
DEADLINE_MESSAGE: Final = "Pod was active on the node longer than the specified deadline"

_SECOND_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class _Count:
    """How many containers are in which state."""

    pending_init: bool  # a regular init container has not come to its end
    pending_sidecar: bool
    failed_init: bool  # for good
    running: int
    waiting: int
    stopped: int
    restartable: int  # of the stopped
    succeeded: int  # of the stopped
    unknown: int


def phase(
    pod: Pod,
    statuses: Mapping[str, ContainerStatus],
    *,
    initialised: bool,
    terminal: bool,
    static: bool,
) -> str:
    """Return the phase that a pod's containers make; ``statuses`` has init containers too.

    ``initialised``: a regular container was created in the current sandbox. ``terminal``: all of
    the pod was stopped for good.
    """
    count = _count(pod, statuses)
    if count.failed_init:
        return FAILED  # P-110
    if count.pending_init or (count.pending_sidecar and not initialised) or count.waiting:
        return PENDING  # P-111
    if count.unknown or not (count.running or count.stopped):
        return PENDING  # P-114
    about_to_restart = count.restartable and (static or not terminal)
    if count.running or about_to_restart:
        return RUNNING  # P-112, P-113
    return SUCCEEDED if count.stopped == count.succeeded else FAILED


def _count(pod: Pod, statuses: Mapping[str, ContainerStatus]) -> _Count:
    inits = [c for c in pod.spec.init_containers if not is_sidecar(c)]
    states = Counter[str]()
    pending_sidecar = False
    for sidecar in filter(is_sidecar, pod.spec.init_containers):
        status = statuses.get(sidecar.name)
        states[_sidecar(status)] += 1
        pending_sidecar = pending_sidecar or not _settled(status)
    restartable = succeeded = 0
    for container in pod.spec.containers:
        status = statuses.get(container.name)
        states[_regular(status)] += 1
        ended = _ended(status)
        if ended is not None:
            restartable += _restartable(pod, container, ended)
            succeeded += _exited_well(status)
    return _Count(
        pending_init=any(_init_pending(statuses.get(c.name)) for c in inits),
        pending_sidecar=pending_sidecar,
        failed_init=any(_init_failed(pod, c, statuses.get(c.name)) for c in inits),
        running=states["running"],
        waiting=states["waiting"],
        stopped=states["stopped"],
        restartable=restartable,
        succeeded=succeeded,
        unknown=states["unknown"],
    )


def _regular(status: ContainerStatus | None) -> str:
    state = status.state if status is not None else None
    if status is None or state is None:
        return "unknown"
    if state.running is not None:
        return "running"
    if _ended(status) is not None:
        return "stopped"
    return "waiting" if state.waiting is not None else "unknown"


def _sidecar(status: ContainerStatus | None) -> str:
    """Return as what a sidecar counts: once it has run, it has no say while it is stopped."""
    found = _regular(status)
    return "ignored" if found == "stopped" else found


def _settled(status: ContainerStatus | None) -> bool:
    """Whether a sidecar keeps nothing waiting: it has started, or it has run before."""
    found = _regular(status)
    if status is not None and found == "running":
        return bool(status.started)
    # One without any status is unknown, and counted there.
    return found == "stopped" or status is None


def _init_pending(status: ContainerStatus | None) -> bool:
    return _ended(status) is None


def _init_failed(pod: Pod, container: Container, status: ContainerStatus | None) -> bool:
    ended = _ended(status)
    if ended is None or ended.reason == RESTARTING_ALL:
        return False
    record = ContainerRecord(
        id=ended.container_id,
        name=container.name,
        state=ContainerState.EXITED,
        exit_code=ended.exit_code or 0,
        reason=ended.reason,
    )
    return restart.init_failed(record) and not restart.init_restarts(pod, container, record)


def _ended(status: ContainerStatus | None) -> ContainerStateTerminated | None:
    """Return how a container ended: the one that is there, or the last one if the next waits."""
    if status is None or status.state is None:
        return None
    if status.state.terminated is not None:
        return status.state.terminated
    if status.state.waiting is not None and status.last_state is not None:
        return status.last_state.terminated
    return None


def _exited_well(status: ContainerStatus | None) -> bool:
    """Whether a container has ended with 0 and nothing is to follow it."""
    terminated = status.state.terminated if status is not None and status.state else None
    return terminated is not None and not terminated.exit_code


def _restartable(pod: Pod, container: Container, ended: ContainerStateTerminated) -> bool:
    if ended.reason == RESTARTING_ALL:
        return True
    return restart.verdict(pod, container, ended.exit_code or 0) is not Verdict.STAY


def deadline_remaining(pod: Pod, start_time_ns: int, now_ns: int) -> int | None:
    """Return how long a pod may still be active, in ns; None: for ever, or it has not begun."""
    seconds = pod.spec.active_deadline_seconds
    if seconds is None or not start_time_ns:
        return None
    return max(0, start_time_ns + seconds * _SECOND_NS - now_ns)


def deadline_exceeded(pod: Pod, start_time_ns: int, now_ns: int) -> bool:
    """Whether a pod was active for longer than its activeDeadlineSeconds (P-117)."""
    return deadline_remaining(pod, start_time_ns, now_ns) == 0
