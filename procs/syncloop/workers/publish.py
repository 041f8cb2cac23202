"""From what is known of a pod to its status in table ``status``."""

from __future__ import annotations

import json

from kubelet.api import codec
from kubelet.api.status import PodStatus
from kubelet.pods.rows import FILE, HTTP, CallStep, StatusRow, WorkerState
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord
from procs.syncloop.configs.message import termination_message
from procs.syncloop.runtime.kinds import find_or_none
from procs.syncloop.site import Site
from procs.syncloop.status.closing import publishable
from procs.syncloop.status.compute import Context, compute
from procs.syncloop.workers import recover
from procs.syncloop.workers.worker import Worker

_STOPPED = (WorkerState.TERMINATED, WorkerState.FINISHED)


def publish(worker: Worker, record: PodRecord | None, *, finished: bool = False) -> PodStatus:
    """Compute the status of a pod, write what may be told of it (P-116), and return it."""
    before = worker.book.statuses.get(worker.uid)
    told_before = _told(worker, before)
    stopped = worker.row.state in _STOPPED
    _forget_messages(worker, record)
    unspoken = recover.unspoken(worker.work.calls, record)
    unstarted = _unstarted(worker)
    status = compute(worker.pod, record, _context(worker, record, told_before, unspoken, unstarted))
    told = publishable(status, record, told_before, stopped=stopped)
    document = json.dumps(codec.encode(told), separators=(",", ":")).encode()
    row = worker.row
    version = before.version if before is not None else 0
    if before is None or before.document != document or before.finished != finished:
        version += 1  # who says it to others has something to say
    hooked = _running(record, unstarted)
    written = StatusRow(row.uid, row.name, row.namespace, version, document, finished, hooked)
    if written != before:
        worker.book.put_status(written)
        worker.told = (written, told)
        if told_before is None or told_before.phase != told.phase:
            worker.record("phase", told.phase)
    return status


def publish_now(worker: Worker) -> None:
    """Show what is known at this moment, whatever the worker is in the middle of.

    A pod that was not let in yet, or of which nothing runs any more, has nothing to show; nor does
    a table that was not looked at since this process began (P-133).
    """
    row, kit = worker.row, worker.kit
    ending = row.state is WorkerState.TERMINATING
    active = ending or (row.state is WorkerState.SYNC and row.admitted)
    if not active or not row.document or row.again or worker.uid in kit.process.quarantined:
        return
    seen = kit.cache.get(worker.uid)
    if seen.stamp_ns > kit.started_ns:
        publish(worker, seen.record)


def _told(worker: Worker, before: StatusRow | None) -> PodStatus | None:
    """Return the status that was written last, without taking our own words apart again."""
    if before is None:
        return None
    if worker.told is None or worker.told[0] is not before:
        worker.told = (before, before.status)  # a predecessor's
    return worker.told[1]


def _context(
    worker: Worker,
    record: PodRecord | None,
    before: PodStatus | None,
    ignored: frozenset[str],
    unstarted: frozenset[str],
) -> Context:
    row, kit, work = worker.row, worker.kit, worker.work
    runtime = kit.cache.runtime()
    site = kit.site()
    return Context(
        now_ns=kit.wall(),
        previous=before,
        reasons=_reasons(work.reasons),
        probes=kit.probes.views(c.id for c in record.containers) if record is not None else {},
        unstarted=unstarted,
        ignored=ignored,
        messages=lambda found: _message(worker, found, site),
        ending=row.ending,
        rejected=row.rejected,
        static=row.source in (FILE, HTTP),
        stopped=row.state in _STOPPED,
        node_ips=site.ips,
        runtime_name=runtime.name if runtime is not None and runtime.name else "containerd",
        start_time=row.started,
        recursive_read_only=runtime is not None
        and any(h.recursive_read_only_mounts for h in runtime.handlers),
        restarting_all=work.restarting,
    )


def _unstarted(worker: Worker) -> frozenset[str]:
    """Return the containers whose postStart hook is not known to be over (P-144)."""
    found = set(worker.unstarted)
    for name, call in worker.work.calls.items():
        container = find_or_none(worker.pod, name)
        hook = container.lifecycle.post_start if container and container.lifecycle else None
        if hook is not None and call.step in (CallStep.START, CallStep.STARTED):
            found.add(call.container_id)
    return frozenset(found)


def _running(record: PodRecord | None, ids: frozenset[str]) -> tuple[str, ...]:
    """Return those that run, in an order that does not change by itself."""
    if record is None or not ids:
        return ()
    running = ContainerState.RUNNING
    return tuple(sorted(c.id for c in record.containers if c.id in ids and c.state is running))


def _reasons(entries: dict[str, str]) -> dict[str, tuple[str, str]]:
    found = {}
    for name, entry in entries.items():
        reason, _, message = entry.partition("\t")
        found[name] = (reason, message)
    return found


def _forget_messages(worker: Worker, record: PodRecord | None) -> None:
    """Forget the words of containers that are not there any more."""
    there = {c.id for c in record.containers} if record is not None else set()
    worker.messages = {id_: text for id_, text in worker.messages.items() if id_ in there}


def _message(worker: Worker, found: ContainerRecord, site: Site) -> str:
    """Return the termination message of a container; its file is read once (P-185)."""
    if found.id not in worker.messages:
        worker.messages[found.id] = termination_message(worker.pod, found, site)
    return worker.messages[found.id]
