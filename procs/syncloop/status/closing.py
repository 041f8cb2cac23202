"""The last status of a pod, and what of a status may be told already (P-116, P-118)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kubelet.api.pod import Pod
from kubelet.api.status import ContainerStatus, PodStatus
from kubelet.pods.runtime import ContainerState, PodRecord, SandboxState
from procs.syncloop.status.conditions import BY_KUBELET, DISRUPTION
from procs.syncloop.status.containers import Statuses, lost
from procs.syncloop.status.phase import PENDING, TERMINAL


def closed(pod: Pod, statuses: Statuses) -> Statuses:
    """Return the statuses of a pod that has ended: none of them runs or waits (P-118).

    What never had its turn, because a container before it failed, goes on waiting.
    """
    began = _began(statuses.init)
    init = (*map(_closed, statuses.init[:began]), *statuses.init[began:])
    regular = statuses.regular
    if _initialised(pod, statuses):
        regular = tuple(map(_closed, regular))
    return replace(statuses, init=init, regular=regular)


def publishable(
    status: PodStatus,
    record: PodRecord | None,
    published: PodStatus | None,
    *,
    stopped: bool,
    claims_prepared: bool = False,
) -> PodStatus:
    """Return what may be told of a status now (P-116).

    A terminal phase frees the pod's name, addresses and devices for others: it is held back until
    nothing of the pod can run. ``stopped``: its worker has seen to that. ``published``: what was
    told last. The condition DisruptionTarget comes with the terminal phase (P-125).
    """
    before = published or PodStatus(phase=PENDING)
    if status.phase not in TERMINAL:
        return without_disruption(status, before)
    held = claims_prepared or (not stopped and may_run(record))
    if not held or before.phase in TERMINAL:
        return status
    status = replace(
        status, phase=before.phase or PENDING, reason=before.reason, message=before.message
    )
    return without_disruption(status, before)


def may_run(record: PodRecord | None) -> bool:
    """Whether something of a pod runs or could."""
    if record is None:
        return False
    ended = (ContainerState.EXITED, ContainerState.CREATED)
    return any(c.state not in ended for c in record.containers) or any(
        box.state is SandboxState.READY for box in record.sandboxes
    )


def without_disruption(status: PodStatus, before: PodStatus) -> PodStatus:
    """Return a status without a DisruptionTarget of ours that was not told before."""
    kept = tuple(
        c
        for c in status.conditions
        if (c.type, c.reason) != (DISRUPTION, BY_KUBELET) or c in before.conditions
    )
    return status if kept == status.conditions else replace(status, conditions=kept)


def _began(init: Sequence[ContainerStatus]) -> int:
    """Return how many init containers had their turn: all but those that wait at the end."""
    for index in range(len(init) - 1, -1, -1):
        if _moved(init[index]):
            return index + 1
    return min(1, len(init))


def _moved(status: ContainerStatus) -> bool:
    """Whether a container ever did anything but wait."""
    last = status.last_state
    waits = status.state is not None and status.state.waiting is not None
    return not waits or (last is not None and last.terminated is not None)


def _initialised(pod: Pod, statuses: Statuses) -> bool:
    if not pod.spec.init_containers:
        return True
    if any(map(_moved, statuses.regular)):
        return True
    final = statuses.init[-1]
    ends = (s.terminated for s in (final.state, final.last_state) if s is not None)
    return any(ended is not None and not ended.exit_code for ended in ends)


def _closed(status: ContainerStatus) -> ContainerStatus:
    if status.state is not None and status.state.terminated is not None:
        return status
    started = None if status.started is None else False
    return replace(status, state=lost(), ready=False, started=started)
