"""The asking side of requests: one DEALER per peer, made when it is first asked.

The DEALER takes a message only while it is connected (ZMQ_IMMEDIATE), so that nothing waits in
libzmq beyond its deadline; what cannot be sent yet waits here, and leaves with its asker.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import zmq

from kubelet.channels import messages, schema, sockets, wire
from kubelet.channels.counters import Complaint
from kubelet.channels.errors import (
    BadReplyError,
    BadRequestError,
    BusyError,
    ChannelError,
    PeerDownError,
    PeerGoneError,
    RequestTimeoutError,
    remote_error,
)
from kubelet.channels.messages import Request, Row

R = TypeVar("R")

PENDING_LIMIT: Final = 256


def read_answer(peer: str, row: Row, envelope: wire.Envelope) -> Any:
    """Return the reply in an answer, or raise the ChannelError that it stands for."""
    try:
        if envelope.sort == wire.ERROR:
            raise remote_error(peer, row.name, *wire.decode_error(envelope.body))
        if envelope.sort == wire.REPLY and (envelope.name, envelope.schema) == (
            row.name,
            row.schema,
        ):
            return schema.decode(row.reply, envelope.body)
    except (wire.GarbageError, schema.MismatchError) as error:
        raise BadReplyError(f"{peer} answered {row.name} with what is no reply: {error}") from error
    raise BadReplyError(
        f"{peer} answered {row.name} version {row.schema} with a {envelope.sort} of "
        f"{envelope.name[:64]!r} version {envelope.schema}"
    )


def write_request(row: Row, id_: int, deadline_ns: int, body: Request[Any]) -> bytes:
    """Make the frame of a request."""
    frame = wire.encode(wire.Envelope(row.schema, wire.REQUEST, row.name, id_, deadline_ns, body))
    if len(frame) > wire.MAX_FRAME:
        raise BadRequestError(f"{row.name} has {len(frame)} bytes, allowed is {wire.MAX_FRAME}")
    return frame


@dataclass(slots=True)
class _Pending:
    """A request without an answer yet."""

    row: Row
    frame: bytes
    future: asyncio.Future[Any]
    sent: bool = False


class Asker:
    """Asks one peer, any number of requests at a time up to a bound."""

    def __init__(self, ground: sockets.Ground, path: Path, peer: str) -> None:
        self._peer = peer
        self._counters = ground.counters
        self._clock = ground.clock
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._unsent: dict[int, None] = {}  # in the order in which they were asked
        self._garbage = Complaint("Dropped what is no answer")
        socket = sockets.make(ground.context, zmq.DEALER)
        socket.set(zmq.IMMEDIATE, 1)
        self._monitor = sockets.Monitor(ground, socket, zmq.EVENT_DISCONNECTED, self._disconnected)
        sockets.connect(socket, path)
        self._socket = sockets.LoopSocket(socket, self._take, ground.bug, writable=self._flush)

    async def ask(self, body: Request[R], timeout: float) -> R:  # noqa: ASYNC109 - the deadline travels
        """Send a request and wait for its reply, at most ``timeout`` seconds."""
        if len(self._pending) >= PENDING_LIMIT:
            self._counters.asks_refused += 1
            raise BusyError(f"{len(self._pending)} requests to {self._peer} are pending")
        row, id_ = messages.BY_TYPE[type(body)], next(self._ids)
        frame = write_request(row, id_, self._clock() + int(timeout * 1e9), body)
        pending = _Pending(row, frame, self._loop.create_future())
        self._pending[id_] = pending
        self._unsent[id_] = None
        timer = self._loop.call_later(timeout, self._expire, pending, timeout)
        try:
            self._flush()
            reply: R = await pending.future
            return reply
        finally:
            timer.cancel()
            del self._pending[id_]
            self._unsent.pop(id_, None)

    def depths(self) -> tuple[int, int]:
        """Tell how many requests are pending, and how many of them are not sent yet."""
        return len(self._pending), len(self._unsent)

    def close(self) -> None:
        """Close the connection; who still waits is told that the channel is closed."""
        self._monitor.close()
        self._socket.close()
        self._fail_all(ChannelError, f"the channel to {self._peer} was closed", sent_only=False)

    def _flush(self) -> None:
        """Send what has not been sent, as far as there is room."""
        self._monitor.drain()  # a disconnect seen only after sending would fail what it precedes
        while self._unsent:
            id_ = next(iter(self._unsent))
            if self._socket.send([self._pending[id_].frame]) is not sockets.Sent.OK:
                return
            del self._unsent[id_]
            self._pending[id_].sent = True
            self._counters.asks_sent += 1

    def _take(self, socket: sockets.Socket) -> None:
        parts = socket.recv_multipart(sockets.DONTWAIT)
        size = sum(map(len, parts))
        if size > wire.MAX_FRAME:
            self._counters.answers_oversized += 1
            self._garbage(peer=self._peer, size=size)
            return
        try:
            if len(parts) != 1:
                raise wire.GarbageError("not one frame")
            envelope = wire.decode(parts[0])
        except wire.GarbageError as error:
            self._counters.answers_garbage += 1
            self._garbage(peer=self._peer, size=size, why=error)
            return
        self._answered(envelope)

    def _answered(self, envelope: wire.Envelope) -> None:
        pending = self._pending.get(envelope.id)
        if pending is None or pending.future.done():
            self._counters.answers_late += 1
            return
        self._counters.answers_received += 1
        try:
            pending.future.set_result(read_answer(self._peer, pending.row, envelope))
        except ChannelError as error:
            if isinstance(error, BadReplyError):
                self._counters.answers_garbage += 1
            pending.future.set_exception(error)

    def _expire(self, pending: _Pending, seconds: float) -> None:
        if pending.future.done():
            return
        self._counters.asks_timed_out += 1
        name = pending.row.name
        error: ChannelError = RequestTimeoutError(
            f"{self._peer} did not answer {name} within {seconds:g} s"
        )
        if not pending.sent:
            error = PeerDownError(f"{self._peer} could not be reached for {name} in {seconds:g} s")
        pending.future.set_exception(error)

    def _disconnected(self, _event: int, _value: int) -> None:
        """Fail at once what the peer took with it, after reading what it still answered."""
        self._socket.drain()
        self._fail_all(PeerGoneError, f"{self._peer} went away before it answered", sent_only=True)

    def _fail_all(self, error: type[ChannelError], text: str, *, sent_only: bool) -> None:
        for pending in self._pending.values():
            if not pending.future.done() and (pending.sent or not sent_only):
                self._counters.asks_peer_gone += 1
                pending.future.set_exception(error(text))
