"""Tells the API server what happened here: to pods, from table ``events``; to the rest, as told.

Without an API server events are in the log and nowhere else (C-8).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from kubelet import logging as klog
from kubelet.channels.messages import EventNoted, RecordEvent
from kubelet.channels.server import Caller
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.pods.rows import EVENTS, SOURCES_KEY, EventsRow
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process
from procs.node.apiserver.types import Api, ApiError, Reference
from procs.node.events.correlate import MESSAGE_LIMIT, Happening
from procs.node.events.desk import Desk, Waiting
from procs.node.events.sink import Fate, deliver, fate, pause
from procs.node.ledger import Ledger
from procs.node.view import NodeView
from shm.codec import DecodeError, unpack

log = klog.get_logger(__name__)


class Recorder:
    """Records events."""

    def __init__(  # noqa: PLR0913 - once
        self,
        process: Process,
        view: NodeView,
        ledger: Ledger,
        wall: Callable[[], int] = time.time_ns,
        clock: Callable[[], int] = time.monotonic_ns,
        *,
        chance: random.Random | None = None,
        told: Callable[[ApiError | None], None] | None = None,
    ) -> None:
        self._process = process
        self._view = view
        self._wall = wall
        self._random = chance or random.Random()  # noqa: S311 - spreads load, hides nothing
        self._told = told
        self._standalone = not process.config.flag("kubeconfig")
        self._desk = Desk(ledger, wall, clock)
        self._api: Api | None = None
        self._work = asyncio.Event()  # something may be there to be told
        self._hurry = asyncio.Event()  # a wait for the next try may end
        self._marks: dict[str, tuple[int, int]] = {}  # what was taken over of each pod's row
        self._later: dict[str, None] = {}  # pods whose rows wait for room, in order
        self._complaint = klog.every(60)

    def start(self) -> None:
        """Take over what a predecessor left, and begin."""
        self._process.channels.handle(RecordEvent, self._record)
        if self._standalone:
            return
        self._desk.load()
        self._process.on_hint(self._hinted)
        self._read_all()
        self._work.set()
        self._process.spawn(self._run(), name="events")

    def attach(self, api: Api) -> None:
        """Take what leads to the API server; until then events wait."""
        self._api = api
        self.wake()

    def wake(self) -> None:
        """Try again now: the API server is back. Not for each of its answers."""
        self._hurry.set()
        self._work.set()

    def emit(self, about: Reference, type_: str, reason: str, message: str, at_ns: int = 0) -> None:
        """Record an event: ``kit.Emit``."""
        self._emit(about, type_, reason, message, at_ns or self._wall())

    def _emit(self, about: Reference, type_: str, reason: str, message: str, at_ns: int) -> None:
        message = message[:MESSAGE_LIMIT]
        log.v(2, "Event", object=_name(about), type=type_, reason=reason, text=message)
        pod = about.uid if about.kind == "Pod" else ""
        self._process.record("event", f"{reason}: {message}", pod)
        if self._standalone:
            return
        if self._desk.take(Happening(about, type_, reason, message, at_ns, at_ns)):
            self._work.set()
        else:
            self._process.row.count("events_dropped_full")
            if self._complaint.ready():
                log.warning("Event dropped: too many wait", object=_name(about), reason=reason)

    async def _record(self, request: RecordEvent, _caller: Caller) -> EventNoted:
        about = Reference(
            request.kind,
            request.name,
            request.namespace,
            request.uid,
            field_path=request.field_path,
        )
        if request.kind == "Node" and not request.name:
            about = self._view.reference
        at_ns = request.at_ns or self._wall()
        self._emit(about, request.type, request.reason, request.message, at_ns)
        return EventNoted()

    # What syncloop has written.

    def _hinted(self, hint: Hint) -> None:
        if hint.table != EVENTS:
            return
        if hint.key == ANY_KEY:
            self._read_all()
        else:
            self._read(hint.key)

    def _read_all(self) -> None:
        keys = self._process.tables.keys(EVENTS)
        for uid in self._marks.keys() - set(keys):
            del self._marks[uid]
        for key in keys:
            self._read(key)

    def _read(self, uid: str) -> None:
        """Take over a row at once: when the pod is gone its row may be, too."""
        self._later.pop(uid, None)
        entry = self._process.tables.get(EVENTS, uid) if uid != SOURCES_KEY else None
        if entry is None:
            return
        # All rows are looked at each second in which one changed: that must cost next to nothing.
        mark = (entry.generation, hash(entry.payload))
        if self._marks.get(uid) == mark:
            return
        try:
            row = EventsRow.from_wire(unpack(entry.payload))
        except (BadRecordError, DecodeError) as err:
            self._marks[uid] = mark
            log.warning("Events of a pod cannot be read", pod=uid, err=err)
            return
        if self._desk.take_row(row):
            self._marks[uid] = mark
            self._work.set()
        else:
            self._later[uid] = None

    # Telling.

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._api is not None and await self._tell_next(self._api):
                self._process.row.depth("events", self._desk.waiting)
                if self._later and not self._desk.full:
                    self._read(next(iter(self._later)))
            self._desk.prune(lambda: set(self._process.tables.keys(EVENTS)))

    async def _tell_next(self, api: Api) -> bool:
        """Tell one event; False if none waits."""
        found = self._desk.next()
        if found is None:
            return False
        try:
            await deliver(api, found.about, found.entry, self._process.node)
        except ApiError as err:
            await self._failed(found, err)
        else:
            self._desk.told(found)
            self._process.row.count("events_told")
            self._say(None)
        return True

    async def _failed(self, found: Waiting, error: ApiError) -> None:
        tries = found.tries + 1
        what = fate(error, tries, self._wall() - found.entry.last_ns)
        if what is Fate.RETRY:
            self._desk.failed(found)
            self._process.row.count("events_retried")
            self._say(error)
            await self._pause(error, pause(error, tries, self._random.random()))
            return
        self._desk.give_up(found)
        self._process.row.count("events_dropped")
        name = _name(found.about)
        if what is Fate.DROP_QUIETLY:
            log.v(2, "Event dropped", object=name, err=error)
            return
        self._say(error)
        if self._complaint.ready():
            log.warning("Event dropped", object=name, err=error, more=self._complaint.skipped)

    async def _pause(self, error: ApiError, seconds: float) -> None:
        """Wait; news that the server is back ends it, unless it was the server that said no."""
        self._hurry.clear()
        try:
            async with asyncio.timeout(seconds):
                while not (error.unreachable and self._hurry.is_set()):
                    self._hurry.clear()
                    await self._hurry.wait()
        except TimeoutError:
            return

    def _say(self, error: ApiError | None) -> None:
        if self._told is not None:
            self._told(error)


def _name(about: Reference) -> str:
    return f"{about.kind}/{about.namespace}/{about.name}" if about.namespace else about.name
