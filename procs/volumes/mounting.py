"""Having a pod's volumes there: what takes no time at once, everything else beside, each alone.

A volume is tried when it is wanted otherwise than it was tried last, when the time of its back-off
is over, and when it is to be renewed. One that hangs or fails keeps no other from its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from kubelet import logging as klog
from kubelet.api.codec import DecodeError
from kubelet.pods.rows import API, PodRow, VolumeState
from procs.volumes import far, kinds, setup, sources
from procs.volumes.errors import FatalError, VolumeError, WaitingError
from procs.volumes.kit import Kit
from procs.volumes.known import Known, Work
from procs.volumes.layout import kind_of
from procs.volumes.objects import Objects
from procs.volumes.plugin import Done, PodInfo
from procs.volumes.progress import SECOND, Failure, Standing, Telling, next_failure
from procs.volumes.wants import (
    CsiWant,
    FilesWant,
    HostPathWant,
    Lacking,
    LocalWant,
    NfsWant,
    Refused,
    Waiting,
    Want,
    may_block,
    plugin_of,
)

log = klog.get_logger(__name__)

_SLACK: Final = 10_000_000  # a timer may be early by this
_QUARANTINED: Final = (
    "handling this pod ended the volumes process again and again, so it is left alone: "
    "kubeletctl release lifts that"
)


class Mounting:
    """Sets volumes up."""

    def __init__(
        self, kit: Kit, objects: Objects, elsewhere: Callable[[Known], frozenset[str]]
    ) -> None:
        """``elsewhere``: the claims that other pods have."""
        self._kit = kit
        self._objects = objects
        self._elsewhere = elsewhere

    def step(self, pod: Known, row: PodRow) -> None:
        """Begin whatever is due for a pod, and tell how its volumes stand."""
        if not row.document and pod.row is not None:
            return  # of an orphan nothing is known but that it ends: what is there stays
        document = (row.version, hash(row.document))
        fresh = document != pod.document
        pod.stale = False
        try:
            wants = self._wants(row, pod)
        except (DecodeError, ValueError) as err:
            self._kit.say_odd("The document of a pod cannot be read", pod.uid, err)
            return
        self._take_over(pod, wants)
        pod.document, pod.version = document, row.version
        pod.ending.clear()
        self._try(pod, row, wants, fresh=fresh)
        self.tell(pod)
        if pod.uid not in self._kit.process.quarantined:
            self._kit.set_timer(pod, (*pod.work.values(), *pod.ending.values()))

    def _wants(self, row: PodRow, pod: Known) -> tuple[Want, ...]:
        settings = self._kit.settings
        if not settings.api_server:
            return kinds.wants(row.pod, settings, sources.NO_API_SERVER)
        if row.source != API:
            return kinds.wants(row.pod, settings, sources.NOT_FROM_THERE)
        mounted = frozenset(name for name, work in pod.work.items() if work.done is not None)
        view = self._objects.view(row.uid, mounted, self._elsewhere(pod))
        return kinds.wants(row.pod, settings, view.files, view)

    def _take_over(self, pod: Known, wants: tuple[Want, ...]) -> None:
        """Know each volume that is wanted; of a new one, what our row says of it."""
        rows = {v.name: v for v in pod.row.volumes} if pod.row is not None else {}
        for want in wants:
            if want.name in pod.work:
                continue
            work = pod.work[want.name] = Work()
            before = rows.get(want.name)
            if before is not None and before.state is VolumeState.MOUNTED:
                work.done = Done(before.host_path)
        names = {want.name for want in wants}
        for name in [name for name in pod.work if name not in names]:
            if pod.work[name].task is None:
                del pod.work[name]
        pod.wants = wants

    def _try(self, pod: Known, row: PodRow, wants: tuple[Want, ...], *, fresh: bool) -> None:
        quarantined = pod.uid in self._kit.process.quarantined
        for want in wants:
            work = pod.work[want.name]
            if not self._is_due(work, want, fresh=fresh):
                continue
            if quarantined and work.done is None:  # what is mounted stays as it is
                self._inline(pod, Refused(want.name, plugin_of(want), _QUARANTINED), work)
            elif quarantined:
                continue
            elif not may_block(want) or setup.in_place(want, pod.uid, self._kit.layout):
                self._inline(pod, want, work)
            else:
                self._begin(pod, row, want, work)

    def _is_due(self, work: Work, want: Want, *, fresh: bool) -> bool:
        if work.task is not None:
            return False  # its end is a reason to look again
        if isinstance(want, HostPathWant) and work.done == Done(want.path):
            return False  # it was what it should be when the pod came: what it is now is its own
        if fresh or work.tried != hash(want):
            return True
        return work.due(self._kit.now().mono_ns + _SLACK)

    # At once.

    def _inline(self, pod: Known, want: Want, work: Work) -> None:
        began = time.perf_counter()
        work.tried = hash(want)
        try:
            with self._kit.process.doing("mounting volumes", pod=pod.uid):
                done = setup.set_up(want, pod.uid, self._kit.layout)
        except VolumeError as err:
            self._failed(pod, want, work, err)
        else:
            self._done(pod, want, work, done, time.perf_counter() - began)

    # Beside.

    def _begin(self, pod: Known, row: PodRow, want: Want, work: Work) -> None:
        work.tried = hash(want)
        info = PodInfo(pod.uid, row.name, row.namespace, row.pod.spec.service_account_name)
        show = partial(self._kit.poke, pod)  # it may be ending by then: who looks at it tells
        operation = partial(self._operate, pod, info, want, work)
        self._kit.begin(pod, work, operation, f"mounting {kind_of(plugin_of(want))}", show)

    async def _operate(self, pod: Known, info: PodInfo, want: Want, work: Work) -> None:
        began = time.perf_counter()
        try:
            done = await self._set_up(pod, info, want, work)
        except VolumeError as err:
            self._failed(pod, want, work, err)
        else:
            self._done(pod, want, work, done, time.perf_counter() - began)

    async def _set_up(self, pod: Known, info: PodInfo, want: Want, work: Work) -> Done:
        kit = self._kit
        match want:
            case LocalWant() | NfsWant() | CsiWant():
                say = kit.saying(work, partial(kit.poke, pod))
                return await kit.plugins[plugin_of(want)].set_up(want, info, say)
            case HostPathWant() if far.is_far(want.path):
                given = {"name": want.name, "path": want.path, "wanted": want.type}
                check = "procs.volumes.hostpath:check"
                changed = await kit.ops.child(check, given, key=want.path)
                return Done(want.path, changed=bool(changed))
            case _:
                return await kit.ops.thread(partial(setup.set_up, want, pod.uid, kit.layout))

    # What came of it.

    def _done(self, pod: Known, want: Want, work: Work, done: Done, seconds: float) -> None:
        there = work.done is not None
        if done.changed or not there:
            took = f"{kind_of(plugin_of(want))} {want.name} in {seconds * 1000:.1f} ms"
            self._kit.process.record("updated" if there else "mounted", took, pod.uid)
        work.done, work.failure = Done(done.path), None
        work.again_ns = self._kit.now().mono_ns + int(done.again * SECOND) if done.again else 0

    def _failed(self, pod: Known, want: Want, work: Work, error: VolumeError) -> None:
        """Remember what went wrong, and say so where it is news."""
        self._keep(pod, want, work)
        before, reason = work.failure, str(error)
        moment = self._kit.now()
        if isinstance(error, FatalError):
            failure = Failure(reason, fatal=error.reason)
        elif isinstance(want, Refused | Lacking):  # only another document or object changes that
            failure = Failure(reason, waiting=isinstance(want, Lacking) and want.waiting)
        else:
            waiting = isinstance(error, WaitingError)
            failure = next_failure(before, reason, moment, waiting=waiting)
        work.failure = failure
        self._kit.retry_when_free(pod, work, error)
        if failure.waiting:
            log.v(2, "Volume waits", pod=pod.uid, volume=want.name, reason=reason)
        elif before is None or before.reason != reason:
            self._kit.process.record("mount failed", reason, pod.uid)
            log.warning("Volume could not be mounted", pod=pod.uid, volume=want.name, err=reason)

    def _keep(self, pod: Known, want: Want, work: Work) -> None:
        """Leave what could not be renewed as it was; forget what is not there."""
        match want:
            case FilesWant() | LocalWant() | NfsWant() | CsiWant() | Waiting():
                return
            case Lacking():
                path = setup.written(want, pod.uid, self._kit.layout)
                work.done = Done(path) if path else None
            case _:
                work.done = None

    def tell(self, pod: Known) -> None:
        """Write how the volumes of a pod stand."""
        standings = {}
        for want in pod.wants:
            work = pod.work[want.name]
            path = work.done.path if work.done is not None else None
            shown = work.operation if work.shown is None else ""
            standings[want.name] = Standing(path, work.failure, shown, work.operation_ns)
        telling = Telling(pod.uid, pod.version, pod.row, self._kit.now())
        self._kit.put(pod, telling.mounting(pod.wants, standings))
