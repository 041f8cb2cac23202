"""The statuses of a pod's containers (P-100..P-107, P-130).

Each container of the spec has exactly one: what the runtime holds of it, or else what is known
from before, or else that it waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from kubelet import times
from kubelet.api.container import Container, is_sidecar
from kubelet.api.pod import Pod
from kubelet.api.status import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodStatus,
)
from kubelet.pods import runtime
from kubelet.pods.runtime import ContainerRecord, PodRecord, SandboxState
from procs.syncloop.runtime.restart import init_restarts, should_restart
from procs.syncloop.status import amounts, details, readiness
from procs.syncloop.status.context import Context
from procs.syncloop.status.phase import RESTARTING_ALL

CREATING: Final = "ContainerCreating"
INITIALISING: Final = "PodInitializing"
UNKNOWN: Final = "ContainerStatusUnknown"
COMPLETED: Final = "Completed"
ERROR: Final = "Error"
KILLED: Final = 137  # the exit code of what nobody saw end

VANISHED_MESSAGE: Final = (
    "The container could not be located when the pod was deleted.  The container used to be Running"
)
LOST_MESSAGE: Final = "The container could not be located when the pod was terminated"
INITIALISED_MESSAGE: Final = (
    "Unable to get init container status from container runtime and pod has been initialized, "
    "treat it as exited normally"
)
RESTARTING_MESSAGE: Final = "The container is removed because RestartAllContainers in place"


class Kind(StrEnum):
    """What a container is for."""

    INIT = "init"
    REGULAR = "regular"
    EPHEMERAL = "ephemeral"


@dataclass(frozen=True, slots=True)
class Statuses:
    """The statuses of all containers: init in the order of the spec, the others by name."""

    init: tuple[ContainerStatus, ...] = ()
    regular: tuple[ContainerStatus, ...] = ()
    ephemeral: tuple[ContainerStatus, ...] = ()

    def by_name(self) -> dict[str, ContainerStatus]:
        """Return those that count for the pod, init containers first."""
        return {status.name: status for status in (*self.init, *self.regular)}


@dataclass(frozen=True, slots=True)
class _Scene:
    """What all containers of a pod have in common."""

    pod: Pod
    context: Context
    found: Mapping[str, Sequence[ContainerRecord]]  # by name, newest first
    initialised: bool  # a regular container was created in the current sandbox
    ended: bool
    restarting: bool  # all containers, in place (P-81)
    waiting: ContainerState  # of what is not there yet (P-100)


@dataclass(frozen=True, slots=True)
class _Case:
    """One container."""

    kind: Kind
    container: Container
    records: Sequence[ContainerRecord]
    previous: ContainerStatus | None

    @property
    def plain_init(self) -> bool:
        """Whether it is an init container that runs once and ends."""
        return self.kind is Kind.INIT and not is_sidecar(self.container)


def statuses(pod: Pod, record: PodRecord | None, context: Context) -> Statuses:
    """Return the statuses of all containers in a pod's spec."""
    before = context.previous or pod.status
    scene = _scene(pod, record, context)

    def of(
        kind: Kind, containers: Sequence[Container], old: Sequence[ContainerStatus]
    ) -> tuple[ContainerStatus, ...]:
        known = {status.name: status for status in old}
        return tuple(
            _status(scene, _Case(kind, c, scene.found.get(c.name, ()), known.get(c.name)))
            for c in containers
        )

    spec = pod.spec
    return Statuses(
        init=of(Kind.INIT, spec.init_containers, before.init_container_statuses),
        regular=by_name(of(Kind.REGULAR, spec.containers, before.container_statuses)),
        ephemeral=by_name(
            of(Kind.EPHEMERAL, spec.ephemeral_containers, before.ephemeral_container_statuses)
        ),
    )


def by_name(statuses: Sequence[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """Return statuses in the order in which they are shown (P-131)."""
    return tuple(sorted(statuses, key=lambda status: status.name))


def initialised(pod: Pod, record: PodRecord | None, ignored: frozenset[str] = frozenset()) -> bool:
    """Whether a regular container was created in the sandbox that is ready now, or in the last."""
    if record is None:
        return False
    names = {c.name for c in pod.spec.containers}
    ready = [box.id for box in record.sandboxes if box.state is SandboxState.READY]
    return any(
        c.name in names and c.id not in ignored and (not ready or c.sandbox_id == ready[0])
        for c in record.containers
    )


def any_runs(record: PodRecord | None) -> bool:
    """Whether a container of the pod runs."""
    running = runtime.ContainerState.RUNNING
    return record is not None and any(c.state is running for c in record.containers)


def has_run(status: PodStatus) -> bool:
    """Whether a container of the pod ever ran, as far as its status knows."""
    of_all = (*status.init_container_statuses, *status.container_statuses)
    states = (
        state
        for one in (*of_all, *status.ephemeral_container_statuses)
        for state in (one.state, one.last_state)
    )
    return any(state is not None and state.waiting is None for state in states)


def _scene(pod: Pod, record: PodRecord | None, context: Context) -> _Scene:
    found: dict[str, list[ContainerRecord]] = {}
    for one in record.containers if record is not None else ():
        if one.id not in context.ignored:
            found.setdefault(one.name, []).append(one)
    reason = INITIALISING if pod.spec.init_containers else CREATING
    ended = context.ended or bool(pod.metadata.deletion_timestamp)
    return _Scene(
        pod=pod,
        context=context,
        found=found,
        initialised=initialised(pod, record, context.ignored),
        ended=ended,
        restarting=context.restarting_all and not ended,
        waiting=_waiting(reason, ""),
    )


def _status(scene: _Scene, case: _Case) -> ContainerStatus:
    status = _seen(scene, case) if case.records else _missing(scene, case)
    status = _with_reason(scene, case, status)
    if case.kind is Kind.EPHEMERAL:
        return replace(status, ready=False, started=None)
    if case.plain_init:
        return readiness.of_init(status)
    id_ = case.records[0].id if case.records else ""
    return readiness.of_running(status, case.container, id_, scene.context, case.previous)


def _seen(scene: _Scene, case: _Case) -> ContainerStatus:
    """Return the status of a container that the runtime holds."""
    newest, before = case.records[0], case.previous
    id_ = _id(scene.context, newest)
    same = before if before and before.container_id == id_ else None
    state = _state(scene, case, same)
    count = max(newest.attempt, (before.restart_count or 0) if before else 0)
    if _lost(state) and before is not None and readiness.running(before) and not scene.ended:
        count = (before.restart_count or 0) + 1  # the next one will have that number (P-106)
    resources = case.container.resources
    return ContainerStatus(
        name=case.container.name,
        container_id=id_,
        image=newest.image or case.container.image,
        image_id=newest.image_ref,
        restart_count=count,
        state=state,
        last_state=_last(scene, case, id_),
        allocated_resources=dict(resources.requests) if resources is not None else {},
        resources=amounts.shown(case.container, newest, same.resources if same else None),
        user=details.user(newest),
        volume_mounts=details.mounts(case.container, scene.context.recursive_read_only),
    )


def _state(scene: _Scene, case: _Case, same: ContainerStatus | None) -> ContainerState:
    """Return the state of a container; ``same``: the last status, if it is of this very one."""
    record = case.records[0]
    match record.state:
        case runtime.ContainerState.RUNNING:
            began = ContainerStateRunning(times.to_text(record.started_at_ns))
            return ContainerState(running=began)
        case runtime.ContainerState.EXITED:
            return ContainerState(terminated=_terminated(scene, case, record))
        case runtime.ContainerState.CREATED:
            return scene.waiting
        case runtime.ContainerState.UNKNOWN:
            return _unknown(same) or scene.waiting


def _unknown(same: ContainerStatus | None) -> ContainerState | None:
    """Return the state of a container that the runtime has lost sight of: it ran, so it ended."""
    if same is None or same.state is None:
        return None
    if same.state.running is not None:
        return lost(same.container_id)
    told = _told(same, same.container_id)
    return ContainerState(terminated=told) if told is not None else None


def _terminated(scene: _Scene, case: _Case, record: ContainerRecord) -> ContainerStateTerminated:
    id_ = _id(scene.context, record)
    known = _told(case.previous, id_)
    return ContainerStateTerminated(
        container_id=id_,
        exit_code=record.exit_code,
        reason=record.reason or (ERROR if record.exit_code else COMPLETED),
        message=scene.context.messages(record) if known is None else known.message,
        started_at=times.to_text(record.started_at_ns),
        finished_at=times.to_text(record.finished_at_ns),
    )


def _told(before: ContainerStatus | None, id_: str) -> ContainerStateTerminated | None:
    """Return what was said of a container's end: its last words are not read twice."""
    for state in (before.state, before.last_state) if before is not None else ():
        ended = state.terminated if state is not None else None
        if ended is not None and ended.container_id == id_:
            return ended
    return None


def _last(scene: _Scene, case: _Case, id_: str) -> ContainerState | None:
    """Return how the container before this one ended.

    The runtime keeps few dead containers: what is no longer there is remembered.
    """
    for older in case.records[1:]:
        if older.state is runtime.ContainerState.EXITED and older.inspected:
            return ContainerState(terminated=_terminated(scene, case, older))
    before = case.previous
    if before is None:
        return None
    ended = before.state.terminated if before.state is not None else None
    if ended is not None and before.container_id != id_:
        return before.state
    last = before.last_state
    if last is None or last.terminated is None or last.terminated.container_id == id_:
        return None
    return last


def _missing(scene: _Scene, case: _Case) -> ContainerStatus:
    """Return the status of a container of which the runtime has nothing."""
    before, status = case.previous, _absent(scene, case)
    if before is not None and before.state is not None:
        if scene.restarting:
            status = _restarting(status, before.state)
        elif before.state.terminated is not None:
            status = replace(before, volume_mounts=status.volume_mounts)
        elif before.state.running is not None:
            status = _vanished(scene, status)
    gone = scene.initialised and case.plain_init and not scene.restarting
    if gone and status.state == scene.waiting:
        # The regular containers could not be there if this one had not done its work (P-107).
        return replace(status, state=_invented(COMPLETED, INITIALISED_MESSAGE, 0))
    return status


def _absent(scene: _Scene, case: _Case) -> ContainerStatus:
    """Return the status of a container that is not there: it waits, and has its past."""
    before = case.previous
    return ContainerStatus(
        name=case.container.name,
        image=case.container.image,
        restart_count=(before.restart_count or 0) if before is not None else 0,
        state=scene.waiting,
        last_state=before.last_state if before is not None else None,
        volume_mounts=details.mounts(case.container, scene.context.recursive_read_only),
    )


def _vanished(scene: _Scene, status: ContainerStatus) -> ContainerStatus:
    """Return the status of a container that ran and is not there any more (P-106)."""
    count = (status.restart_count or 0) + (not scene.ended)
    last = _invented(UNKNOWN, VANISHED_MESSAGE, KILLED)
    return replace(status, restart_count=count, last_state=last)


def _restarting(status: ContainerStatus, before: ContainerState) -> ContainerStatus:
    """Return the status of a container that was removed to start the pod anew (P-81)."""
    waiting = _waiting(RESTARTING_ALL, RESTARTING_MESSAGE)
    if before.waiting is not None:
        return replace(status, state=waiting) if before == waiting else status
    return replace(
        status,
        state=waiting,
        last_state=_invented(RESTARTING_ALL, RESTARTING_MESSAGE, KILLED),
        restart_count=(status.restart_count or 0) + 1,
    )


def _with_reason(scene: _Scene, case: _Case, status: ContainerStatus) -> ContainerStatus:
    """Say why a container that is to be started waits (P-101..P-104)."""
    told = scene.context.reasons.get(case.container.name)
    if told is None or scene.ended or not _to_start(scene, case, status):
        return status
    ended = status.state is not None and status.state.terminated is not None
    last = status.state if ended else status.last_state
    if not case.records:
        status = replace(_absent(scene, case), restart_count=status.restart_count)
    return replace(status, state=_waiting(*told), last_state=last)


def _to_start(scene: _Scene, case: _Case, status: ContainerStatus) -> bool:
    if not case.records:
        completed = status.state is not None and status.state.terminated is not None
        return not (case.plain_init and scene.initialised and completed)
    newest = case.records[0]
    if newest.state is not runtime.ContainerState.EXITED:
        return newest.state is not runtime.ContainerState.RUNNING
    if case.kind is Kind.EPHEMERAL:
        return False  # P-74
    if case.plain_init:
        return init_restarts(scene.pod, case.container, newest)
    return should_restart(scene.pod, case.container, newest)


def _lost(state: ContainerState) -> bool:
    return state.terminated is not None and state.terminated.message == LOST_MESSAGE


def _waiting(reason: str, message: str) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(message=message, reason=reason))


def _invented(reason: str, message: str, exit_code: int, id_: str = "") -> ContainerState:
    """Return the end of a container that nobody saw."""
    ended = ContainerStateTerminated(id_, exit_code=exit_code, message=message, reason=reason)
    return ContainerState(terminated=ended)


def lost(id_: str = "") -> ContainerState:
    """Return the end of a container that should be there and is not (P-106, P-118).

    It has the id of one of which the runtime has something left.
    """
    return _invented(UNKNOWN, LOST_MESSAGE, KILLED, id_)


def _id(context: Context, record: ContainerRecord) -> str:
    return f"{context.runtime_name}://{record.id}"
