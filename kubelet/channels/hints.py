"""Hints: "this table changed at this key", from the table's writer to all its readers.

A hint may be lost: a reader that was stopped finds its queue cut off. It learns so from the
numbers that hints carry and is then told to look at the whole table, as is every reader whenever
one (re)connects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zmq

from kubelet.channels import sockets, wire
from kubelet.channels.counters import Complaint
from kubelet.channels.wire import ANY_KEY, Hint, NumberedHint

OnHint = Callable[[Hint], None]

_SUBSCRIBE: Final = 1
_UNSUBSCRIBE: Final = 0


@dataclass(slots=True)
class _Offer:
    """A table that this process writes."""

    generation: Callable[[], int]
    number: int = 0  # of the last hint


class Publisher:
    """Binds the XPUB of a process and publishes its tables' changes."""

    def __init__(self, ground: sockets.Ground, path: Path) -> None:
        self._bug = ground.bug
        self._counters = ground.counters
        self._epoch = ground.clock()
        self._offers: dict[str, _Offer] = {}
        self._greet: set[str] = set()
        self._garbage = Complaint("Dropped what is no subscription")
        self._overflow = Complaint("A subscriber does not keep up, hints to it are dropped")
        stranger = Complaint("Connections to the hint socket ended without speaking ZeroMQ")
        self._strangers = sockets.Strangers(ground.clock, stranger)
        socket = sockets.make(ground.context, zmq.XPUB)
        socket.set(zmq.XPUB_VERBOSE, 1)  # tell of each subscriber, not only a topic's first
        socket.set(zmq.XPUB_NODROP, 1)  # say so when a queue is full
        self._monitor = sockets.Monitor(
            ground, socket, self._strangers.EVENTS, self._strangers.event
        )
        sockets.bind(socket, path)
        self._socket = sockets.LoopSocket(socket, self._take, ground.bug)

    def offer(self, table: str, generation: Callable[[], int]) -> None:
        """Serve a table; whoever has already subscribed is told to look at all of it."""
        self._offers[table] = _Offer(generation)
        self._publish(table, ANY_KEY, generation())

    def publish(self, table: str, key: str, generation: int) -> None:
        """Tell the readers of a table; never blocks."""
        self._publish(table, key, generation)

    def settle(self) -> None:
        """Bring the counters up to date."""
        self._counters.hints_bad_peers = self._strangers.settle()

    def close(self) -> None:
        """Stop publishing."""
        self._monitor.close()
        self._socket.close()

    def _publish(self, table: str, key: str, generation: int) -> None:
        offer = self._offers[table]
        offer.number += 1
        hint = Hint(table, key, generation)
        frame = wire.encode_hint(NumberedHint(hint, self._epoch, offer.number))
        self._counters.hints_sent += 1
        if self._socket.send([frame]) is sockets.Sent.FULL:
            self._overflowed(table, frame)

    def _overflowed(self, table: str, frame: bytes) -> None:
        """Send to all but those whose queue is full.

        With NODROP one full queue would keep the hint from every reader: one stuck process would
        blind all others. libzmq leaves a full queue out until it has drained, so this happens
        once per reader that falls behind, not once per hint.
        """
        self._counters.hints_overflowed += 1
        self._overflow(table=table)
        self._socket.raw.set(zmq.XPUB_NODROP, 0)
        try:
            self._socket.send([frame])
        finally:
            self._socket.raw.set(zmq.XPUB_NODROP, 1)

    def _take(self, socket: sockets.Socket) -> None:
        parts = socket.recv_multipart(sockets.DONTWAIT)
        message = parts[0]
        if len(parts) > 1 or not message or message[0] not in (_SUBSCRIBE, _UNSUBSCRIBE):
            self._counters.hints_garbage += 1
            self._garbage(size=len(message))
        elif message[0] == _SUBSCRIBE:
            self._counters.hints_subscriptions += 1
            self._welcome(message[1:])

    def _welcome(self, topic: bytes) -> None:
        """Have the newcomer compare generations; many newcomers at once cost one hint a table."""
        wanted = {t for t in self._offers if wire.topic(t).startswith(topic)}
        if wanted and not self._greet:
            asyncio.get_running_loop().call_soon(self._say_hello)
        self._greet |= wanted

    def _say_hello(self) -> None:
        tables, self._greet = self._greet, set()
        if self._socket.raw.closed:
            return
        try:
            for table in sorted(tables):
                self._publish(table, ANY_KEY, self._offers[table].generation())
        except Exception as error:  # noqa: BLE001 - handed on: a bug must end the process
            self._bug(error)


@dataclass(slots=True)
class _Followed:
    """A table that this process reads, and the last hint of it."""

    on_hint: OnHint
    epoch: int = -1
    number: int = 0


class Subscriber:
    """The SUB for the tables of one writer; a queue of its own for each writer."""

    def __init__(self, ground: sockets.Ground, path: Path, writer: str) -> None:
        self._writer = writer
        self._counters = ground.counters
        self._followed: dict[str, _Followed] = {}
        self._garbage = Complaint("Dropped what is no hint")
        socket = sockets.make(ground.context, zmq.SUB)
        sockets.connect(socket, path)
        self._socket = sockets.LoopSocket(socket, self._take, ground.bug)

    def follow(self, table: str, on_hint: OnHint) -> None:
        """Call ``on_hint`` for each hint of a table."""
        self._followed[table] = _Followed(on_hint)
        self._socket.raw.set(zmq.SUBSCRIBE, wire.topic(table))

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def _take(self, socket: sockets.Socket) -> None:
        parts = socket.recv_multipart(sockets.DONTWAIT)
        size = sum(map(len, parts))
        if size > wire.MAX_FRAME:
            self._counters.sub_oversized += 1
            self._garbage(writer=self._writer, size=size)
            return
        try:
            numbered = wire.decode_hint(parts[0])
            followed = self._followed[numbered.hint.table]
        except (wire.GarbageError, KeyError) as error:
            self._counters.sub_garbage += 1
            self._garbage(writer=self._writer, size=size, err=error)
            return
        self._counters.sub_received += 1
        followed.on_hint(self._in_order(followed, numbered))

    def _in_order(self, followed: _Followed, numbered: NumberedHint) -> Hint:
        """Return the hint, widened to the whole table if others before it were lost."""
        hint = numbered.hint
        same_life = numbered.epoch == followed.epoch
        missed = numbered.number - followed.number - 1 if same_life else 0
        whole = hint.key == ANY_KEY
        followed.epoch, followed.number = numbered.epoch, numbered.number
        if missed > 0:
            self._counters.sub_missed += missed
        if whole or (same_life and missed == 0):
            return hint
        return Hint(hint.table, ANY_KEY, hint.generation)
