"""Stops containers and sandboxes: hooks first, then the runtime, all within the pod's grace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable
from typing import Any, Final

from kubelet import logging as klog
from kubelet.api import codec
from kubelet.api.container import Container
from kubelet.api.handlers import Lifecycle, LifecycleHandler
from kubelet.api.pod import Pod
from kubelet.cri.errors import CriError
from kubelet.pods.rows import Call, CallStep
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord, SandboxState
from procs.syncloop.events import NORMAL, WARNING
from procs.syncloop.runtime import killing
from procs.syncloop.runtime.hooks import HookError
from procs.syncloop.runtime.kinds import find_or_none
from procs.syncloop.workers.worker import Worker

log = klog.get_logger(__name__)

_HANDLER: Final = "io.kubernetes.container.preStopHandler"
_SECOND: Final = 10**9
# A shim that is told of more than 32 ends while it still runs kills blocks itself, and then takes a
# second for each. A container ends with three processes (its own, a child, the one that killed it):
# so only a few begin to stop at a time. Who is slow makes room, as all share one grace.
_AT_ONCE: Final = 5
_ROOM_SECONDS: Final = 1.0
_NAMED: Final = 3  # containers in a text, before the others are only counted


class StopError(Exception):
    """Something would not stop; it is tried again."""


def rebuilt(record: ContainerRecord) -> Container:
    """Return what a container without a spec says of itself in its annotations (P-146)."""
    text = record.annotations.get(_HANDLER, "")
    if not text:
        return Container(name=record.name)
    try:
        handler, _ = codec.decode(LifecycleHandler, json.loads(text))
    except ValueError as err:
        log.warning("preStopHandler annotation cannot be read", container=record.id, err=err)
        return Container(name=record.name)
    return Container(name=record.name, lifecycle=Lifecycle(pre_stop=handler))


async def stop_container(  # noqa: PLR0913, PLR0917 - what is stopped, how fast and why
    worker: Worker,
    pod: Pod,
    container: Container,
    container_id: str,
    grace: int,
    why: str = "",
) -> None:
    """Stop one container: its hook within the grace, then the runtime with what is left of it."""
    kit, book, name = worker.kit, worker.book, container.name
    began = kit.wall()
    before = worker.work.calls.get(name)
    resumed = before is not None and before.container_id == container_id
    if not resumed or before is None or before.step not in (CallStep.PRE_STOP, CallStep.STOP):
        kit.emit(pod, NORMAL, "Killing", why or f"Stopping container {name}", name)
    hook = container.lifecycle.pre_stop if container.lifecycle else None
    stopped_hook = resumed and before is not None and before.step is CallStep.STOP
    if hook is not None and grace > 0 and not stopped_hook:
        book.call(pod.uid, name, Call(CallStep.PRE_STOP, container_id=container_id))
        await _pre_stop(worker, pod, container, container_id, hook, grace)
    left = killing.runtime_grace(grace, (kit.wall() - began) / _SECOND)
    book.call(pod.uid, name, Call(CallStep.STOP, container_id=container_id))
    kit.reached("stop:before", pod.uid)
    try:
        await kit.client.stop_container(container_id, left)
    except CriError as err:
        raise StopError(f"container {name}: {err.go_text}") from None
    finally:
        worker.acted()
    kit.reached("stop:after", pod.uid)
    book.call(pod.uid, name, None)
    worker.record("stopped", f"{name} {container_id[:13]}")


async def _pre_stop(  # noqa: PLR0913, PLR0917 - as above
    worker: Worker,
    pod: Pod,
    container: Container,
    container_id: str,
    hook: LifecycleHandler,
    grace: int,
) -> None:
    worker.kit.reached("pre-stop:before", pod.uid)
    record = worker.kit.cache.get(pod.uid).record
    ips = next((s.ips for s in record.sandboxes if s.ips), ()) if record else ()
    ip = ips[0] if ips else ""
    try:
        async with asyncio.timeout(grace):
            await worker.kit.hooks.run(pod, container, container_id, hook, ip, None)
    except HookError as err:
        log.warning("preStop hook failed", pod=str(pod), container=container.name, err=err)
        text = "PreStopHook failed"
        worker.kit.emit(pod, WARNING, "FailedPreStopHook", text, container.name)
    except TimeoutError:
        text = f"PreStopHook did not end within the grace period of {grace} s"
        log.warning(text, pod=str(pod), container=container.name)
        worker.kit.emit(pod, WARNING, "FailedPreStopHook", text, container.name)
    worker.kit.reached("pre-stop:after", pod.uid)


async def stop_pod(worker: Worker, pod: Pod, record: PodRecord, grace: int, since_ns: int) -> None:
    """Stop all containers in their order (P-140), then the sandboxes, within one grace."""
    for stage in killing.stages(pod, record):
        spent = max(0, worker.kit.wall() - since_ns) // _SECOND
        left = max(0, grace - int(spent))
        names = _listed(sorted({c.name for c in stage}))
        at = worker.kit.wall() + left * _SECOND
        then = "what still runs then is killed"
        wait = worker.waiting(f"container {names} to end", then=then, next_ns=at)
        worker.step(f"stopping {names}", wait)
        slots = asyncio.Semaphore(_AT_ONCE)
        await _all(_stop_in_turn(slots, worker, pod, found, left) for found in stage)
    await stop_sandboxes(worker, pod, record)


async def _stop_in_turn(
    slots: asyncio.Semaphore, worker: Worker, pod: Pod, found: ContainerRecord, grace: int
) -> None:
    """Stop one of many containers when there is room for it, with what is left of the grace."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await slots.acquire()
    left = max(0, grace - int(loop.time() - began))
    room = loop.create_future()
    room.add_done_callback(lambda _: slots.release())
    timer = loop.call_later(_ROOM_SECONDS, _settle, room)
    try:
        await stop_container(worker, pod, _container(pod, found), found.id, left)
    finally:
        timer.cancel()
        _settle(room)


def _settle(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _container(pod: Pod, record: ContainerRecord) -> Container:
    return find_or_none(pod, record.name) or rebuilt(record)


async def _all(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Await all of them, and only then raise what the first that failed raised."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    failed = [r for r in results if isinstance(r, BaseException)]
    bugs = [r for r in failed if not isinstance(r, StopError)]
    if bugs:
        raise bugs[0]
    if failed:
        raise StopError("; ".join(str(r) for r in failed))


async def stop_sandboxes(worker: Worker, pod: Pod, record: PodRecord) -> None:
    """Stop every sandbox, with its network; those that are not ready too, once more."""
    worker.step("stopping the sandbox")
    for sandbox in record.sandboxes:
        worker.kit.reached("sandbox-stop:before", pod.uid)
        try:
            await worker.kit.client.stop_pod_sandbox(sandbox.id)
        except CriError as err:
            raise StopError(f"sandbox {sandbox.id[:13]}: {err.go_text}") from None
        finally:
            worker.acted()
        worker.kit.reached("sandbox-stop:after", pod.uid)


def runs(record: PodRecord | None) -> bool:
    """Tell whether anything of a pod may still run."""
    if record is None:
        return False
    alive = (ContainerState.RUNNING, ContainerState.UNKNOWN)
    return any(c.state in alive for c in record.containers) or any(
        s.state is SandboxState.READY for s in record.sandboxes
    )
