"""The end of a pod: first everything stops (P-33), then everything goes (P-34)."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from typing import Final

from kubelet import logging as klog
from kubelet.api.meta import ObjectMeta
from kubelet.api.pod import Pod
from kubelet.channels.errors import ChannelError
from kubelet.channels.messages import RemovePodCgroup
from kubelet.cri.errors import CriError
from kubelet.pods.cgroups import pod_path
from kubelet.pods.rows import MOUNTS, VolumeRow, Wait
from kubelet.pods.runtime import PodRecord
from procs.syncloop.configs import files
from procs.syncloop.events import WARNING
from procs.syncloop.workers import state
from procs.syncloop.workers.publish import publish
from procs.syncloop.workers.retry import AGAIN
from procs.syncloop.workers.stopping import StopError, runs, stop_pod
from procs.syncloop.workers.sync import FOREVER, mounts_of, settle
from procs.syncloop.workers.worker import Worker

log = klog.get_logger(__name__)

_ERROR_SECONDS: Final = 10.0
_UNMOUNT_SECONDS: Final = 5.0  # between two words about what is not unmounted yet
_ASK_SECONDS: Final = 30.0
_NS: Final = 10**9


def subject(worker: Worker) -> Pod:
    """Return the pod, or what is known of one that nobody wants."""
    row = worker.row
    if row.document:
        return row.pod
    return Pod(metadata=ObjectMeta(name=row.name, namespace=row.namespace, uid=row.uid))


async def terminating(worker: Worker) -> float:
    """Stop everything that runs of the pod."""
    pod, ending = subject(worker), worker.row.ending
    assert ending is not None
    record = (await worker.observe()).record
    settle(worker, record)
    _show(worker, record)
    try:
        if record is not None and runs(record):
            await stop_pod(worker, pod, record, ending.grace, ending.began_ns)
            record = (await worker.observe()).record
    except StopError as err:
        worker.kit.emit(pod, WARNING, "FailedKillPod", f"error killing pod: {err}", "")
        return _again(worker, "waiting to stop it again", "it to stop", str(err))
    if runs(record):
        return worker.kit.jittered(1.0)
    worker.deliver(state.Stopped())
    _show(worker, record)
    return 0.0


def _again(worker: Worker, step: str, what: str, failed: str) -> float:
    """Say what did not work, and return how long to rest before it is tried again."""
    seconds = worker.kit.jittered(_ERROR_SECONDS)
    at = worker.kit.wall() + int(seconds * _NS)
    worker.step(step, worker.waiting(what, failed, AGAIN, at))
    return seconds


def _show(worker: Worker, record: PodRecord | None, *, finished: bool = False) -> None:
    if worker.row.document and not worker.row.again:
        publish(worker, record, finished=finished)


async def terminated(worker: Worker) -> float:
    """Take away what the pod had on the node; all of it, once nobody wants the pod any more."""
    ending = worker.row.ending
    assert ending is not None
    worker.kit.reached("clean:before", worker.uid)
    removed = ending.removed
    record = (await worker.observe()).record
    failed = await _clean(worker, record, removed)
    if failed:
        return _again(worker, "cleaning up", "the rest of it to go", failed)
    worker.step("")
    if worker.work.calls:
        worker.update_work(calls={})
    if not removed:
        _show(worker, record, finished=True)
        return FOREVER
    _show(worker, record, finished=True)
    worker.kit.users.release(worker.uid)
    worker.kit.reached("clean:after", worker.uid)
    worker.deliver(state.Cleaned())
    return 0.0


async def _clean(worker: Worker, record: PodRecord | None, removed: bool) -> str:
    """Clean up side by side what does not depend on each other; what failed, in words."""
    worker.step("cleaning up", worker.waiting("what it used to be cleaned up"))
    jobs = [_unmounted(worker), _runtime_part(worker, record, removed)]
    results = await asyncio.gather(*jobs)
    failed = "; ".join(filter(None, results))
    if failed or not removed:
        return failed
    return await asyncio.to_thread(_remove_dirs, worker)


async def _unmounted(worker: Worker) -> str:
    """Wait until the volumes are gone: ``volumes`` has seen the row's state."""
    while mounts_of(worker) is not None:
        try:
            await worker.kit.process.waiters.wait(
                MOUNTS, worker.uid, lambda: mounts_of(worker) is None or None, _UNMOUNT_SECONDS
            )
        except TimeoutError:
            row = mounts_of(worker)
            waits = [_unmount_wait(worker, v) for v in row.volumes] if row else []
            worker.step("waiting for volumes to be unmounted", *waits)
    return ""


def _unmount_wait(worker: Worker, volume: VolumeRow) -> Wait:
    what = f"volume {volume.name} to be unmounted"
    return worker.waiting(what, volume.reason, AGAIN, volume.retry_ns)


async def _runtime_part(worker: Worker, record: PodRecord | None, removed: bool) -> str:
    """Remove containers and sandboxes of a pod that nobody wants, then its cgroup."""
    try:
        if removed and record is not None:
            await _remove_from_runtime(worker, record)
        await _remove_cgroup(worker)
    except (CriError, ChannelError, OSError) as err:
        return str(err)
    return ""


async def _remove_from_runtime(worker: Worker, record: PodRecord) -> None:
    """Remove sandboxes, and with each all containers in it (I-2), and the links to their logs."""
    client, site, pod = worker.kit.client, worker.kit.site(), subject(worker)
    worker.kit.reached("remove-pod:before", worker.uid)
    for container in record.containers:
        files.unlink_log(pod, container.name, container.id, site)
    sandboxes = {sandbox.id for sandbox in record.sandboxes}
    strays = [c.id for c in record.containers if c.sandbox_id not in sandboxes]
    try:
        await asyncio.gather(
            *(client.remove_pod_sandbox(id_) for id_ in sandboxes),
            *(client.remove_container(id_) for id_ in strays),
        )
    finally:
        worker.acted()
    worker.kit.reached("remove-pod:after", worker.uid)


async def _remove_cgroup(worker: Worker) -> None:
    site = worker.kit.site()
    if not site.cgroups_per_qos or not worker.row.document:
        return
    ask = RemovePodCgroup(worker.uid, pod_path(worker.pod, site))
    await worker.kit.process.channels.ask("eviction", ask, timeout=_ASK_SECONDS)


def _remove_dirs(worker: Worker) -> str:
    """Remove the pod's directory and logs; what is still mounted below is never touched."""
    site, row = worker.kit.site(), worker.row
    logs = site.pod_logs_dir(row.namespace, row.name, row.uid)
    for path in (site.pod_dir(row.uid), logs):
        if _has_mounts(path):
            return f"something is still mounted below {path}"
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            continue
        except OSError as err:
            if err.errno != errno.ENAMETOOLONG:  # nothing can be there under such a name
                return f"{path} cannot be removed: {err}"
    return ""


def _has_mounts(path: str) -> bool:
    real = os.path.realpath(path) + "/"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        return any((line.split()[4] + "/").startswith(real) for line in mounts)
