"""Runs the hook of a container that has just been started (P-144)."""

from __future__ import annotations

from kubelet.api.container import Container
from kubelet.api.pod import Pod
from kubelet.pods.rows import Call, CallStep, Wait
from procs.syncloop.events import WARNING
from procs.syncloop.runtime.hooks import HookError
from procs.syncloop.workers.publish import publish_now
from procs.syncloop.workers.retry import RetryError
from procs.syncloop.workers.stopping import StopError, stop_container
from procs.syncloop.workers.worker import Worker


async def run_post_start(
    worker: Worker, pod: Pod, container: Container, container_id: str, ips: tuple[str, ...]
) -> None:
    """Run the postStart hook of a container; its failure ends the container (P-144)."""
    assert container.lifecycle is not None
    handler = container.lifecycle.post_start
    assert handler is not None
    what = f"the postStart hook of container {container.name} to end"
    then = "the container counts as started if it ends well, and is stopped if it fails"
    wait = worker.waiting(what, then=then)
    worker.step(f"running the postStart hook of {container.name}", wait)
    worker.unstarted.add(container_id)
    worker.kit.reached("post-start:before", pod.uid)
    try:
        ip = ips[0] if ips else ""
        await worker.kit.hooks.run(pod, container, container_id, handler, ip, None)
    except HookError as err:
        worker.kit.emit(pod, WARNING, "FailedPostStartHook", "PostStartHook failed", container.name)
        worker.book.reason(pod.uid, container.name, "PostStartHookError", str(err))
        await _stop(worker, pod, container, container_id)
        wait = Wait(f"container {container.name} to be started again")
        raise RetryError(str(err), wait=wait) from None
    finally:
        worker.unstarted.discard(container_id)
    worker.kit.reached("post-start:after", pod.uid)
    worker.book.call(pod.uid, container.name, None)
    publish_now(worker)  # it counts as started, and is probed, while others are still to be started


async def _stop(worker: Worker, pod: Pod, container: Container, container_id: str) -> None:
    """Stop a container whose hook failed; if that fails too, its hook gets another try."""
    grace = pod.spec.termination_grace_period_seconds or 0
    try:
        await stop_container(worker, pod, container, container_id, grace, "FailedPostStartHook")
    except StopError as err:
        call = Call(CallStep.STARTED, container_id=container_id)
        worker.book.call(pod.uid, container.name, call)
        wait = Wait(f"container {container.name} to be stopped: its postStart hook failed")
        raise RetryError(str(err), wait=wait) from None
