"""The one writer of the pod status cache: what is known of each pod, and as of when.

Looks overlap: a full one may still be under way while a later one at a single pod is done. So the
newer stamp wins, per pod, and nothing is ever written over what a later look has found. And an
exit is final: a look that asked for the status of a container before it ended does not undo it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from kubelet import logging as klog
from kubelet.pods.lifecycle import EventType, PodEvent, events
from kubelet.pods.runtime import (
    RUNTIME_KEY,
    TABLE,
    BadRecordError,
    ContainerRecord,
    ContainerState,
    PodRecord,
    RuntimeRecord,
)
from kubelet.process import Process
from procs.pleg.listing import Shape, shape_of
from shm.codec import DecodeError, EncodeError, unpack
from shm.errors import TableFull

log = klog.get_logger(__name__)

_COUNTERS: Final = {
    EventType.CONTAINER_STARTED: "ev_started",
    EventType.CONTAINER_DIED: "ev_died",
    EventType.CONTAINER_REMOVED: "ev_removed",
    EventType.CONTAINER_CHANGED: "ev_changed",
    EventType.POD_SYNC: "ev_sync",
}


def final(old: PodRecord | None, new: PodRecord) -> PodRecord:
    """Return the new record with every exit that is known already. Pure."""
    if old is None:
        return new
    ended = {c.id: c for c in old.containers if c.state is ContainerState.EXITED}
    if not any(c.id in ended and c.state is not ContainerState.EXITED for c in new.containers):
        return new
    return replace(new, containers=tuple(ended.get(c.id, c) for c in new.containers))


Changed = Callable[[str, PodRecord | None], None]


class Book:
    """What pleg knows, in memory and in the table."""

    def __init__(self, process: Process, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._process = process
        self._clock = clock
        self.records: dict[str, PodRecord] = {}
        self.shapes: dict[str, Shape | None] = {}  # None: look again, whatever is listed
        self._stamps: dict[str, int] = {}
        self.runtime = RuntimeRecord()
        self.full_look_ns = 0
        self._unseen: frozenset[str] = frozenset()
        self._watchers: list[Changed] = []
        self._odd = klog.every(60)
        self.write_problem = ""  # why an entry could not be written

    def on_change(self, watcher: Changed) -> None:
        """Call back with each record that changed; None for a pod that is gone."""
        self._watchers.append(watcher)

    # Starting.

    def load(self) -> None:
        """Take over what the table holds: all of it was true when it was written.

        A stamp from the future is of another boot; what carries it is looked at again.
        """
        now_ns = self._clock()
        for key in self._process.tables.keys(TABLE):
            entry = self._process.tables.get(TABLE, key)
            if entry is None:
                continue
            try:
                value = unpack(entry.payload)
                if key == RUNTIME_KEY:
                    self._load_runtime(RuntimeRecord.from_wire(value), entry.stamp_ns, now_ns)
                else:
                    self._load_pod(PodRecord.from_wire(value), entry.stamp_ns, now_ns)
            except (BadRecordError, DecodeError) as err:
                self._say_odd(key, err)
                self._stamps[key], self.shapes[key] = 0, None

    def _load_runtime(self, record: RuntimeRecord, stamp_ns: int, now_ns: int) -> None:
        if stamp_ns <= now_ns:
            self.runtime, self.full_look_ns = record, stamp_ns
            self._unseen = frozenset(record.unseen)

    def _load_pod(self, record: PodRecord, stamp_ns: int, now_ns: int) -> None:
        current = stamp_ns <= now_ns
        self.records[record.uid] = record
        self._stamps[record.uid] = stamp_ns if current else 0
        self.shapes[record.uid] = shape_of(record) if current else None

    # Asking.

    @property
    def unseen(self) -> tuple[str, ...]:
        """The pods that the last full look does not speak for."""
        return tuple(sorted(self._unseen))

    def seen_ns(self, uid: str) -> int:
        """Return when the newest look that covers this pod began."""
        own_ns = self._stamps.get(uid, 0)
        return own_ns if uid in self._unseen else max(own_ns, self.full_look_ns)

    @property
    def uids(self) -> list[str]:
        """All pods with an entry, readable or not."""
        return list(self._stamps)

    # Writing.

    def commit(
        self, record: PodRecord, stamp_ns: int, shape: Shape | None, *, asked: bool = False
    ) -> bool:
        """Take what a look found; whether that changed anything. ``asked``: somebody waits."""
        uid = record.uid
        if self._stamps.get(uid, -1) > stamp_ns:
            self._process.row.count("looks_overtaken")
            return False
        old = self.records.get(uid)
        record = final(old, record)
        if record == old and not asked:
            self.shapes[uid] = shape
            return False
        if not self._put(record, stamp_ns):
            self.shapes[uid] = None
            return False
        self.records[uid], self.shapes[uid], self._stamps[uid] = record, shape, stamp_ns
        if record != old:
            self._announce(uid, old, record)
        return record != old

    def amend(self, uid: str, ended: ContainerRecord) -> None:
        """Take that one container has ended, ahead of the look that this is a reason for.

        The stamp stays: the rest of the pod was not looked at.
        """
        old = self.records.get(uid)
        if old is None or all(c.id != ended.id for c in old.containers):
            return
        containers = tuple(ended if c.id == ended.id else c for c in old.containers)
        new = replace(old, containers=containers)
        self.commit(new, self._stamps[uid], shape_of(new))

    def remove(self, uid: str, stamp_ns: int) -> None:
        """Take that a full look found nothing of a pod.

        An empty record stays until a full look newer than it has been published: without it, what
        is known would be as of the look before for a moment.
        """
        old = self.records.get(uid)
        newest_ns = self.full_look_ns if old is not None and old.gone else stamp_ns
        if self._stamps.get(uid, -1) > newest_ns:
            return
        self.records.pop(uid, None)
        self._stamps.pop(uid, None)
        self.shapes.pop(uid, None)
        self._process.delete(TABLE, uid)
        if old is not None and not old.gone:
            self._announce(uid, old, None)

    def mark(self, uid: str) -> None:
        """Have a pod looked at again by the next full look (G-4)."""
        if uid in self._stamps:
            self.shapes[uid] = None

    def looked_in_full(self, stamp_ns: int, unseen: Iterable[str]) -> None:
        """Take that a full look is done; it speaks for all pods but those unseen."""
        self.full_look_ns = stamp_ns
        self._unseen = frozenset(unseen)

    def put_runtime(self, record: RuntimeRecord) -> None:
        """Write what is known of the runtime, stamped with the last full look.

        Readers are told when it changed. When only the stamp moves, those who wait for it see it
        at their next tick; nobody else needs to wake up each second.
        """
        if record != self.runtime:
            self._process.put(TABLE, RUNTIME_KEY, record.to_wire(), self.full_look_ns)
        else:
            self._process.tables.put(TABLE, RUNTIME_KEY, record.to_wire(), self.full_look_ns)
        self.runtime = record

    def _put(self, record: PodRecord, stamp_ns: int) -> bool:
        try:
            self._process.put(TABLE, record.uid, record.to_wire(), stamp_ns)
        except (TableFull, EncodeError) as err:
            # The old entry stays; readers see from its stamp that it is old.
            self.write_problem = str(err)
            self._process.row.count("write_errors")
            self._say_odd(record.uid, err)
            return False
        self.write_problem = ""
        self._process.row.count("writes")
        return True

    def _announce(self, uid: str, old: PodRecord | None, new: PodRecord | None) -> None:
        for event in events(old, None if new is not None and new.gone else new):
            self._note(event)
        if new is not None and new.problems and (old is None or old.problems != new.problems):
            text = "; ".join(new.problems)
            self._process.record("odd-pod", text, uid)
            if self._odd.ready():
                log.warning(
                    "The runtime holds an odd pod", pod=uid, problem=text, more=self._odd.skipped
                )
        for watcher in self._watchers:
            watcher(uid, new)

    def _note(self, event: PodEvent) -> None:
        self._process.row.count(_COUNTERS[event.type])
        self._process.record(event.type.value, event.id, event.pod)
        if log.enabled(4):
            log.v(4, "Pod lifecycle event", pod=event.pod, type=event.type.value, id=event.id)

    def _say_odd(self, key: str, err: Exception) -> None:
        if self._odd.ready():
            log.error("Entry of the pod status cache is not right", key=key, err=err)
