"""The state machine of a pod worker (P-30..P-41). Pure.

    SYNC --deleted, removed, ended, refused, orphan--> TERMINATING --all stopped--> TERMINATED
      ^                                                                                 |
      +-------- wanted again (P-39) --------- FINISHED <------- all cleaned up ---------+

A row only moves forward. ``apply`` is the one place that changes its state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kubelet import times
from kubelet.api.pod import Pod
from kubelet.pods.rows import Ending, PodRow, WorkerState, document_of
from procs.syncloop.runtime import killing
from procs.syncloop.runtime.killing import ORPHAN_GRACE

TERMINAL: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Desired:
    """A source wants this pod, as it is now; ``reconcile``: only its status differs (P-1)."""

    pod: Pod
    source: str
    reconcile: bool = False


@dataclass(frozen=True, slots=True)
class Removed:
    """The source does not have the pod any more."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Somebody has a reason to end the pod: eviction, deadline, preemption, shutdown."""

    reason: str
    message: str
    grace: int | None = None  # None: the pod's own
    disruption: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Admission refused the pod."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """Admission let the pod in."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The pod came to its own end: its phase is terminal (P-32)."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Nothing of the pod runs any more."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Nothing of the pod that must go is left on the node."""


Event = Desired | Removed | Kill | Rejected | Admitted | Ended | Stopped | Cleaned


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an event came to."""

    row: PodRow
    wake: bool = False  # the worker has something to look at
    cancel: bool = False  # what it is doing is out of date (P-30)


def born(pod: Pod, source: str, now_ns: int) -> PodRow:
    """Return the row of a pod that is new here."""
    row = PodRow(
        uid=pod.uid,
        name=pod.name,
        namespace=pod.namespace,
        source=source,
        version=1,
        document=document_of(pod),
        seen_ns=now_ns,
    )
    return _checked_desire(row, pod, now_ns).row


def orphan(uid: str, name: str, namespace: str, now_ns: int) -> PodRow:
    """Return the row of what the runtime holds and nobody wants (P-35)."""
    ending = Ending(grace=ORPHAN_GRACE, began_ns=now_ns, orphan=True, removed=True)
    state = WorkerState.TERMINATING
    return PodRow(uid, name, namespace, "", state=state, seen_ns=now_ns, ending=ending)


def apply(row: PodRow, event: Event, now_ns: int) -> Outcome:
    """Return what a row becomes by an event."""
    match event:
        case Desired():
            return _desired(row, event, now_ns)
        case Removed():
            return _end(replace(row, again=False), Ending(removed=True), None, now_ns)
        case Kill() | Rejected():
            return _failed(row, event, now_ns)
        case Admitted():
            return Outcome(replace(row, admitted=True, started=times.to_text(now_ns)))
        case Ended():
            return _end(row, Ending(), None, now_ns)
        case _:
            return _advance(row, isinstance(event, Stopped))


def _failed(row: PodRow, event: Kill | Rejected, now_ns: int) -> Outcome:
    ending = Ending(reason=event.reason, message=event.message, failed=True)
    if isinstance(event, Rejected):
        row = replace(row, rejected=f"{event.reason}\t{event.message}")
        return _end(row, ending, None, now_ns)
    return _end(row, replace(ending, disruption=event.disruption), event.grace, now_ns)


def _desired(row: PodRow, event: Desired, now_ns: int) -> Outcome:
    pod = event.pod
    document = document_of(pod)
    deleted = bool(pod.metadata.deletion_timestamp)
    if row.ending is not None and row.ending.removed and not deleted:
        # Removed and written again with the same UID: it lives once more, later (P-39).
        return Outcome(replace(row, again=True, document=document, source=event.source))
    if document == row.document:
        return Outcome(row)
    version = row.version if event.reconcile else row.version + 1
    row = replace(row, document=document, version=version, source=event.source)
    return _checked_desire(row, pod, now_ns)


def _checked_desire(row: PodRow, pod: Pod, now_ns: int) -> Outcome:
    """Look whether what is desired of a pod is its end (P-31)."""
    if pod.metadata.deletion_timestamp:
        grace = pod.metadata.deletion_grace_period_seconds
        return _end(row, Ending(removed=True), grace, now_ns)
    if pod.status.phase in TERMINAL:
        return _end(row, Ending(), None, now_ns)
    return Outcome(row, wake=row.state is WorkerState.SYNC)


def _end(row: PodRow, ending: Ending, grace: int | None, now_ns: int) -> Outcome:
    """Begin to terminate, or add to why and how fast it is done already."""
    wanted = effective_grace(row, grace)
    if row.state is WorkerState.SYNC:
        ending = replace(ending, grace=wanted, began_ns=now_ns)
        row = replace(row, state=WorkerState.TERMINATING, ending=ending)
        return Outcome(row, wake=True, cancel=True)
    old = row.ending or Ending(grace=wanted, began_ns=now_ns)
    merged = replace(old, removed=old.removed or ending.removed)
    shorter = row.state is WorkerState.TERMINATING and grace is not None and wanted < old.grace
    if shorter:
        merged = replace(merged, grace=wanted)
    if ending.failed and not old.failed and row.state is WorkerState.TERMINATING:
        merged = replace(
            merged,
            failed=True,
            reason=ending.reason,
            message=ending.message,
            disruption=ending.disruption,
        )
    return Outcome(replace(row, ending=merged), wake=merged != old, cancel=shorter)


def effective_grace(row: PodRow, override: int | None) -> int:
    """Return the grace of a pod in seconds (P-37)."""
    if row.document == b"":
        return ORPHAN_GRACE if override is None else max(override, killing.MIN_POD_GRACE)
    return killing.effective_grace(row.pod, override)


def _advance(row: PodRow, stopped: bool) -> Outcome:
    if stopped:
        begin, end = WorkerState.TERMINATING, WorkerState.TERMINATED
    else:
        begin, end = WorkerState.TERMINATED, WorkerState.FINISHED
    if row.state is not begin:
        raise ValueError(f"pod {row.uid} is {row.state}, it cannot become {end}")
    return Outcome(replace(row, state=end), wake=True)


def reborn(row: PodRow, now_ns: int) -> PodRow:
    """Return the row of the next life of a pod that is wanted again (P-39)."""
    fresh = born(row.pod, row.source, now_ns)
    return replace(fresh, version=row.version + 1)
