"""Taking a pod's volumes down from what is on disk, once its containers are gone (L-12).

Parts of volumes that containers had go first. Then each volume of a plugin goes by itself, and
those that this process made itself go together; what hangs or fails keeps no other. When nothing
is left, our row goes, which is what syncloop waits for.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from kubelet import logging as klog
from kubelet.pods.rows import PodRow
from procs.volumes import far, mounts, progress, teardown
from procs.volumes.errors import VolumeError
from procs.volumes.kit import TROUBLE, Kit
from procs.volumes.known import Known, Work
from procs.volumes.layout import kind_of
from procs.volumes.plugin import Standing
from procs.volumes.progress import Decision, Telling, next_failure
from procs.volumes.wants import CsiWant, LocalWant, NfsWant

log = klog.get_logger(__name__)

Operation = Callable[[Work], Awaitable[None]]

_SLACK: Final = 10_000_000  # a timer may be early by this
_OWN: Final = ""  # the volumes that this process made itself; no directory has this name
_PARTS: Final = "volume-subpaths"


class Unmounting:
    """Takes volumes down."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def step(self, pod: Known, row: PodRow | None) -> None:
        """Begin whatever is due of a pod's end; when nothing is left, its row goes."""
        if pod.uid in self._kit.process.quarantined:
            return
        pod.document = None
        if row is not None:
            pod.version = row.version
            pod.orphan = row.ending is not None and row.ending.orphan
        elif pod.row is not None:
            pod.version = pod.row.version
        if self._is_over(pod, row):
            self._over(pod, row)
            return
        self._begin_due(pod)
        self.tell(pod)
        busy = self._being_mounted(pod)  # their end is told
        works = [work for key, work in pod.ending.items() if key not in busy]
        self._kit.set_timer(pod, works)

    def _is_over(self, pod: Known, row: PodRow | None) -> bool:
        """Tell whether nothing is left, having removed what takes no time to remove."""
        if pod.busy:
            return False
        uid, layout = pod.uid, self._kit.layout
        if teardown.is_clean(uid, layout):
            return True
        waits = any(work.failure is not None for work in pod.ending.values())
        if row is None or waits or not teardown.is_quick(uid, layout):
            return False
        names = teardown.names(uid, layout)
        began = time.perf_counter()
        try:
            with self._kit.process.doing("unmounting volumes", pod=uid):
                teardown.take_down(uid, layout)
        except VolumeError as err:
            self._failed(pod, pod.ending.setdefault(_OWN, Work()), err)
            return False
        self._removed(pod, names, began)
        return teardown.is_clean(uid, layout)

    def _over(self, pod: Known, row: PodRow | None) -> None:
        pod.ending.clear()
        pod.work.clear()
        pod.wants = ()
        self._kit.delete(pod)
        self._kit.released()
        # The row may want volumes again: a pod made anew under the same uid (P-39).
        again = row is not None and progress.decide(row.state, None, deleted=False)
        if again is Decision.MOUNT:
            pod.dirty = True

    def _begin_due(self, pod: Known) -> None:
        uid, layout = pod.uid, self._kit.layout
        if teardown.has_parts(uid, layout):
            self._begin(pod, _PARTS, "unmounting parts of volumes", partial(self._parts, pod))
            return  # a volume cannot go before its parts
        pod.ending.pop(_PARTS, None)
        busy = self._being_mounted(pod)
        standing = teardown.standing(uid, layout, self._kit.plugins)
        for volume in standing:
            if volume.name not in busy:
                name = f"unmounting {kind_of(volume.plugin)}"
                self._begin(pod, volume.name, name, partial(self._foreign, pod, volume))
        there = {volume.name for volume in standing} | {_OWN, TROUBLE}
        for gone in [k for k, w in pod.ending.items() if k not in there and w.task is None]:
            del pod.ending[gone]
        if _OWN not in busy and (teardown.has_own(uid, layout, self._kit.plugins) or not standing):
            self._begin(pod, _OWN, "removing volumes", partial(self._own, pod))

    def _being_mounted(self, pod: Known) -> set[str]:
        """Return the directories of volumes that are still being mounted: they wait for its end."""
        busy = set()
        wants = {want.name: want for want in pod.wants}
        for name, work in pod.work.items():
            if work.task is None:
                continue
            want = wants.get(name)
            if isinstance(want, LocalWant | NfsWant | CsiWant):
                busy.add(want.of.spec)
            else:
                busy.add(_OWN)
        return busy

    def _begin(self, pod: Known, key: str, name: str, operation: Operation) -> None:
        work = pod.ending.setdefault(key, Work())
        failure = work.failure
        if work.task is not None:
            return
        if failure is not None and failure.until_ns > self._kit.now().mono_ns + _SLACK:
            return
        run = partial(self._operate, pod, work, operation)
        self._kit.begin(pod, work, run, name, partial(self.tell, pod))

    async def _operate(self, pod: Known, work: Work, operation: Operation) -> None:
        try:
            await operation(work)
        except VolumeError as err:
            self._failed(pod, work, err)
        else:
            work.failure = None

    # What is done.

    async def _parts(self, pod: Known, _work: Work) -> None:
        uid, kit = pod.uid, self._kit
        path = kit.layout.subpaths(uid)
        if any(map(far.is_far, mounts.below(mounts.real(path), mounts.points()))):
            given = {"root": kit.layout.root, "uid": uid}
            await kit.ops.child("procs.volumes.teardown:release_parts", given, key=path)
        else:
            await kit.ops.thread(partial(teardown.release_parts, kit.layout.root, uid))

    async def _foreign(self, pod: Known, volume: Standing, work: Work) -> None:
        began = time.perf_counter()
        say = self._kit.saying(work, partial(self.tell, pod))
        await self._kit.plugins[volume.plugin].tear_down(volume, say)
        self._removed(pod, [f"{kind_of(volume.plugin)} {volume.name}"], began)

    async def _own(self, pod: Known, _work: Work) -> None:
        began = time.perf_counter()
        uid, layout = pod.uid, self._kit.layout
        skipped = frozenset(self._kit.plugins)
        removed = await self._kit.ops.thread(
            partial(teardown.take_down, uid, layout, skipped=skipped)
        )
        if removed:
            self._removed(pod, removed, began)
        if teardown.has_own(uid, layout, skipped):  # it would be tried again and again
            raise VolumeError(f"{layout.plugins(uid)} or {layout.volumes(uid)} is not empty")

    def _removed(self, pod: Known, names: list[str], began: float) -> None:
        took = (time.perf_counter() - began) * 1000
        self._kit.process.record("unmounted", f"{', '.join(names)} in {took:.1f} ms", pod.uid)
        if pod.orphan:
            self._kit.process.row.count("orphan_pod_cleaned_volumes", len(names))

    def _failed(self, pod: Known, work: Work, error: VolumeError) -> None:
        before, reason = work.failure, str(error)
        work.failure = next_failure(before, reason, self._kit.now())
        self._kit.retry_when_free(pod, work, error)
        if pod.orphan:
            self._kit.process.row.count("orphan_volume_errors")
        if before is None or before.reason != reason:
            self._kit.process.record("unmount failed", reason, pod.uid)
            log.warning("Volumes could not be unmounted", pod=pod.uid, err=reason)

    def tell(self, pod: Known) -> None:
        """Write how the end of a pod's volumes stands."""
        names = teardown.names(pod.uid, self._kit.layout)
        standings = {name: progress.Standing() for name in names}
        for name, work in pod.work.items():
            if work.task is not None:  # its end is what the volume's end waits for
                standings[name] = _standing(work)
        for key, work in pod.ending.items():
            if key != TROUBLE:
                standings[_OWN if key == _PARTS else key] = _standing(work)
        # What is said of our own volumes is said of each of which nothing else is.
        own = standings.get(_OWN)
        if own is not None:
            for name in names:
                if standings[name] == progress.Standing():
                    standings[name] = own
        telling = Telling(pod.uid, pod.version, pod.row, self._kit.now())
        self._kit.put(pod, telling.unmounting(standings))


def _standing(work: Work) -> progress.Standing:
    shown = work.operation if work.shown is None else ""
    return progress.Standing(None, work.failure, shown, work.operation_ns)
