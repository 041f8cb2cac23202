"""The end of a pod: first everything stops (P-33), then everything goes (P-34)."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from kubelet import logging as klog
from kubelet.api.meta import ObjectMeta
from kubelet.api.pod import Pod
from kubelet.channels.errors import ChannelError
from kubelet.channels.messages import RemovePodCgroup
from kubelet.cri.errors import CriError
from kubelet.pods.cgroups import pod_path
from kubelet.pods.rows import MOUNTS, MountsRow, VolumeRow, Wait
from kubelet.pods.runtime import PodRecord
from procs.syncloop.configs import files
from procs.syncloop.events import WARNING
from procs.syncloop.workers import state
from procs.syncloop.workers.mounting import mounts_of, volume_wait
from procs.syncloop.workers.publish import publish
from procs.syncloop.workers.retry import AGAIN
from procs.syncloop.workers.stopping import StopError, runs, stop_pod
from procs.syncloop.workers.sync import FOREVER, settle
from procs.syncloop.workers.worker import Worker
from procs.volumes import mounts
from procs.volumes.errors import VolumeError
from procs.volumes.removal import remove_tree

log = klog.get_logger(__name__)

_ERROR_SECONDS: Final = 10.0
_UNMOUNT_SECONDS: Final = 5.0  # before a word about what says nothing of itself
_ASK_SECONDS: Final = 30.0
_NS: Final = 10**9
_OF_VOLUMES: Final = ("volumes", "volumeDevices", "volume-subpaths")
_LONGEST_NAME: Final = 255  # bytes, of a file system


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
    row, silent = mounts_of(worker), False
    while row is not None:
        waits = [_wait(volume) for volume in row.volumes if silent or _told(volume)]
        if waits:
            worker.step("waiting for volumes to be unmounted", *waits)
        try:
            row, silent = await _other(worker, row), False
        except TimeoutError:
            silent = True
    return ""


def _told(volume: VolumeRow) -> bool:
    """Whether a volume's row says what is waited for."""
    return bool(volume.reason or volume.operation)


def _wait(volume: VolumeRow) -> Wait:
    return volume_wait(volume, "unmounted")


async def _other(worker: Worker, before: MountsRow) -> MountsRow | None:
    """Return the row as soon as it is another, or gone; TimeoutError: it stays as it is."""

    def look() -> tuple[MountsRow | None] | None:
        row = mounts_of(worker)
        return (row,) if row != before else None

    (found,) = await worker.kit.process.waiters.wait(MOUNTS, worker.uid, look, _UNMOUNT_SECONDS)
    return found


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
    """Remove the pod's directory and logs, but nothing that is mounted or a volume's (L-18)."""
    site, row = worker.kit.site(), worker.row
    logs = site.pod_logs_dir(row.namespace, row.name, row.uid)
    pod = site.pod_dir(row.uid)
    for place in _OF_VOLUMES:
        if os.path.lexists(f"{pod}/{place}"):
            return f"{pod}/{place} is still there: volumes has not removed it"
    for path in (pod, logs):
        if (
            len(os.fsencode(os.path.basename(path))) > _LONGEST_NAME
        ):  # nothing can be there under such a name
            continue
        try:
            remove_tree(path, mounts.points())
        except VolumeError as err:
            return str(err)
    return ""
