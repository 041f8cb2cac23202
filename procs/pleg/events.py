"""The runtime's own events (CRI GetContainerEvents): a reason to look, never a thing to believe.

One stream for the whole node, here: some runtimes give each event to one subscriber only. A stream
that breaks is opened again, after 0.1 s at first and 30 s at most; for as long as a runtime does
not have the call it is not asked again, until it has restarted or says another version (G-7 stops
for good after five failures; that is not copied, as a stream costs nothing).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from kubelet import logging as klog
from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import CriError, Unimplemented
from kubelet.process import Process
from procs.pleg.listing import UID_LABEL, is_uid

log = klog.get_logger(__name__)

FIRST_PAUSE: Final = 0.1
LAST_PAUSE: Final = 30.0


def next_pause(pause: float) -> float:
    """Return the pause after this one."""
    return min(LAST_PAUSE, pause * 2)


def pod_of(event: pb.ContainerEventResponse) -> str | None:
    """Return the pod that an event is a reason to look at; None: no reason, or nobody's.

    Only ends are: what else happens is our own doing, and who did it asks for a look (G-7).
    """
    if event.container_event_type != pb.CONTAINER_STOPPED_EVENT:
        return None
    for labels in (
        event.pod_sandbox_status.labels,
        *(status.labels for status in event.containers_statuses),
    ):
        uid = labels.get(UID_LABEL, "")
        if is_uid(uid):
            return uid
    return None


class Events:
    """Follows the stream of events."""

    def __init__(
        self,
        process: Process,
        client: RuntimeClient,
        look: Callable[[str], object],
        restarted: asyncio.Event,
    ) -> None:
        self._process = process
        self._client = client
        self._look = look
        self._restarted = restarted  # the runtime is another one than before
        self._said = ""

    async def run(self) -> None:
        """Follow events for as long as the process lives."""
        pause = FIRST_PAUSE
        while True:
            self._restarted.clear()
            heard = False
            try:
                heard = await self._follow()
            except Unimplemented:
                self._say("The runtime has no container events")
                await self._restarted.wait()
                pause = FIRST_PAUSE
                continue
            except CriError as err:
                self._process.row.count("event_errors")
                log.v(2, "The stream of container events broke", err=err)
            pause = FIRST_PAUSE if heard else next_pause(pause)
            await asyncio.sleep(pause)

    async def _follow(self) -> bool:
        """Follow one stream to its end; whether anything came."""
        heard = False
        self._process.row.count("event_connects")
        async with aclosing(self._client.get_container_events()) as stream:
            async for event in stream:
                if not heard:
                    heard = True
                    self._say("Following the runtime's container events")
                self._process.row.count("events")
                uid = pod_of(event)
                if uid is not None:
                    self._look(uid)
        return heard

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            log.info(text)
