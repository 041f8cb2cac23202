"""The channels of one process: its two sockets, and those to the processes it hears and asks."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import zmq

from kubelet import logging as klog
from kubelet.channels import messages, paths, sockets
from kubelet.channels.asker import Asker
from kubelet.channels.counters import Counters
from kubelet.channels.errors import ChannelError
from kubelet.channels.hints import OnHint, Publisher, Subscriber
from kubelet.channels.messages import Request
from kubelet.channels.server import HANDLER_LIMIT, Caller, Handlers, PeerKind, Server, Spawn

log = klog.get_logger(__name__)

R = TypeVar("R")
M = TypeVar("M", bound=Request[object])


class Channels:
    """Publishes and follows hints, answers and asks requests.

    ``peers`` names the kind of a peer by user and process id. ``spawn`` starts a coroutine as a
    task whose failure ends the process (a TaskGroup's ``create_task``): handlers run in it, and a
    bug in a callback is raised in it.
    """

    def __init__(
        self,
        kind: str,
        run_dir: Path,
        peers: PeerKind,
        spawn: Spawn,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._kind = kind
        self._run_dir = run_dir
        self._peers = peers
        self._spawn = spawn
        self._clock = clock
        self._counters = Counters()
        self._handlers = Handlers(kind)
        self._ground: sockets.Ground | None = None
        self._publisher: Publisher | None = None
        self._server: Server | None = None
        self._subscribers: dict[str, Subscriber] = {}
        self._followed: set[str] = set()
        self._askers: dict[str, Asker] = {}

    async def start(self) -> None:
        """Make the ZeroMQ context (so: after the fork) and bind both sockets."""
        hints = paths.socket_path(self._run_dir, self._kind, paths.HINTS)
        requests = paths.socket_path(self._run_dir, self._kind, paths.REQUESTS)
        context: sockets.Context = zmq.Context()
        self._ground = sockets.Ground(context, self._counters, self._clock, self._bug)
        try:
            self._publisher = Publisher(self._ground, hints)
            self._server = Server(self._ground, requests, self._handlers, self._peers, self._spawn)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every socket and end the context's threads; waits for nothing."""
        for asker in self._askers.values():
            asker.close()
        for subscriber in self._subscribers.values():
            subscriber.close()
        if self._server:
            self._server.close()
        if self._publisher:
            self._publisher.close()
        if self._ground:
            self._ground.context.destroy(linger=0)
        self._askers.clear()
        self._subscribers.clear()
        self._followed.clear()
        self._ground = self._server = self._publisher = None

    def offer(self, table: str, generation: Callable[[], int]) -> None:
        """Serve hints of a table that this process writes; newcomers are told ``generation()``."""
        self._started(self._publisher).offer(table, generation)

    def publish(self, table: str, key: str, generation: int) -> None:
        """Tell the readers of an offered table that it changed; never blocks."""
        self._started(self._publisher).publish(table, key, generation)

    def subscribe(self, writers: Mapping[str, str], on_hint: OnHint) -> None:
        """Call ``on_hint`` for the hints of each table, which the kind beside it writes."""
        ground = self._started(self._ground)
        for table, writer in writers.items():
            if table in self._followed:
                raise ValueError(f"table {table} is subscribed already")
            if writer not in self._subscribers:
                path = paths.socket_path(self._run_dir, writer, paths.HINTS)
                self._subscribers[writer] = Subscriber(ground, path, writer)
            self._followed.add(table)
            self._subscribers[writer].follow(table, on_hint)

    def handle(
        self,
        body: type[M],
        handler: Callable[[M, Caller], Awaitable[object]],
        limit: int = HANDLER_LIMIT,
    ) -> None:
        """Answer a request with ``await handler(message, caller)``, ``limit`` at a time.

        HandlerError is an expected failure. Anything else is answered FAILED and then raised.
        """
        self._handlers.add(body, handler, limit)

    async def ask(self, kind: str, message: Request[R], timeout: float = 5.0) -> R:  # noqa: ASYNC109 - the deadline travels
        """Ask another process; a ChannelError says why there is no reply."""
        row = messages.BY_TYPE[type(message)]
        if kind not in row.handled_by:
            raise ValueError(f"{row.name} is not handled by {kind}: see the message table")
        asker = self._askers.get(kind)
        if asker is None:
            path = paths.socket_path(self._run_dir, kind, paths.REQUESTS)
            asker = Asker(self._started(self._ground), path, kind)
            self._askers[kind] = asker
        return await asker.ask(message, timeout)

    def counters(self) -> dict[str, int]:
        """Return the totals since the start, by name."""
        for part in (self._publisher, self._server):
            if part:
                part.settle()
        return dataclasses.asdict(self._counters)

    def depths(self) -> dict[str, int]:
        """Return what is pending: requests per peer and unsent ones, handlers per request."""
        depths = {f"handling_{name}": n for name, n in self._handlers.running().items()}
        for kind, asker in self._askers.items():
            depths[f"asked_{kind}"], depths[f"unsent_{kind}"] = asker.depths()
        return depths

    def _started(self, part: R | None) -> R:
        if part is None:
            raise ChannelError("the channels are not started")
        return part

    def _bug(self, error: BaseException) -> None:
        """Raise an exception of a callback where it ends the process, not in the loop's log."""
        raising = _raise(error)
        try:
            self._spawn(raising)
        except RuntimeError:  # a task group that is ending takes no more tasks
            raising.close()
            log.bug("Failed while stopping", error)


async def _raise(error: BaseException) -> None:
    raise error
