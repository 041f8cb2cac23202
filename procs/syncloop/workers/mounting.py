"""Waiting for a pod's volumes (P-56), and telling meanwhile what is wrong with them (L-10)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kubelet import logging as klog
from kubelet.api.pod import Pod
from kubelet.pods.rows import MOUNTS, MountsRow, VolumeRow, VolumeState, Wait
from kubelet.pods.runtime import PodRecord
from kubelet.pods.wire import BadRecordError
from procs.syncloop.events import WARNING
from procs.syncloop.workers import state
from procs.syncloop.workers.retry import AGAIN, RetryError
from procs.syncloop.workers.worker import Worker

log = klog.get_logger(__name__)

FAILED_MOUNT: Final = "FailedMount"
_NO_MAP: Final = "FailedMapVolume"
_STEP: Final = "waiting for volumes"
_CHANGE: Final = "it is tried when the pod or what it refers to is changed"
_SECONDS: Final = 123.0  # T-11
_NS: Final = 10**9

# What a reason begins with that says itself which step has failed, and the event for it.
_STEPS: Final = {
    "AttachVolume.": "FailedAttachVolume",
    "MountVolume.": FAILED_MOUNT,
    "MapVolume.": _NO_MAP,
}
_STAGING: Final = "NodeStageVolume of CSI driver "  # what such a reason begins with
_LATE: Final = (VolumeState.FAILED, VolumeState.PENDING)


class Said(NamedTuple):
    """An event about a volume."""

    reason: str
    message: str


async def mounted(worker: Worker, pod: Pod, record: PodRecord | None) -> MountsRow | None:
    """Wait until every volume of the pod is mounted; None: the pod ends for want of one (L-17)."""
    row = mounts_of(worker)
    if _complete(worker, row):
        return row
    deadline = worker.kit.wall() + int(_SECONDS * _NS)
    then = "its containers are created when all of them are mounted"
    worker.step(_STEP, worker.waiting("its volumes to be mounted", then=then))
    said: set[Said] = set()
    while True:
        if _ended(worker, pod, record, row):
            return None
        _tell(worker, pod, row, said)
        row = await _changed(worker, row, (deadline - worker.kit.wall()) / _NS)
        if row is None:
            raise _unmounted(worker, pod)
        if _complete(worker, row):
            return row


def mounts_of(worker: Worker) -> MountsRow | None:
    """Return what is mounted for a pod; None while nobody has said."""
    value = worker.kit.process.tables.value(MOUNTS, worker.uid)
    try:
        return None if value is None else MountsRow.from_wire(value)
    except BadRecordError as err:
        log.error("Row of the pod's volumes cannot be read", pod=worker.uid, err=err)
        return None


def _complete(worker: Worker, row: MountsRow | None) -> bool:
    return row is not None and row.version >= worker.row.version and row.mounted


async def _changed(worker: Worker, before: MountsRow | None, seconds: float) -> MountsRow | None:
    """Return the row as soon as it is another; None: it has not become one."""

    def look() -> MountsRow | None:
        row = mounts_of(worker)
        return row if row != before else None

    try:
        wait = worker.kit.process.waiters.wait
        return await wait(MOUNTS, worker.uid, look, max(0.0, seconds))
    except TimeoutError:
        return None


def _ended(worker: Worker, pod: Pod, record: PodRecord | None, row: MountsRow | None) -> bool:
    """End a pod that cannot have one of its volumes on this node, ever (L-17)."""
    fatal = next((volume for volume in row.volumes if volume.fatal), None) if row else None
    if fatal is None:
        return False
    worker.kit.emit(pod, WARNING, fatal.fatal, fatal.reason, "")
    if record is not None and record.containers:  # it has a past, which its status keeps
        worker.deliver(state.Kill(fatal.fatal, fatal.reason))
    else:
        worker.deliver(state.Rejected(fatal.fatal, fatal.reason))
    return True


def _tell(worker: Worker, pod: Pod, row: MountsRow | None, said: set[Said]) -> None:
    """Tell what is wrong with volumes that would not mount, once each."""
    waits = []
    for volume in (v for v in row.volumes if v.state in _LATE) if row else ():
        # One that is pending has not failed: what it needs is not there yet.
        if volume.state is VolumeState.FAILED and volume.reason:
            event = failure(volume)
            if event not in said:
                worker.kit.emit(pod, WARNING, event.reason, event.message, "")
                said.add(event)
        if volume.reason or volume.operation:
            waits.append(volume_wait(volume, "mounted"))
    if waits:
        worker.step(_STEP, *waits)


def failure(volume: VolumeRow) -> Said:
    """Return the event about a volume that would not mount (L-10)."""
    for prefix, reason in _STEPS.items():
        if volume.reason.startswith(prefix):
            return Said(reason, volume.reason)
    staging = volume.reason.startswith(_STAGING)
    if volume.block:
        step, reason = ("MapVolume.SetUpDevice" if staging else "MapVolume.MapPodDevice"), _NO_MAP
    else:
        step, reason = ("MountVolume.MountDevice" if staging else "MountVolume.SetUp"), FAILED_MOUNT
    return Said(
        reason, f'{step} failed for volume "{volume.spec or volume.name}" : {volume.reason}'
    )


def volume_wait(volume: VolumeRow, done: str) -> Wait:
    """Return the words for a volume that is waited for: what is under way, or when it is tried."""
    what = f"volume {volume.name} to be {done}"
    if volume.operation:
        what = f"{what}: {volume.operation} under way"
        return Wait(what, volume.operation_ns or volume.since_ns, volume.reason)
    then = AGAIN if volume.retry_ns or not volume.reason else _CHANGE
    return Wait(what, volume.since_ns, volume.reason, then, volume.retry_ns)


class Missing(NamedTuple):
    """The volumes that a pod waits for in vain; those of the latter two are among the first."""

    unmounted: tuple[str, ...]
    unattached: tuple[str, ...]
    unprocessed: tuple[str, ...]


def missing(names: Iterable[str], rows: Iterable[VolumeRow]) -> Missing:
    """Sort the volumes of a pod that are not mounted by what they lack (L-10)."""
    known = {row.name: row for row in rows}
    late = sorted(name for name in names if not _is_mounted(known.get(name)))
    unknown = tuple(name for name in late if _unprocessed(known.get(name)))
    apart = tuple(name for name in late if name not in unknown and _unattached(known[name]))
    return Missing(tuple(late), apart, unknown)


def _is_mounted(row: VolumeRow | None) -> bool:
    return row is not None and row.state is VolumeState.MOUNTED


def _unprocessed(row: VolumeRow | None) -> bool:
    """Whether it is not even known what is to be mounted: a claim says it, or will."""
    if row is None:
        return True
    begun = row.device or row.operation or row.state is not VolumeState.PENDING
    return bool(row.claim) and not begun


def _unattached(row: VolumeRow) -> bool:
    return bool(row.device) and "attach" in row.reason.lower()


def _unmounted(worker: Worker, pod: Pod) -> RetryError:
    row = mounts_of(worker)
    found = missing((v.name for v in pod.spec.volumes), row.volumes if row else ())
    unmounted, unattached, unprocessed = (" ".join(names) for names in found)
    text = (
        f"Unable to attach or mount volumes: unmounted volumes=[{unmounted}], "
        f"unattached volumes=[{unattached}], failed to process volumes=[{unprocessed}]: "
        "timed out waiting for the condition"
    )
    worker.kit.emit(pod, WARNING, FAILED_MOUNT, text, "")
    return RetryError(text, wait=Wait("its volumes to be mounted"))
