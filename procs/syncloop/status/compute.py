"""The status of a pod: what the API shows of it (sections 3.8 to 3.10 of the facts). Pure.

The same input gives the same status, and a status that is computed again from itself does not
change: it is written only when something happened.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kubelet import times
from kubelet.api.container import ResourceRequirements
from kubelet.api.pod import Pod
from kubelet.api.status import HostIP, PodIP, PodStatus
from kubelet.pods import resources
from kubelet.pods.qos import qos_class
from kubelet.pods.runtime import PodRecord
from procs.syncloop.status import containers, ips
from procs.syncloop.status.closing import closed
from procs.syncloop.status.conditions import conditions, foreign_conditions
from procs.syncloop.status.context import Context, ProbeView
from procs.syncloop.status.normal import normalised
from procs.syncloop.status.phase import (
    FAILED,
    TERMINAL,
    phase,
)

__all__ = ["REJECTED", "Context", "ProbeView", "compute"]

REJECTED = "Pod was rejected: "


class _Phase(NamedTuple):
    """The phase, and why it is that."""

    phase: str
    reason: str
    message: str


def compute(pod: Pod, record: PodRecord | None, context: Context) -> PodStatus:
    """Return the status of a pod; no record: the runtime was looked at and has nothing of it."""
    before = context.previous or pod.status
    started = before.start_time or pod.status.start_time or context.start_time
    started = started or times.to_text(context.now_ns)
    empty = record is None or record.gone
    if context.refusal is not None and empty and not containers.has_run(before):
        return normalised(pod, _refused(pod, started, _settled(pod, FAILED, context)))
    found = containers.statuses(pod, record, context)
    over = context.stopped and not containers.any_runs(record)
    if over:
        found = closed(pod, found)
    of_all = found.by_name()
    computed = phase(
        pod,
        of_all,
        initialised=containers.initialised(pod, record, context.ignored),
        terminal=context.stopped,
        static=context.static,
    )
    if over and not context.static and computed not in TERMINAL:
        computed = FAILED  # P-118
    outcome = _settled(pod, computed, context)
    status = PodStatus(
        phase=outcome.phase,
        reason=outcome.reason,
        message=outcome.message,
        conditions=conditions(pod, record, context, of_all, outcome.phase),
        init_container_statuses=found.init,
        container_statuses=found.regular,
        ephemeral_container_statuses=found.ephemeral,
        start_time=started,
        qos_class=qos_class(pod),
        observed_generation=pod.metadata.generation or None,
    )
    status = _with_resources(pod, _with_ips(pod, record, context, status))
    return normalised(pod, _with_claims(pod, status))


def _settled(pod: Pod, computed: str, context: Context) -> _Phase:
    """Return the phase after everything that has a say in it."""
    before = context.previous or pod.status
    for known in (pod.status, before):
        if known.phase in TERMINAL:  # it stays for ever (P-115)
            return _kept(pod, known.phase, before)
    if context.refusal is not None:
        reason, message = context.refusal
        return _Phase(FAILED, reason, REJECTED + message)
    if context.ending is not None and context.ending.failed:
        return _Phase(FAILED, context.ending.reason, context.ending.message)
    return _kept(pod, computed, before)


def _kept(pod: Pod, phase: str, before: PodStatus) -> _Phase:
    """Return a phase with the reason that was given for the very same phase before."""
    same = [known for known in (before, pod.status) if known.phase == phase]
    reason = next((known.reason for known in same if known.reason), "")
    message = next((known.message for known in same if known.message), "")
    return _Phase(phase, reason, message)


def _refused(pod: Pod, started: str, outcome: _Phase) -> PodStatus:
    """Return the status of a pod that was not let in: nothing of it was ever here."""
    return PodStatus(
        phase=outcome.phase,
        reason=outcome.reason,
        message=outcome.message,
        conditions=foreign_conditions(pod),
        start_time=started,
        qos_class=qos_class(pod),
        observed_generation=pod.metadata.generation or None,
    )


def _with_ips(pod: Pod, record: PodRecord | None, context: Context, status: PodStatus) -> PodStatus:
    hosts = ips.chosen(context.node_ips, context.node_ips)
    before = context.previous or pod.status
    pods = ips.pod_ips(pod, record, before, context.node_ips)
    return replace(
        status,
        host_ip=hosts[0] if hosts else "",
        host_ips=tuple(map(HostIP, hosts)),
        pod_ip=pods[0] if pods else "",
        pod_ips=tuple(map(PodIP, pods)),
    )


def _with_resources(pod: Pod, status: PodStatus) -> PodStatus:
    """Add what the pod as a whole was given (P-130)."""
    asked = {name: str(amount) for name, amount in resources.pod_requests(pod).items()}
    allowed = {name: str(amount) for name, amount in resources.pod_limits(pod).items()}
    if not asked and not allowed:
        return status
    given = ResourceRequirements(requests=asked, limits=allowed)
    return replace(status, allocated_resources=asked, resources=given)


def _with_claims(pod: Pod, status: PodStatus) -> PodStatus:
    """Keep what others write into the status (P-128)."""
    return replace(
        status,
        resource_claim_statuses=pod.status.resource_claim_statuses,
        extended_resource_claim_status=pod.status.extended_resource_claim_status,
        node_allocatable_resource_claim_statuses=(
            pod.status.node_allocatable_resource_claim_statuses
        ),
    )
