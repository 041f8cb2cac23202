"""The pleg process: what the runtime holds, known to everybody within milliseconds.

Owns: table ``runtime``, the pod status cache. Reads: ``pods``, and the runtime, which it never
changes. Answers: ``relist``. Sends: hints on what it writes.

There are four reasons to look, and one place that writes. Each second it looks at everything.
It looks at one pod when somebody asks, when the runtime says that a container has stopped, and
when the kernel says that a container's first process has ended.

When it dies: the cache keeps its last content for every reader; the successor reads it, looks at
the runtime, and corrects what has changed meanwhile.
When the runtime dies, hangs or talks nonsense: the cache stays, what is wrong is said under the
key ``runtime``, and looking goes on until it is back.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from kubelet import logging as klog
from kubelet.channels.errors import ErrorKind, HandlerError
from kubelet.channels.messages import Relist, Relisted
from kubelet.channels.server import Caller
from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import CriError, EndpointError
from kubelet.process import Process
from procs.pleg import looks
from procs.pleg.book import Book
from procs.pleg.events import Events
from procs.pleg.exits import Exits
from procs.pleg.link import Link
from procs.pleg.listing import is_uid
from procs.pleg.looks import Looks, LooksFullError
from procs.pleg.relist import PERIOD, REST, Relister, UnseenError
from procs.pleg.report import Report

log = klog.get_logger(__name__)


async def main(process: Process) -> None:
    """Look until asked to stop."""
    await serve(process)


async def serve(process: Process, *, watch_exits: bool = True, follow_events: bool = True) -> None:
    """Look until asked to stop; without exits and events only the full look is left."""
    book = Book(process)
    book.load()
    endpoint = process.config.str("containerRuntimeEndpoint")
    seconds = process.config.duration("runtimeRequestTimeout")
    try:
        client = await RuntimeClient.connect(endpoint, timeout=seconds)
    except EndpointError as err:
        await _unusable(process, book, endpoint, err)
        return
    pleg = Pleg(process, client, book)
    pleg.start(watch_exits=watch_exits, follow_events=follow_events)
    await process.stopping.wait()
    pleg.exits.close()
    await client.close()


async def _unusable(process: Process, book: Book, endpoint: str, err: EndpointError) -> None:
    """Say that the configuration names no runtime; only a new start can change that."""
    log.error("The configured runtime cannot be called", err=err)
    record = replace(book.runtime, endpoint=endpoint, healthy=False, reason=str(err))
    book.put_runtime(record)
    await process.stopping.wait()


class Pleg:
    """The parts, and how they speak to each other."""

    def __init__(self, process: Process, client: RuntimeClient, book: Book) -> None:
        self._process = process
        self._book = book
        self.link = Link(process, client, book.runtime)
        self.relister = Relister(process, client, book)
        self.looks = Looks(process, self.relister.pod, book.seen_ns)
        self.exits = Exits(
            process, self.relister.inspector.container, self.relister.ended, self.looks.hint
        )
        self.events = Events(process, client, self.looks.hint, self.link.restarted)
        self.report = Report(client, self.link, self.relister, book)
        self.link.told = self.report.tick  # pods wait for its first word: not until the next second

    def start(self, *, watch_exits: bool, follow_events: bool) -> None:
        """Begin to look, and to answer."""
        process = self._process
        if watch_exits:
            self._book.on_change(self.exits.update)
        process.heartbeat.on_tick(self.report.tick)
        process.channels.handle(Relist, self._relist, limit=looks.CAPACITY + looks.WORKERS)
        process.spawn(self.link.run(), name="runtime status")
        process.spawn(self._look_forever(watch_exits), name="full relist")
        if follow_events:
            process.spawn(self._follow_events(), name="runtime events")

    async def _look_forever(self, watch_exits: bool) -> None:
        """Look at everything each second, from start to start; never two at a time."""
        await self.link.connected.wait()
        if watch_exits:
            for uid, record in list(self._book.records.items()):
                self.exits.update(uid, record)
        while True:
            began = time.monotonic()
            await self._look_once()
            now = time.monotonic()
            await asyncio.sleep(max(began + PERIOD - now, REST))

    async def _look_once(self) -> None:
        try:
            await self.relister.full()
        except (CriError, UnseenError) as err:
            self._process.row.count("relist_errors")
            self.link.fails("relist", err)
            self.report.tick()
            return
        self.link.works("relist")
        self.report.looked()
        self._process.row.depth("relist_ms", self.relister.last_ms)

    async def _follow_events(self) -> None:
        await self.link.connected.wait()
        await self.events.run()

    async def _relist(self, request: Relist, caller: Caller) -> Relisted:
        """Look at one pod for somebody who waits."""
        if not is_uid(request.pod):
            raise HandlerError(f"{request.pod!r} cannot be a pod's uid", ErrorKind.BAD_REQUEST)
        left = (caller.deadline_ns - time.monotonic_ns()) / 1e9
        try:
            async with asyncio.timeout(left):
                looked = await self.looks.ask(request.pod)
        except LooksFullError as err:
            raise HandlerError(str(err), ErrorKind.BUSY) from None
        except CriError as err:
            raise HandlerError(str(err)) from None
        except TimeoutError:
            raise HandlerError("the runtime does not answer", ErrorKind.TIMEOUT) from None
        return Relisted(looked.stamp_ns, looked.changed)
