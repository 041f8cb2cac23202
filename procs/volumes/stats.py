"""How full the volumes of all pods are, in table ``volumestats`` (L-50).

Each volume is looked at by itself, at moments of its own: soon after it is mounted, then once in
each period, and more often where a limit is to be kept. What is small and local is walked through
in a thread, what is large or may hang in a process of its own. A volume that hangs keeps what was
last known of it, with the reason and since when; it keeps nobody else waiting.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from kubelet import logging as klog
from kubelet.pods.rows import VOLUME_STATS, VolumeStats, VolumeStatsRow
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process
from kubelet.times import to_text
from procs.volumes import usage
from procs.volumes.errors import VolumeError
from procs.volumes.layout import Layout
from procs.volumes.operations.runner import Operations
from procs.volumes.subjects import (
    StatsSubject,
    VolumeSubject,
    Way,
    period_of,
    subject_of,
    unknown,
    way_of,
)
from shm.codec import EncodeError
from shm.errors import TableFull

__all__ = [
    "CsiStats",
    "Found",
    "Stats",
    "StatsSubject",
    "VolumeSubject",
    "subject_of",
]

log = klog.get_logger(__name__)

SOON_SECONDS: Final = 10.0  # after which a volume is first looked at: a burst of pods is over
GATHER_SECONDS: Final = 0.5  # in which several changes of the pods are taken for one
ANSWER_SECONDS: Final = 10.0  # in which a far volume is to answer
_WALK_SECONDS: Final = 600.0  # a walk through a local disk is slow, not hung
_SLOW_SECONDS: Final = 1.0  # after which a far volume does not count among those under way
_AT_ONCE: Final = 4  # looks under way; the others take their turn
_SMALL: Final = 2000  # entries that a thread goes through without being in anybody's way
_SPREAD: Final = 0.2  # of a period: so that pods that came together are not looked at together
_CALLS: Final = {
    Way.TREE: "procs.volumes.usage:of_directory",
    Way.FILESYSTEM: "procs.volumes.usage:of_filesystem",
    Way.DEVICE: "procs.volumes.usage:of_device",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What a CSI driver says of a volume: the fields of a usage, and the volume's condition."""

    usage: dict[str, int] = field(default_factory=dict)  # capacity, available, used, inodes, ...
    abnormal: bool | None = None
    message: str = ""


# Asks the driver of a volume; None: it gives no statistics. A VolumeError says why it could not.
CsiStats: TypeAlias = Callable[[StatsSubject, VolumeSubject], Awaitable[Found | None]]


@dataclass(slots=True)
class _Watched:
    """A volume that is looked at."""

    subject: VolumeSubject
    stats: VolumeStats
    due: float  # monotonic seconds
    task: asyncio.Task[None] | None = None
    failing_ns: int = 0  # wall clock: since when it cannot be looked at
    silent: bool = False  # its driver gives no statistics


@dataclass(slots=True)
class _Pod:
    """A pod whose volumes are looked at."""

    subject: StatsSubject
    before: dict[str, VolumeStats] = field(default_factory=dict)  # from the table, at the start
    volumes: dict[str, _Watched] = field(default_factory=dict)
    row: VolumeStatsRow | None = None


class Stats:
    """Looks at the volumes of all pods, again and again."""

    def __init__(  # noqa: PLR0913 - by name, once
        self,
        process: Process,
        layout: Layout,
        ops: Operations,
        *,
        source: Callable[[], Iterable[StatsSubject]],
        csi: CsiStats | None,
        period_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], int] = time.time_ns,
        chance: Callable[[], float] = random.random,
        soon_seconds: float = SOON_SECONDS,
    ) -> None:
        self._process = process
        self._layout = layout
        self._ops = ops
        self._source = source
        self._csi = csi
        self._period = period_seconds
        self._clock = clock
        self._wall = wall
        self._chance = chance
        self._soon = soon_seconds
        self._pods: dict[str, _Pod] = {}
        self._before: dict[str, VolumeStatsRow] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._odd = klog.every(60)

    def start(self) -> None:
        """Take over what the table holds, and begin; a period of 0 or less turns it off."""
        for uid, value in list(self._process.tables.items(VOLUME_STATS)):
            try:
                self._before[uid] = VolumeStatsRow.from_wire(value)
            except BadRecordError as err:
                log.v(1, "Entry of table volumestats is not right", pod=uid, err=err)
                self._before[uid] = VolumeStatsRow(uid, "", "")
        if self._period <= 0:
            log.info("Volumes are not looked at for how full they are", period=self._period)
            self._closed = True
            for uid in self._before:
                self._process.delete(VOLUME_STATS, uid)
            return
        self._look()

    def close(self) -> None:
        """Begin nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for pod in self._pods.values():
            for watched in pod.volumes.values():
                if watched.task is not None:
                    watched.task.cancel()

    def changed(self) -> None:
        """Have it seen soon that volumes were mounted or went away."""
        self._wake(GATHER_SECONDS)

    # What is to be looked at, and when.

    def _wake(self, seconds: float) -> None:
        """Look at what is due after some time, unless that is done before."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(max(0.0, seconds), self._look)

    def _look(self) -> None:
        """Begin what is due, and come back when the next one is."""
        self._timer = None
        if self._closed:
            return
        self._take_in({subject.uid: subject for subject in self._source()})
        now, following = self._clock(), self._period
        for pod in self._pods.values():
            for watched in pod.volumes.values():
                if watched.task is not None:
                    continue
                if watched.due > now:
                    following = min(following, watched.due - now)
                    continue
                name = f"usage of {watched.subject.path}"
                watched.task = self._process.spawn(self._measure(pod, watched), name=name)
        self._wake(following)

    def _take_in(self, subjects: dict[str, StatsSubject]) -> None:
        """Know the pods that there are now, and no others."""
        for uid in {*self._pods, *self._before} - subjects.keys():
            self._before.pop(uid, None)
            self._drop(self._pods.pop(uid, None))
            self._process.delete(VOLUME_STATS, uid)
        for uid, subject in subjects.items():
            pod = self._pods.get(uid)
            if pod is None:
                row = self._before.pop(uid, None)
                known = {one.name: one for one in row.volumes} if row is not None else {}
                pod = self._pods[uid] = _Pod(subject, known, row=row)
            elif pod.subject == subject:
                continue
            pod.subject = subject
            self._follow(pod)

    def _follow(self, pod: _Pod) -> None:
        """Watch the volumes that a pod has now; one that is another than it was begins anew."""
        wanted = {one.name: one for one in pod.subject.volumes if way_of(one) is not Way.NONE}
        for name, watched in list(pod.volumes.items()):
            if wanted.get(name) != watched.subject:
                del pod.volumes[name]
                _cancel(watched)
        for name, volume in wanted.items():
            if name not in pod.volumes:
                stats = _again(unknown(volume), pod.before.get(name))
                due = self._clock() + self._soon * (0.5 + self._chance())
                pod.volumes[name] = _Watched(volume, stats, due)
        pod.before = {}
        self._write(pod)

    def _drop(self, pod: _Pod | None) -> None:
        for watched in pod.volumes.values() if pod is not None else ():
            _cancel(watched)

    # One look at one volume.

    async def _measure(self, pod: _Pod, watched: _Watched) -> None:
        began = self._clock()
        try:
            async with self._turns:
                under_way = asyncio.ensure_future(self._ask(pod.subject, watched.subject))
                try:
                    # One that takes long gives its turn to the next.
                    await asyncio.wait({under_way}, timeout=_SLOW_SECONDS)
                except asyncio.CancelledError:
                    under_way.cancel()
                    raise
            found = await under_way
        except (VolumeError, OSError) as err:
            self._failed(watched, str(err))
        else:
            self._succeeded(watched, found)
        finally:
            watched.task = None
        self._write(pod)
        took = self._clock() - began
        wait = period_of(watched.subject, self._period, took)
        watched.due = self._clock() + wait * (1 + _SPREAD * self._chance())
        self._wake(watched.due - self._clock())

    async def _ask(self, pod: StatsSubject, volume: VolumeSubject) -> Found | None:
        way = way_of(volume)
        if way is Way.DRIVER:
            return await self._csi(pod, volume) if self._csi is not None else None
        if volume.far or not volume.path.startswith(f"{self._layout.pods}/"):
            return Found(await self._beside(way, volume, ANSWER_SECONDS))
        if way is Way.FILESYSTEM:
            return Found(await self._ops.thread(lambda: usage.of_filesystem(volume.path)))
        try:
            return Found(await self._ops.thread(lambda: usage.of_directory(volume.path, _SMALL)))
        except usage.TooManyError:
            return Found(await self._beside(way, volume, _WALK_SECONDS))

    async def _beside(self, way: Way, volume: VolumeSubject, seconds: float) -> dict[str, int]:
        # Under a key of its own: who mounts or unmounts the volume is not to be kept from it.
        key = f"usage {volume.path}"
        found = await self._ops.child(_CALLS[way], {"path": volume.path}, key=key, seconds=seconds)
        return found if isinstance(found, dict) else {}

    def _succeeded(self, watched: _Watched, found: Found | None) -> None:
        watched.failing_ns, watched.silent = 0, found is None
        if found is not None:
            watched.stats = _filled(unknown(watched.subject), found, self._wall())

    def _failed(self, watched: _Watched, why: str) -> None:
        """Keep what is known, and say why it is not newer and since when."""
        if not watched.failing_ns:
            watched.failing_ns = self._wall()
            log.warning("Volume cannot be looked at", path=watched.subject.path, err=why)
        said = f"{why} (since {to_text(watched.failing_ns)})"
        watched.stats = replace(watched.stats, error=said)

    def _write(self, pod: _Pod) -> None:
        """Write down what is known of a pod's volumes; a pod of which nothing is has no row."""
        subject = pod.subject
        if self._pods.get(subject.uid) is not pod:
            return  # it went away meanwhile
        known = tuple(
            one.stats
            for one in pod.volumes.values()
            if not one.silent and (one.stats.at_ns or one.stats.error)
        )
        row = VolumeStatsRow(subject.uid, subject.name, subject.namespace, known)
        if row == pod.row or (not known and pod.row is None):
            return
        try:
            if known:
                self._process.put(VOLUME_STATS, subject.uid, row.to_wire())
            else:
                self._process.delete(VOLUME_STATS, subject.uid)
        except (TableFull, EncodeError) as err:
            self._process.row.count("write_errors")
            if self._odd.ready():
                log.error("How full volumes are cannot be written", pod=subject.uid, err=err)
            return
        pod.row = row if known else None


def _cancel(watched: _Watched) -> None:
    if watched.task is not None:
        watched.task.cancel()


def _again(stats: VolumeStats, before: VolumeStats | None) -> VolumeStats:
    """Return what a predecessor knew of a volume, with what is said of the volume itself now."""
    if before is None:
        return stats
    return replace(
        before,
        claim=stats.claim,
        medium=stats.medium,
        size_limit=stats.size_limit,
        ephemeral=stats.ephemeral,
    )


def _filled(stats: VolumeStats, found: Found, now_ns: int) -> VolumeStats:
    numbers = found.usage
    return replace(
        stats,
        at_ns=now_ns,
        capacity=numbers.get("capacity", -1),
        available=numbers.get("available", -1),
        used=numbers.get("used", -1),
        inodes=numbers.get("inodes", -1),
        inodes_free=numbers.get("inodes_free", -1),
        inodes_used=numbers.get("inodes_used", -1),
        abnormal=found.abnormal,
        message=found.message,
    )
