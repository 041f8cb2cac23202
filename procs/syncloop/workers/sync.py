"""One sync of a pod that is to run (P-50..P-60): look, decide, act, until nothing is left to do."""

from __future__ import annotations

from typing import Final

from kubelet import times
from kubelet.api.pod import Pod
from kubelet.api.status import PodStatus
from kubelet.channels.errors import ChannelError
from kubelet.cri.errors import CriError
from kubelet.pods.cgroups import pod_cgroup
from kubelet.pods.probes import ProbeKind
from kubelet.pods.rows import Wait, WorkerState
from kubelet.pods.runtime import PodRecord
from procs.syncloop.admission.base import Preempt, Refusal
from procs.syncloop.configs import files
from procs.syncloop.events import NORMAL, WARNING
from procs.syncloop.probes.results import started_in
from procs.syncloop.runtime.kinds import find, find_or_none
from procs.syncloop.runtime.plan import Observed, Plan, plan
from procs.syncloop.status.phase import (
    DEADLINE_MESSAGE,
    DEADLINE_REASON,
    TERMINAL,
    deadline_remaining,
)
from procs.syncloop.workers import recover, state
from procs.syncloop.workers.mounting import mounted
from procs.syncloop.workers.post_start import run_post_start
from procs.syncloop.workers.publish import publish
from procs.syncloop.workers.retry import Result, RetryError, show
from procs.syncloop.workers.starting import Starter
from procs.syncloop.workers.stopping import StopError, stop_container, stop_pod
from procs.syncloop.workers.worker import Worker

FOREVER: Final = 3600.0  # rest until something happens
_ERROR_SECONDS: Final = 10.0  # T-10
_TRANSIENT_SECONDS: Final = 1.0
_SOON_SECONDS: Final = 0.05
_ASK_SECONDS: Final = 10.0
_NS: Final = 10**9
_ACTIVE: Final = (WorkerState.SYNC, WorkerState.TERMINATING)  # they hold what they asked for


async def sync(worker: Worker) -> float:
    """Bring the pod one step further; how long to rest unless something happens."""
    if not worker.row.admitted:
        await worker.surveyed()
    if blocked := worker.peers.blocker(worker):
        what = f"the pod of the same name before it ({blocked}) to end"
        wait = worker.waiting(what, then="it is started when nothing is left of that one")
        worker.step("waiting for its predecessor", wait)
        return worker.kit.jittered(_ERROR_SECONDS)
    record = (await worker.observe()).record
    settle(worker, record)
    if not worker.row.admitted:
        if not _runtime_known(worker):
            return FOREVER
        if not _admit(worker):
            return 0.0 if worker.row.ending else FOREVER
    pod = worker.pod
    status = publish(worker, record)
    if status.phase in TERMINAL:
        worker.deliver(state.Ended())  # P-32
        return 0.0
    if _time_left(worker, pod) == 0:
        worker.kit.emit(pod, NORMAL, DEADLINE_REASON, DEADLINE_MESSAGE, "")
        worker.deliver(state.Kill(DEADLINE_REASON, DEADLINE_MESSAGE))
        return 0.0
    try:
        rest = await _act(worker, pod, record, status)
    except RetryError as err:
        rest = _delay(worker, [err])
    left = _time_left(worker, pod)
    return rest if left is None else min(rest, left)


def _time_left(worker: Worker, pod: Pod) -> float | None:
    """Return for how many seconds a pod may still be active (P-117); None: for ever."""
    left = deadline_remaining(pod, times.to_ns(worker.row.started), worker.kit.wall())
    return None if left is None else left / _NS


def settle(worker: Worker, record: PodRecord | None) -> None:
    """Make sense of what a predecessor, or this worker before it was cancelled, had under way."""
    if worker.work.calls:
        for name, call in recover.begun(worker.work.calls, record).items():
            if not worker.kit.said(worker.pod, "Started", name, call.since_ns):
                worker.kit.emit(worker.pod, NORMAL, "Started", "Container started", name)
        calls = recover.settled(worker.work.calls, record)
        for name in recover.unhooked(calls):
            if not _has_post_start(worker, name):
                del calls[name]
        worker.update_work(calls=calls)


def _has_post_start(worker: Worker, name: str) -> bool:
    container = find_or_none(worker.pod, name)
    return bool(container and container.lifecycle and container.lifecycle.post_start)


def _runtime_known(worker: Worker) -> bool:
    """Tell whether the runtime has said what it can do: a pod refused too early stays refused."""
    runtime = worker.kit.cache.runtime()
    if runtime is not None and runtime.conditions:
        return True
    worker.waits_for_network = True  # as for whatever else the runtime says
    wait = worker.waiting("the container runtime to say what it can do", then="it is let in")
    worker.step("waiting for the runtime", wait)
    return False


def _admit(worker: Worker) -> bool:
    kit, pod = worker.kit, worker.pod
    others = [
        row.pod
        for row in worker.book.pods.values()
        if row.uid != worker.uid and row.admitted and row.state in _ACTIVE
    ]
    answer = kit.admission.admit(pod, others, kit.site())
    if isinstance(answer, Refusal):
        kit.emit(pod, WARNING, answer.reason, answer.message, "")
        worker.deliver(state.Rejected(answer.reason, answer.message))
        return False
    if answer is not None:
        _make_room(worker, answer)
        return False
    worker.deliver(state.Admitted())
    worker.record("admitted")
    return True


def _make_room(worker: Worker, answer: Preempt) -> None:
    """End the pods that stand in the way of a critical one (A-5); it is let in when they ended."""
    names = ", ".join(str(victim) for victim in answer.victims)
    wait = worker.waiting(f"{names} to make room for it", then="it is started when they have ended")
    worker.step("waiting for room", wait)
    for victim in answer.victims:
        if worker.book.pods[victim.uid].state is not WorkerState.SYNC:
            continue
        worker.kit.emit(victim, WARNING, answer.reason, answer.message, "")
        event = state.Kill(answer.reason, answer.message, disruption=answer.disruption)
        worker.peers.kill(victim.uid, event)


async def _act(worker: Worker, pod: Pod, record: PodRecord | None, status: PodStatus) -> float:
    if await _run_hooks_again(worker, pod, record):
        return 0.0  # a container counts as started now: its status is another
    planned = plan(pod, _observed(worker, record, status))
    if planned.restart_all != worker.work.restarting:
        worker.update_work(restarting=planned.restart_all)
        publish(worker, record)
    if planned.nothing and planned.finished:
        worker.deliver(state.Ended())  # it ended before any of its containers could say so
        return 0.0
    if planned.nothing:
        _at_rest(worker)
        await worker.kit.gc.prune_pod(worker.uid, record)
        return worker.kit.jittered(worker.kit.process.config.duration("syncFrequency"))
    try:
        acted = await _stop_unwanted(worker, pod, record, planned)
    except (StopError, CriError, OSError) as err:
        worker.kit.emit(pod, WARNING, "FailedKillPod", f"error killing pod: {err}", "")
        wait = Wait("what it does not need any more to be stopped")
        raise RetryError(str(err), wait=wait) from None
    if not planned.start and not planned.new_sandbox:
        return 0.0 if acted else worker.kit.jittered(_ERROR_SECONDS)
    _check_network(worker, pod)
    await _cgroup(worker, pod)
    mounts = await mounted(worker, pod, record)
    if mounts is None:
        return 0.0
    result = await Starter(worker, pod, record, mounts).run(planned)
    return await _after(worker, record, result)


def _at_rest(worker: Worker) -> None:
    if worker.work.reasons:
        worker.update_work(reasons={})
    worker.still_waiting()
    worker.step("")


async def _after(worker: Worker, planned: PodRecord | None, result: Result) -> float:
    """Show what was reached, then rest or go on."""
    if result.acted:
        worker.record("looking")
        record = (await worker.observe()).record
        settle(worker, record)
        publish(worker, record)
    if not result.failures:
        return 0.0
    record = (await worker.observe()).record
    publish(worker, record)
    seconds = _delay(worker, result.failures)
    if _containers(planned) == _containers(record):
        worker.calm()  # the news was our own sandbox: nothing else is to be tried for it
    # What was started may have ended already, and this look was no news to anybody: once more.
    return 0.0 if result.started else seconds


def _containers(record: PodRecord | None) -> frozenset[tuple[str, str]]:
    return frozenset((c.id, c.state) for c in record.containers) if record else frozenset()


def _delay(worker: Worker, failures: list[RetryError]) -> float:
    """Return how long to rest after failures (P-36), and say so."""
    now = worker.kit.wall()
    if any(f.soon for f in failures):
        return _soon(worker, failures)
    worker.soon_ns = 0
    frequency = worker.kit.process.config.duration("syncFrequency")
    moments = [f.until_ns for f in failures if f.until_ns]
    seconds = min(max(0.001, (min(moments) - now) / _NS), frequency) if moments else frequency
    if len(moments) < len(failures):
        seconds = min(seconds, worker.kit.jittered(_ERROR_SECONDS))
    show(worker, failures, now + int(seconds * _NS))
    return seconds


def _soon(worker: Worker, failures: list[RetryError]) -> float:
    """Return how long to rest while the runtime gives up a call of a dead predecessor.

    No event says when it has. It is asked the more rarely the longer it takes, and said then.
    """
    now = worker.kit.wall()
    worker.soon_ns = worker.soon_ns or now
    seconds = min(max(_SOON_SECONDS, (now - worker.soon_ns) / _NS / 10), _ERROR_SECONDS)
    if seconds > _TRANSIENT_SECONDS:
        show(worker, failures, now + int(seconds * _NS))
    return seconds


def _observed(worker: Worker, record: PodRecord | None, status: PodStatus) -> Observed:
    calls, probes = worker.work.calls, worker.kit.probes
    ids = [c.id for c in record.containers] if record is not None else []
    return Observed(
        record=record,
        now_ns=worker.kit.wall(),
        started=started_in(worker.pod, status),
        liveness_failed=probes.failed(ProbeKind.LIVENESS, ids),
        startup_failed=probes.failed(ProbeKind.STARTUP, ids),
        broken_off=recover.broken_off(calls),
        deleted=worker.row.state is not WorkerState.SYNC,
    )


async def _run_hooks_again(worker: Worker, pod: Pod, record: PodRecord | None) -> bool:
    """Run the postStart hooks that a predecessor did not see the end of; whether there were any."""
    ips = next((s.ips for s in record.sandboxes if s.ips), ()) if record else ()
    unhooked = recover.unhooked(worker.work.calls)
    for name, container_id in unhooked.items():
        container = find(pod, name)
        await run_post_start(worker, pod, container, container_id, ips)
    return bool(unhooked)


async def _stop_unwanted(worker: Worker, pod: Pod, record: PodRecord | None, planned: Plan) -> bool:
    """Stop and remove what the plan does not want; whether there was anything."""
    if record is None:
        return False
    own = pod.spec.termination_grace_period_seconds
    grace = 30 if own is None else own
    if planned.kill_pod or (planned.new_sandbox and record.sandboxes):
        await stop_pod(worker, pod, record, grace, worker.kit.wall())
    else:
        await _stop_some(worker, pod, planned, grace)
    known = {c.id: c for c in record.containers}
    for container in (known[id_] for id_ in planned.remove if id_ in known):
        worker.kit.reached("remove:before", pod.uid)
        await worker.kit.gc.remove(record, container, keep_logs=planned.restart_all)
        worker.acted()
    return bool(planned.kill_pod or planned.kill or planned.remove)


async def _stop_some(worker: Worker, pod: Pod, planned: Plan, grace: int) -> None:
    for kill in planned.kill:
        container = find_or_none(pod, kill.name)
        if container is None:
            await worker.kit.client.stop_container(kill.id, 2)
            worker.acted()
            continue
        seconds = grace if kill.grace is None else kill.grace
        await stop_container(worker, pod, container, kill.id, seconds, kill.message)


def _check_network(worker: Worker, pod: Pod) -> None:
    """Wait for the runtime's network, unless the pod uses the node's (P-51)."""
    worker.waits_for_network = False
    runtime = worker.kit.cache.runtime()
    if pod.spec.host_network or runtime is None:
        return
    for condition in runtime.conditions:
        if condition.type == "NetworkReady" and not condition.status:
            text = (
                "network is not ready: container runtime network not ready: NetworkReady=false "
                f"reason:{condition.reason} message:{condition.message}"
            )
            worker.kit.emit(pod, WARNING, "NetworkNotReady", text, "")
            worker.waits_for_network = True
            at = worker.kit.wall() + int(worker.kit.jittered(_TRANSIENT_SECONDS) * _NS)
            wait = Wait("the network of the container runtime")
            raise RetryError(text, at, wait=wait)


async def _cgroup(worker: Worker, pod: Pod) -> None:
    """Have the pod's cgroup there before anything runs in it (P-53)."""
    site = worker.kit.site()
    try:
        files.make_pod_dirs(pod, site)
    except OSError as err:
        text = f"error making pod data directories: {err}"
        worker.kit.emit(pod, WARNING, "Failed", text, "")
        raise RetryError(text, wait=Wait("its directories to be made")) from None
    if not site.cgroups_per_qos:
        return
    wanted = pod_cgroup(pod, site, worker.kit.policy.memory)
    worker.kit.reached("cgroup:before", pod.uid)
    try:
        await worker.kit.process.channels.ask("eviction", wanted, timeout=_ASK_SECONDS)
    except ChannelError as err:
        text = f"unable to ensure pod container exists: {err}"
        worker.kit.emit(pod, WARNING, "FailedCreatePodContainer", text, "")
        at = worker.kit.wall() + int(_TRANSIENT_SECONDS * _NS)
        raise RetryError(text, at, wait=Wait("its cgroup to be made")) from None
    worker.kit.reached("cgroup:after", pod.uid)
