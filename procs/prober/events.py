"""Tells of probes that failed, in the words of the Go kubelet (B-16).

Events are a pod's, and syncloop keeps them: it is asked to note each. That happens beside, one
after the other, and waits for a syncloop that is just being replaced. No probe ever waits for it;
where too many events wait, the newest are dropped and counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from kubelet import logging as klog
from kubelet.channels.errors import (
    BusyError,
    ChannelError,
    PeerGoneError,
    RequestTimeoutError,
    UnknownRequestError,
)
from kubelet.channels.probing import NotePodEvent
from kubelet.pods.probes import ProbeKind
from kubelet.process import Process
from procs.prober.job import Job, Outcome, ProbeError, Result

log = klog.get_logger(__name__)

ROOM: Final = 256
UNHEALTHY: Final = "Unhealthy"
WARNING: Final = "ProbeWarning"
MESSAGE_LIMIT: Final = 1024  # of an event (C-8)
_SECONDS: Final = 5.0  # for syncloop to take one
_TRIES: Final = 24  # two minutes of a syncloop that cannot be reached
_PAUSE: Final = 0.1  # before a busy syncloop is asked again

_LABELS: Final = {kind: kind.value.capitalize() for kind in ProbeKind}


def event_of(pod: str, job: Job, found: Outcome | ProbeError) -> NotePodEvent | None:
    """Return the event that a probe's end is worth; None for a plain success."""
    label = _LABELS[job.kind]
    if isinstance(found, ProbeError):
        text = f"{label} probe errored and resulted in unknown state: {found}"
        return _event(pod, job, UNHEALTHY, text)
    if found.result is Result.FAILURE:
        return _event(pod, job, UNHEALTHY, f"{label} probe failed: {found.output}")
    if found.result is Result.WARNING:
        return _event(pod, job, WARNING, f"{label} probe warning: {found.output}")
    return None


def _event(pod: str, job: Job, reason: str, text: str) -> NotePodEvent:
    return NotePodEvent(pod, job.container.name, "Warning", reason, text[:MESSAGE_LIMIT])


class Teller:
    """Has events noted by syncloop, in order."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._waiting: deque[NotePodEvent] = deque()
        self._work = asyncio.Event()
        self._complaint = klog.every(60)

    def start(self) -> None:
        """Begin."""
        self._process.spawn(self._run(), name="events of probes")

    def tell(self, event: NotePodEvent) -> None:
        """Have an event noted as soon as possible."""
        if len(self._waiting) >= ROOM:
            self._process.row.count("events_dropped_full")
            if self._complaint.ready():
                log.warning("Event dropped: too many wait", pod=event.pod, text=event.message)
            return
        self._waiting.append(event)
        self._work.set()

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._waiting:
                self._process.row.depth("events", len(self._waiting))
                await self._note(self._waiting[0])
                self._waiting.popleft()
            self._process.row.depth("events", 0)

    async def _note(self, event: NotePodEvent) -> None:
        for _ in range(_TRIES):
            try:
                await self._process.channels.ask("syncloop", event, timeout=_SECONDS)
            except (PeerGoneError, RequestTimeoutError):
                continue  # asking waits until its successor is there
            except (BusyError, UnknownRequestError):
                await asyncio.sleep(_PAUSE)  # nothing tells when it has room, or has started
            except ChannelError as err:
                self._dropped(event, err)
                return
            else:
                self._process.row.count("events_told")
                return
        self._dropped(event, "syncloop could not be reached")

    def _dropped(self, event: NotePodEvent, why: object) -> None:
        self._process.row.count("events_dropped")
        if self._complaint.ready():
            log.warning("Event dropped", pod=event.pod, text=event.message, err=why)
