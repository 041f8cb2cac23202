"""Computes the node's status when something changes, and sends what is news (N-10, N-11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kubelet import logging as klog
from procs.node.apiserver.types import ApiError, Json, Purpose
from procs.node.kit import Kit
from procs.node.nodeobject import cadence, conditions, odd, status
from procs.node.nodeobject.announcer import Announcer
from procs.node.nodeobject.cadence import Reported
from procs.node.nodeobject.calls import Calls
from procs.node.nodeobject.gathering import Gathering, Taken
from procs.node.nodeobject.patch import Difference, between
from procs.node.nodeobject.register import COLLECTION, Hear
from procs.node.nodeobject.settings import Settings

log = klog.get_logger(__name__)

TRIES: Final = 5
_WHAT: Final = "node status"
_REPORTED: Final = "nodeobject/reported"
_MOST_ASKED: Final = 60.0  # seconds that the server may have us wait


class Reporter:
    """Keeps the status true."""

    def __init__(  # noqa: PLR0913, PLR0917 - once, from the service
        self,
        kit: Kit,
        settings: Settings,
        calls: Calls,
        announcer: Announcer,
        hear: Hear,
        heard: Callable[[], Json | None],
        drop: Callable[[Purpose], None],
    ) -> None:
        self._kit = kit
        self._settings = settings
        self._calls = calls
        self._announcer = announcer
        self._hear = hear
        self._heard = heard  # the object as it was heard of in this life
        self._drop = drop
        self._path = f"{COLLECTION}/{settings.node}"
        self._reported = Reported.from_wire(kit.ledger.get(_REPORTED))
        self._refused: Json = {}  # what the server did not take of what it was sent
        self._failed = False
        self._rest = 0.0  # seconds from one look to the next at least, after failures
        self._wake = asyncio.Event()
        self._back = asyncio.Event()  # the server is: no rest is needed

    def wake(self) -> None:
        """Look at once."""
        self._wake.set()

    def retry(self) -> None:
        """Have what failed tried at once: the server is back."""
        if self._failed:
            self._wake.set()
            self._back.set()

    async def run(self, gathering: Gathering) -> None:
        """Look, send if need be, and wait for something to happen or for the next look."""
        while True:
            self._wake.clear()
            self._back.clear()
            began_ns = self._kit.clock()
            again_ns = await self._turn(gathering)
            seconds = cadence.next_look(self._settings.update_seconds, self._kit.random.uniform)
            if again_ns:
                seconds = min(seconds, max(0.0, (again_ns - self._kit.clock()) / 1e9))
            await _wait(self._wake, seconds)
            early_ns = began_ns + int(self._rest * 1e9) - self._kit.clock()
            if early_ns > 0:
                await _wait(self._back, early_ns / 1e9)
            early_ns = began_ns + cadence.FLOOR_NS - self._kit.clock()
            if early_ns > 0:
                await asyncio.sleep(early_ns / 1e9)

    async def _turn(self, gathering: Gathering) -> int:
        """Look once; when to look again at the latest, should nothing happen (0: as usual)."""
        before = self._heard()
        if before is None:
            return 0
        taken = gathering.take()
        difference = self._compare(before, taken)
        changed = difference.changed and difference.news != self._refused
        if cadence.report_due(self._reported, self._kit.clock(), changed=changed):
            await self._send(taken, difference, changed=changed)
        return taken.again_ns

    def _compare(self, before: Json, taken: Taken) -> Difference:
        self._announcer.looked(before, taken.facts.machine.identity.boot_id)
        return between(before, status.compute(before, taken.facts, self._settings))

    async def _send(self, taken: Taken, difference: Difference, *, changed: bool) -> None:
        error: ApiError | None = None
        for attempt in range(TRIES):
            try:
                if attempt:  # what we knew may be old
                    difference = self._compare(await self._look_again(), taken)
                after = await self._calls.patch(f"{self._path}/status", difference.body)
            except ApiError as err:
                error = err
                if err.not_found:
                    self._hear(None)
                    return
                if err.unreachable:
                    self._drop(Purpose.HEARTBEAT)
                if err.forbidden or err.unauthorized or err.retry_after:
                    break
            else:
                self._sent(taken, after, changed=changed)
                return
        self._failed = True
        asked = min(error.retry_after or 0.0, _MOST_ASKED) if error is not None else 0.0
        self._rest = max(cadence.next_retry(self._rest), asked)
        self._kit.process.row.count("node_status_failures")
        self._kit.troubles.tell(_WHAT, error)

    async def _look_again(self) -> Json:
        found = await self._calls.get(self._path)
        self._take(found)
        return self._kit.view.document or found

    def _take(self, answer: Json) -> None:
        """Take the object that was asked for: that is no news, and no reason to look again."""
        woken = self._wake.is_set()
        self._hear(answer)
        if not woken:
            self._wake.clear()

    def _sent(self, taken: Taken, after: Json, *, changed: bool) -> None:
        self._failed = False
        self._rest = 0.0
        self._kit.process.row.count("node_status_writes")
        self._kit.troubles.tell(_WHAT, None)
        seconds, uniform = self._settings.report_seconds, self._kit.random.uniform
        now_ns = self._kit.clock()
        self._reported = cadence.reported(now_ns, seconds, uniform, changed=changed)
        self._kit.ledger.put(_REPORTED, self._reported.to_wire())
        self._take(after)
        wanted = status.compute(after, taken.facts, self._settings)
        self._refused = between(after, wanted).news
        said = odd.condition(after, conditions.READY)
        reason = f"{said.get('reason', '')}: {said.get('message', '')}"
        self._kit.troubles.note(ready=str(said.get("status", "")), ready_reason=reason)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but no longer than that."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
