"""The rows of all pods, in memory and in the tables; the one place that writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from kubelet import logging as klog
from kubelet.pods.rows import PODS, STATUS, WORK, Call, PodRow, StatusRow, Wait, WorkRow
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process

log = klog.get_logger(__name__)

R = TypeVar("R")


class Book:
    """What is known of each pod, so that a successor knows it too."""

    def __init__(self, process: Process, wall: Callable[[], int]) -> None:
        self._process = process
        self._wall = wall
        self.pods: dict[str, PodRow] = {}
        self.works: dict[str, WorkRow] = {}
        self.statuses: dict[str, StatusRow] = {}

    def load(self) -> None:
        """Read what a predecessor left; what cannot be read is forgotten and said."""
        self.pods = dict(self._read(PODS, PodRow.from_wire))
        self.works = dict(self._read(WORK, WorkRow.from_wire))
        self.statuses = dict(self._read(STATUS, StatusRow.from_wire))
        for uid in [uid for uid in self.works if uid not in self.pods]:
            self._drop_work(uid)
        for uid in [uid for uid in self.statuses if uid not in self.pods]:
            self._drop_status(uid)

    def _read(self, table: str, of: Callable[[object], R]) -> Iterator[tuple[str, R]]:
        for key, value in self._process.tables.items(table):
            try:
                yield key, of(value)
            except BadRecordError as err:
                log.error("Row cannot be read and is forgotten", table=table, pod=key, err=err)
                self._process.delete(table, key)

    def put(self, row: PodRow) -> None:
        """Write a pod's row, if it changed."""
        if self.pods.get(row.uid) != row:
            self.pods[row.uid] = row
            self._process.put(PODS, row.uid, row.to_wire())

    def put_status(self, row: StatusRow) -> None:
        """Write a pod's status."""
        self.statuses[row.uid] = row
        self._process.put(STATUS, row.uid, row.to_wire())

    def work(self, uid: str) -> WorkRow:
        """Return what is known of the work on a pod."""
        return self.works.get(uid) or WorkRow(uid)

    def put_work(self, row: WorkRow) -> None:
        """Write what a worker is at, if it changed."""
        if self.works.get(row.uid) != row:
            self.works[row.uid] = row
            self._process.put(WORK, row.uid, row.to_wire())

    def step(self, uid: str, step: str, *waits: Wait) -> None:
        """Say what a worker does now, and what the pod waits for meanwhile."""
        work = self.work(uid)
        if uid not in self.works or work.step != step or work.waits != waits:
            since = work.since_ns if work.step == step else self._wall()
            if work.step != step:
                self._process.record("step", step, uid)
            self.put_work(replace(work, step=step, since_ns=since, waits=waits))

    def call(self, uid: str, name: str, call: Call | None) -> None:
        """Remember something under way in the runtime, or that it is over."""
        work = self.work(uid)
        calls = {key: value for key, value in work.calls.items() if key != name}
        if call is not None:
            calls[name] = replace(call, since_ns=self._wall())
        if calls != work.calls:
            self.put_work(replace(work, calls=calls))

    def reason(self, uid: str, name: str, reason: str = "", message: str = "") -> None:
        """Remember why a container waits (P-101..P-104), or that it does not any more."""
        work = self.work(uid)
        reasons = {key: value for key, value in work.reasons.items() if key != name}
        if reason:
            reasons[name] = f"{reason}\t{message}"
        if reasons != work.reasons:
            self.put_work(replace(work, reasons=reasons))

    def remove(self, uid: str) -> None:
        """Forget a pod."""
        if self.pods.pop(uid, None) is not None:
            self._process.delete(PODS, uid)
        self._drop_work(uid)
        self._drop_status(uid)

    def _drop_work(self, uid: str) -> None:
        if self.works.pop(uid, None) is not None:
            self._process.delete(WORK, uid)

    def _drop_status(self, uid: str) -> None:
        if self.statuses.pop(uid, None) is not None:
            self._process.delete(STATUS, uid)
