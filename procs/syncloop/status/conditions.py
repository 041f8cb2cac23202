"""The conditions of a pod (P-120..P-128)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kubelet import times
from kubelet.api.container import is_sidecar
from kubelet.api.pod import Pod
from kubelet.api.status import ContainerStatus, PodCondition, PodStatus
from kubelet.pods.resources import every_container
from kubelet.pods.runtime import PodRecord
from procs.syncloop.runtime.sandboxes import why_new
from procs.syncloop.status.context import Context
from procs.syncloop.status.phase import FAILED, SUCCEEDED, TERMINAL

TO_START: Final = "PodReadyToStartContainers"
INITIALISED: Final = "Initialized"
READY: Final = "Ready"
CONTAINERS_READY: Final = "ContainersReady"
SCHEDULED: Final = "PodScheduled"
RESTARTING: Final = "AllContainersRestarting"
RESIZE_PENDING: Final = "PodResizePending"
RESIZE_IN_PROGRESS: Final = "PodResizeInProgress"
DISRUPTION: Final = "DisruptionTarget"  # the kubelet's and others' (P-125)

# What the kubelet alone writes (P-128).
OWN: Final = frozenset(
    {
        TO_START,
        INITIALISED,
        READY,
        CONTAINERS_READY,
        SCHEDULED,
        RESTARTING,
        RESIZE_PENDING,
        RESIZE_IN_PROGRESS,
    }
)

BY_KUBELET: Final = "TerminationByKubelet"
SANDBOX_NOT_READY: Final = "PodSandboxNotReady"
NOT_INITIALISED: Final = "ContainersNotInitialized"
NOT_READY: Final = "ContainersNotReady"
GATES_NOT_READY: Final = "ReadinessGatesNotReady"
UNKNOWN_STATUSES: Final = "UnknownContainerStatuses"
POD_COMPLETED: Final = "PodCompleted"
POD_FAILED: Final = "PodFailed"
RESTART_STARTED: Final = "RestartAllContainersStarted"

TRUE: Final = "True"
FALSE: Final = "False"

_ENDED: Final = {SUCCEEDED: POD_COMPLETED, FAILED: POD_FAILED}


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A condition without its times."""

    type: str
    status: str = TRUE
    reason: str = ""
    message: str = ""


def conditions(
    pod: Pod,
    record: PodRecord | None,
    context: Context,
    statuses: Mapping[str, ContainerStatus],
    phase: str,
) -> tuple[PodCondition, ...]:
    """Return all conditions, in their order (P-120)."""
    before = context.previous or pod.status
    foreign = _with_disruption(_foreign(pod), pod, context, before)
    resize = () if context.ended else context.resize
    disruption = [c for c in foreign if c.type == DISRUPTION and c.reason == BY_KUBELET]
    others = [c for c in foreign if c not in disruption]
    kept = (*others, *resize, *disruption)
    verdicts = [
        _to_start(pod, record),
        _initialised(pod, statuses, phase),
        _ready(pod, statuses, phase, kept),
        _containers_ready(pod, statuses, phase),
        _Verdict(SCHEDULED),
    ]
    if _could_restart_all(pod):
        verdicts.append(_restarting(context, phase))
    return (*kept, *(_dated(verdict, pod, before, context) for verdict in verdicts))


def foreign_conditions(pod: Pod) -> tuple[PodCondition, ...]:
    """Return the conditions that others wrote: the kubelet keeps them (P-128)."""
    return tuple(_foreign(pod))


def named(found: Iterable[PodCondition], type_: str) -> PodCondition | None:
    """Return the condition of a type."""
    return next((c for c in found if c.type == type_), None)


def _foreign(pod: Pod) -> list[PodCondition]:
    return [c for c in pod.status.conditions if c.type not in OWN]


def _with_disruption(
    foreign: list[PodCondition], pod: Pod, context: Context, before: PodStatus
) -> list[PodCondition]:
    """Add that the kubelet ends the pod for reasons that are not the pod's (P-125)."""
    known = named(before.conditions, DISRUPTION)
    told = context.ending.disruption if context.ending is not None else ""
    if told and (known is None or known.reason != BY_KUBELET):
        known = _dated(_Verdict(DISRUPTION, TRUE, BY_KUBELET, told), pod, before, context)
    if known is None or known.reason != BY_KUBELET:
        return foreign
    return [*(c for c in foreign if c.type != DISRUPTION), known]


def _dated(verdict: _Verdict, pod: Pod, before: PodStatus, context: Context) -> PodCondition:
    """Return a condition with the moment since which its status is what it is."""
    old = named(before.conditions, verdict.type)
    same = old is not None and old.status == verdict.status and old.last_transition_time
    since = old.last_transition_time if old is not None and same else times.to_text(context.now_ns)
    return PodCondition(
        type=verdict.type,
        status=verdict.status,
        reason=verdict.reason,
        message=verdict.message,
        last_transition_time=since,
        observed_generation=pod.metadata.generation or None,
    )


def _to_start(pod: Pod, record: PodRecord | None) -> _Verdict:
    why = why_new(pod, record)
    if why:
        message = f"Pod needs a new sandbox: {why}"
        return _Verdict(TO_START, FALSE, SANDBOX_NOT_READY, message)
    return _Verdict(TO_START)


def _initialised(pod: Pod, statuses: Mapping[str, ContainerStatus], phase: str) -> _Verdict:
    inits = pod.spec.init_containers
    if inits and not statuses:
        return _Verdict(INITIALISED, FALSE, UNKNOWN_STATUSES)
    unknown = [c.name for c in inits if c.name not in statuses]
    if phase == SUCCEEDED and not unknown:
        return _Verdict(INITIALISED, TRUE, POD_COMPLETED)
    if any(_has_started(statuses.get(c.name)) for c in pod.spec.containers):
        return _Verdict(INITIALISED)  # sidecars that restart do not undo it
    incomplete = [
        c.name
        for c in inits
        if c.name in statuses
        and not (statuses[c.name].started if is_sidecar(c) else statuses[c.name].ready)
    ]
    message = _listed(unknown, incomplete, "incomplete")
    if message:
        return _Verdict(INITIALISED, FALSE, NOT_INITIALISED, message)
    return _Verdict(INITIALISED)


def _containers_ready(pod: Pod, statuses: Mapping[str, ContainerStatus], phase: str) -> _Verdict:
    if not statuses:
        return _Verdict(CONTAINERS_READY, FALSE, UNKNOWN_STATUSES)
    counted = [*filter(is_sidecar, pod.spec.init_containers), *pod.spec.containers]
    unknown = [c.name for c in counted if c.name not in statuses]
    if phase in TERMINAL and not (phase == SUCCEEDED and unknown):
        return _Verdict(CONTAINERS_READY, FALSE, _ENDED[phase])
    unready = [c.name for c in counted if c.name in statuses and not statuses[c.name].ready]
    message = _listed(unknown, unready, "unready")
    if message:
        return _Verdict(CONTAINERS_READY, FALSE, NOT_READY, message)
    return _Verdict(CONTAINERS_READY)


def _ready(
    pod: Pod,
    statuses: Mapping[str, ContainerStatus],
    phase: str,
    known: tuple[PodCondition, ...],
) -> _Verdict:
    containers = _containers_ready(pod, statuses, phase)
    if containers.status != TRUE:
        return replace(containers, type=READY)
    problems = []
    for gate in pod.spec.readiness_gates:
        condition = named(known, gate.condition_type)
        if condition is None:
            problems.append(
                "corresponding condition of pod readiness gate "
                f'"{gate.condition_type}" does not exist.'
            )
        elif condition.status != TRUE:
            problems.append(
                f'the status of pod readiness gate "{gate.condition_type}" is not "True", '
                f"but {condition.status}"
            )
    if problems:
        return _Verdict(READY, FALSE, GATES_NOT_READY, ", ".join(problems))
    return _Verdict(READY)


def _restarting(context: Context, phase: str) -> _Verdict:
    if phase in TERMINAL:
        return _Verdict(RESTARTING, FALSE, _ENDED[phase])
    if not context.restarting_all or context.ended:
        return _Verdict(RESTARTING, FALSE)
    message = "container exited with restart policy rule"
    return _Verdict(RESTARTING, TRUE, RESTART_STARTED, message)


def _could_restart_all(pod: Pod) -> bool:
    return any(
        rule.action == "RestartAllContainers"
        for container in every_container(pod)
        for rule in container.restart_policy_rules
    )


def _has_started(status: ContainerStatus | None) -> bool:
    state = status.state if status is not None else None
    return state is not None and (state.running is not None or state.terminated is not None)


def _listed(unknown: list[str], lacking: list[str], what: str) -> str:
    parts = []
    if unknown:
        parts.append(f"containers with unknown status: [{' '.join(unknown)}]")
    if lacking:
        parts.append(f"containers with {what} status: [{' '.join(lacking)}]")
    return ", ".join(parts)
