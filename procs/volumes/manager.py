"""Each pod's volumes, from the tables and the disk: one piece of work for a pod at a time.

What is to be done follows from the pod's row, our own row and what is on disk, and from nothing
that only this process remembers. So starting, and starting again after a kill in the middle of
anything, is looking at each pod once.

Directories under the kubelet's root that neither table knows are left alone: they may be those of
pods that syncloop has not read yet. Their end comes when syncloop puts a row for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from kubelet import logging as klog
from kubelet.api.codec import DecodeError
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.cluster.rows import OBJECTS
from kubelet.pods.rows import API, MOUNTS, PODS, MountsRow, PodRow, VolumeState
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process
from procs.volumes import kinds, progress, setup, sources, teardown
from procs.volumes.errors import VolumeError
from procs.volumes.known import Known, UnknownError, glance, read
from procs.volumes.layout import Layout, is_uid, kind_of
from procs.volumes.objects import Objects
from procs.volumes.progress import Decision, Failure, Moment, Telling
from procs.volumes.setup import Tried
from procs.volumes.wants import (
    FilesWant,
    HostPathWant,
    Lacking,
    Refused,
    Want,
    may_block,
    plugin_of,
)
from shm.codec import EncodeError
from shm.errors import TableFull

log = klog.get_logger(__name__)

WORKERS: Final = 16  # threads: a hanging mount takes one, until it stops hanging
_SLACK: Final = 10_000_000  # a timer may be early by this
_TEARDOWN: Final = ""  # no volume has this name
_QUARANTINED: Final = (
    "handling this pod ended the volumes process again and again, so it is left alone: "
    "kubeletctl release lifts that"
)

T = TypeVar("T")


class Volumes:
    """Keeps the volumes of all pods as the table of pods wants them."""

    def __init__(
        self,
        process: Process,
        layout: Layout,
        settings: kinds.Settings,
        now: Callable[[], Moment] = lambda: Moment(time.monotonic_ns(), time.time_ns()),
    ) -> None:
        self._process = process
        self._layout = layout
        self._settings = settings
        self._now = now
        self._objects = Objects(process.tables)
        self._pods: dict[str, Known] = {}
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="volumes")
        self._odd = klog.every(60)

    # Knowing that there is something to do.

    def start(self) -> None:
        """Take over what the tables hold, and look at every pod."""
        for uid, value in self._process.tables.items(MOUNTS):
            try:
                self._pods[uid] = Known(uid, MountsRow.from_wire(value))
            except BadRecordError as err:
                self._say_odd("Entry of table mounts is not right", uid, err)
                self._pods[uid] = Known(uid, MountsRow(uid))
        self._process.on_hint(self._hinted)
        for pod in list(self._pods.values()):
            pod.seen = glance(self._process.tables, pod.uid)
            self._poke(pod)
        self._look_at_all()

    def close(self) -> None:
        """Begin nothing more; a thread that hangs in the kernel is not waited for."""
        for pod in self._pods.values():
            if pod.timer is not None:
                pod.timer.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _hinted(self, hint: Hint) -> None:
        if hint.table == OBJECTS:
            self._objects_changed(hint.key)
        elif hint.table == PODS and hint.key == ANY_KEY:
            self._look_at_all()
        elif hint.table == PODS:
            self._look_at(hint.key, named=True)

    def _objects_changed(self, key: str) -> None:
        """Have work done for the pods to which an object matters that is another than it was."""
        objects = self._objects
        for uid in objects.all_concerned() if key == ANY_KEY else objects.concerned(key):
            pod = self._pods.get(uid)
            if pod is not None:
                pod.stale = True
                self._poke(pod)

    def _look_at_all(self) -> None:
        for uid in {*self._process.tables.keys(PODS), *self._pods}:
            self._look_at(uid, named=False)

    def _look_at(self, uid: str, *, named: bool) -> None:
        """Have work done for a pod if its row is another than it was."""
        seen = glance(self._process.tables, uid)
        pod = self._pods.get(uid)
        if pod is None:
            if not seen:
                return
            if not is_uid(uid):
                self._say_odd("A pod's uid cannot be the name of a directory", uid, "left alone")
                return
            pod = self._pods[uid] = Known(uid)
        gone = not seen and named and PODS not in self._process.tables.unavailable
        if seen == pod.seen and not (gone and not pod.deleted):
            return
        pod.seen, pod.deleted = seen, gone
        self._poke(pod)

    def _poke(self, pod: Known) -> None:
        pod.dirty = True
        if pod.task is None:
            pod.task = self._process.spawn(self._work(pod), name=f"volumes of {pod.uid}")

    async def _work(self, pod: Known) -> None:
        try:
            while pod.dirty:
                pod.dirty = False
                await self._step(pod)
        finally:
            pod.task = None
        if pod.row is None and pod.timer is None and not pod.seen:
            self._objects.forget(pod.uid)
            self._pods.pop(pod.uid, None)

    # One look at a pod.

    async def _step(self, pod: Known) -> None:
        try:
            row = read(self._process.tables, pod.uid)
        except UnknownError as err:
            self._say_odd("The row of a pod cannot be read", pod.uid, err)
            return
        if pod.timer is not None:
            pod.timer.cancel()
            pod.timer = None
        state = row.state if row is not None else None
        decision = progress.decide(state, pod.row, deleted=pod.deleted)
        if decision is Decision.LEAVE:
            self._leave(pod)
        elif decision is Decision.UNMOUNT:
            await self._unmount(pod, row)
        else:
            assert row is not None
            await self._mount(pod, row)

    def _leave(self, pod: Known) -> None:
        """Keep the volumes of a pod whose row is not there, for all we know."""
        if pod.row is None:
            return
        if teardown.is_clean(pod.uid, self._layout):
            self._delete(pod)
            return
        log.warning(
            "Volumes of a pod without a row are kept until syncloop speaks of the pod again",
            pod=pod.uid,
        )

    # Mounting.

    async def _mount(self, pod: Known, row: PodRow) -> None:
        document = (row.version, hash(row.document))
        if not row.document and pod.row is not None:
            return  # of an orphan nothing is known but that it ends: what is there stays
        fresh = document != pod.document
        if not fresh and not pod.failures and not pod.stale:
            return
        pod.stale = False
        try:
            wants = kinds.wants(row.pod, self._settings, self._lookup(row))
        except (DecodeError, ValueError) as err:
            self._say_odd("The document of a pod cannot be read", pod.uid, err)
            return
        paths = self._mounted(pod, wants)
        due = [want for want in wants if self._is_due(pod, want, paths, fresh=fresh)]
        if pod.uid in self._process.quarantined:  # what is mounted stays as it is
            refused = [want for want in due if want.name not in paths]
            due = [Refused(want.name, plugin_of(want), _QUARANTINED) for want in refused]
        with self._process.doing("mounting volumes", pod=pod.uid):
            for tried in await self._try(pod, row, wants, due, paths):
                self._note(pod, tried, paths)
        names = {want.name for want in wants}
        pod.failures = {name: pod.failures[name] for name in names & pod.failures.keys()}
        pod.tried = {name: pod.tried[name] for name in names & pod.tried.keys()}
        pod.document = document
        self._put(pod, self._row(pod, row, wants, paths))
        self._set_timer(pod)

    def _lookup(self, row: PodRow) -> sources.Lookup:
        if not self._settings.api_server:
            return sources.NO_API_SERVER
        return self._objects.lookup(row.uid) if row.source == API else sources.NOT_FROM_THERE

    def _mounted(self, pod: Known, wants: tuple[Want, ...]) -> dict[str, str]:
        """Return the paths of what was mounted when our row was written."""
        names = {want.name for want in wants}
        rows = pod.row.volumes if pod.row is not None else ()
        return {
            v.name: v.host_path for v in rows if v.state is VolumeState.MOUNTED and v.name in names
        }

    def _is_due(self, pod: Known, want: Want, paths: dict[str, str], *, fresh: bool) -> bool:
        if isinstance(want, HostPathWant) and paths.get(want.name) == want.path:
            return False  # it was what it should be when the pod came: what it is now is its own
        if fresh or pod.tried.get(want.name) != hash(want):
            return True
        failure = pod.failures.get(want.name)
        if failure is None or not failure.delay_ns:
            return False
        return failure.until_ns <= self._now().mono_ns + _SLACK

    async def _try(
        self,
        pod: Known,
        row: PodRow,
        wants: tuple[Want, ...],
        due: list[Want],
        paths: dict[str, str],
    ) -> list[Tried]:
        """Set up what is due: at once where that takes no time, else beside."""
        slow = [w for w in due if may_block(w) and not setup.in_place(w, pod.uid, self._layout)]
        tried = setup.try_all([w for w in due if w not in slow], pod.uid, self._layout)
        if not slow:
            return tried
        for one in tried:
            self._note(pod, one, paths)
        if any(want.name not in paths for want in slow):  # what is only renewed stays mounted
            self._put(pod, self._row(pod, row, wants, paths))
        return await self._beside(lambda: setup.try_all(slow, pod.uid, self._layout))

    def _note(self, pod: Known, tried: Tried, paths: dict[str, str]) -> None:
        """Remember how it went, and say so where it is news."""
        want, name = tried.want, tried.want.name
        words = f"{kind_of(plugin_of(want))} {name}"
        pod.tried[name] = hash(want)
        if tried.done is not None:
            if tried.done.changed or name not in paths:
                took = f"{words} in {tried.seconds * 1000:.1f} ms"
                self._process.record("updated" if name in paths else "mounted", took, pod.uid)
            paths[name] = tried.done.path
            pod.failures.pop(name, None)
            return
        self._keep(pod, want, paths)
        before = pod.failures.get(name)
        if isinstance(want, Refused | Lacking):  # only another document or object changes that
            waiting = isinstance(want, Lacking) and want.waiting
            failure = Failure(tried.reason, waiting=waiting)
        else:
            failure = progress.next_failure(before, tried.reason, self._now())
        pod.failures[name] = failure
        if failure.waiting:
            log.v(2, "Volume waits", pod=pod.uid, volume=name, reason=tried.reason)
        elif before is None or before.reason != tried.reason:
            self._process.record("mount failed", tried.reason, pod.uid)
            log.warning("Volume could not be mounted", pod=pod.uid, volume=name, err=tried.reason)

    def _keep(self, pod: Known, want: Want, paths: dict[str, str]) -> None:
        """Leave files that could not be renewed as they were; forget what is not there."""
        if isinstance(want, FilesWant):
            return
        path = setup.written(want, pod.uid, self._layout) if isinstance(want, Lacking) else ""
        if path:
            paths[want.name] = path
        else:
            paths.pop(want.name, None)

    def _row(
        self, pod: Known, row: PodRow, wants: tuple[Want, ...], paths: dict[str, str]
    ) -> MountsRow:
        return self._telling(pod, row.version).mounting(wants, paths, pod.failures)

    def _telling(self, pod: Known, version: int) -> Telling:
        return Telling(pod.uid, version, pod.row, self._now())

    # Unmounting.

    async def _unmount(self, pod: Known, row: PodRow | None) -> None:
        if pod.uid in self._process.quarantined:
            return
        pod.document = None
        pod.tried.clear()
        self._objects.forget(pod.uid)
        failure = pod.failures.get(_TEARDOWN)
        if failure is not None and failure.until_ns > self._now().mono_ns + _SLACK:
            self._set_timer(pod)
            return
        pod.failures = {_TEARDOWN: failure} if failure is not None else {}
        if not await self._take_down(pod, row):
            return
        pod.failures.clear()
        self._delete(pod)
        # The row may want volumes again: a pod made anew under the same uid (P-39).
        if row is not None and progress.decide(row.state, None, deleted=False) is Decision.MOUNT:
            pod.dirty = True

    async def _take_down(self, pod: Known, row: PodRow | None) -> bool:
        """Remove what there is; whether that worked."""
        if teardown.is_clean(pod.uid, self._layout):
            return True
        before = pod.row.version if pod.row is not None else 0
        version = row.version if row is not None else before
        names = teardown.names(pod.uid, self._layout)
        began = time.perf_counter()
        try:
            with self._process.doing("unmounting volumes", pod=pod.uid):
                if row is not None and teardown.is_quick(pod.uid, self._layout):
                    teardown.take_down(pod.uid, self._layout)
                else:  # that it is to go is written down first
                    failure = pod.failures.get(_TEARDOWN)
                    self._put(pod, self._telling(pod, version).unmounting(names, failure))
                    await self._beside(lambda: teardown.take_down(pod.uid, self._layout))
        except VolumeError as err:
            self._failed_to_unmount(pod, str(err), version)
            return False
        took = (time.perf_counter() - began) * 1000
        self._process.record("unmounted", f"{', '.join(names)} in {took:.1f} ms", pod.uid)
        return True

    def _failed_to_unmount(self, pod: Known, reason: str, version: int) -> None:
        before = pod.failures.get(_TEARDOWN)
        failure = progress.next_failure(before, reason, self._now())
        pod.failures = {_TEARDOWN: failure}
        names = teardown.names(pod.uid, self._layout)
        self._put(pod, self._telling(pod, version).unmounting(names, failure))
        self._set_timer(pod)
        if before is None or before.reason != reason:
            self._process.record("unmount failed", reason, pod.uid)
            log.warning("Volumes could not be unmounted", pod=pod.uid, err=reason)

    # Writing, waiting.

    async def _beside(self, work: Callable[[], T]) -> T:
        """Do what may block in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _put(self, pod: Known, row: MountsRow) -> None:
        if row == pod.row:
            return
        try:
            self._process.put(MOUNTS, pod.uid, row.to_wire(), self._now().mono_ns)
        except (TableFull, EncodeError) as err:
            self._process.row.count("write_errors")
            self._say_odd("The volumes of a pod cannot be written down", pod.uid, err)
            failure = progress.next_failure(None, str(err), self._now())
            pod.document = None
            pod.failures.setdefault(_TEARDOWN, failure)
            return
        pod.row = row

    def _delete(self, pod: Known) -> None:
        self._process.delete(MOUNTS, pod.uid)
        pod.row = None

    def _set_timer(self, pod: Known) -> None:
        """Look again when the first of what failed is due."""
        due = [f.until_ns for f in pod.failures.values() if f.delay_ns]
        if pod.timer is not None:
            pod.timer.cancel()
            pod.timer = None
        if due:
            seconds = max(0.0, (min(due) - self._now().mono_ns) / progress.SECOND)
            pod.timer = asyncio.get_running_loop().call_later(seconds, self._timed, pod)

    def _timed(self, pod: Known) -> None:
        pod.timer = None
        self._poke(pod)

    def _say_odd(self, message: str, uid: str, err: object) -> None:
        if self._odd.ready():
            log.error(message, pod=uid, err=err, more=self._odd.skipped)
