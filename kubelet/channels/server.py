"""The answering side of requests: the ROUTER that each process binds.

Delivery is at most once: libzmq never repeats a message and neither do we, so no list of ids
already seen is kept. A sender that got no answer may ask again, with a new id; therefore a
handler must be idempotent, which is stated for every request in the table of messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import zmq

from kubelet.channels import messages, schema, sockets, wire
from kubelet.channels.counters import Complaint
from kubelet.channels.errors import ErrorKind, HandlerError
from kubelet.channels.messages import Request, Row
from kubelet.channels.peers import Credentials, parse_address

R = TypeVar("R")
Spawn = Callable[[Coroutine[Any, Any, None]], object]
PeerKind = Callable[[int, int], str | None]

HANDLER_LIMIT: Final = 32


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and until when an answer is of use."""

    kind: str
    uid: int
    pid: int
    deadline_ns: int


Handler = Callable[[Any, Caller], Awaitable[Any]]


@dataclass(slots=True)
class _Served:
    """A request that this process handles."""

    row: Row
    handler: Handler
    limit: int
    running: int = 0


@dataclass(frozen=True, slots=True)
class _Call:
    """One request, fit to be handled."""

    route: bytes
    served: _Served
    id: int
    body: Request[Any]
    caller: Caller


class _RefusedError(Exception):
    """A request that is answered without reaching a handler."""

    def __init__(self, kind: ErrorKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Handlers:
    """The requests that a process handles; filled before or after the socket is bound."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._served: dict[str, _Served] = {}

    def add(self, body: type[Request[Any]], handler: Handler, limit: int) -> None:
        """Handle a request with at most ``limit`` of it at a time."""
        row = messages.BY_TYPE[body]
        if self._kind not in row.handled_by:
            raise ValueError(f"{row.name} is not handled by {self._kind}: see the message table")
        if row.name in self._served:
            raise ValueError(f"{row.name} has a handler already")
        self._served[row.name] = _Served(row, handler, limit)

    def get(self, name: str) -> _Served | None:
        """Find the handler of a request."""
        return self._served.get(name)

    def running(self) -> dict[str, int]:
        """Tell how many of each request are being handled."""
        return {name: served.running for name, served in self._served.items()}


class Server:
    """Binds the ROUTER of a process: checks each request and runs its handler."""

    def __init__(
        self,
        ground: sockets.Ground,
        path: Path,
        handlers: Handlers,
        peers: PeerKind,
        spawn: Spawn,
    ) -> None:
        self._handlers = handlers
        self._peers = peers
        self._spawn = spawn
        self._counters = ground.counters
        self._clock = ground.clock
        self._garbage = Complaint("Dropped what is no request")
        self._denied = Complaint("Denied a request")
        stranger = Complaint("Connections to the request socket ended without speaking ZeroMQ")
        self._strangers = sockets.Strangers(ground.clock, stranger)
        socket = sockets.make(ground.context, zmq.ROUTER)
        socket.set(zmq.ROUTER_MANDATORY, 1)  # a reply to nobody is an error, not silence
        self._monitor = sockets.Monitor(
            ground, socket, self._strangers.EVENTS, self._strangers.event
        )
        sockets.bind(socket, path)
        self._socket = sockets.LoopSocket(socket, self._take, ground.bug)

    def settle(self) -> None:
        """Bring the counters up to date."""
        self._counters.requests_bad_peers = self._strangers.settle()

    def close(self) -> None:
        """Stop answering."""
        self._monitor.close()
        self._socket.close()

    def _take(self, socket: sockets.Socket) -> None:
        frames = socket.recv_multipart(sockets.DONTWAIT, copy=False)
        self._counters.requests_received += 1
        size = sum(map(len, frames[1:]))
        if size > wire.MAX_FRAME:
            self._counters.requests_oversized += 1
            self._garbage(size=size, peer=_peer_text(frames[-1]))
        elif len(frames) != 2:
            self._is_garbage(frames, "not one frame")
        else:
            self._read(frames)

    def _is_garbage(self, frames: list[zmq.Frame], why: str) -> None:
        self._counters.requests_garbage += 1
        self._garbage(why=why, size=len(frames[-1]), peer=_peer_text(frames[-1]))

    def _read(self, frames: list[zmq.Frame]) -> None:
        route = frames[0].bytes
        try:
            envelope = wire.decode(frames[1].bytes)
            if envelope.sort != wire.REQUEST:
                raise wire.GarbageError(f"a {envelope.sort} came to the request socket")
        except wire.GarbageError as error:
            self._is_garbage(frames, str(error))
            if error.id is not None:
                self._refuse(route, "", error.id, ErrorKind.BAD_REQUEST, str(error))
            return
        try:
            call = self._admit(route, envelope, _credentials(frames[1]))
        except _RefusedError as refused:
            self._refuse(route, envelope.name, envelope.id, refused.kind, str(refused))
        except schema.MismatchError as misfit:
            self._is_garbage(frames, str(misfit))
            self._refuse(route, envelope.name, envelope.id, ErrorKind.BAD_REQUEST, str(misfit))
        else:
            if call:
                self._begin(call)

    def _admit(
        self, route: bytes, envelope: wire.Envelope, credentials: Credentials | None
    ) -> _Call | None:
        """Decide on a request: a call, a refusal, or None for one that came too late."""
        kind = self._peers(credentials.uid, credentials.pid) if credentials else None
        if credentials is None or kind is None:
            self._deny(envelope.name, kind, credentials)
            raise _RefusedError(ErrorKind.DENIED, "the sender is not known here")
        row, served = messages.BY_NAME.get(envelope.name), self._handlers.get(envelope.name)
        if row is not None and kind not in row.allowed:
            self._deny(row.name, kind, credentials)
            raise _RefusedError(ErrorKind.DENIED, f"not from {kind}")
        if row is None or served is None:
            raise _RefusedError(ErrorKind.UNKNOWN, f"no request {envelope.name[:64]!r} here")
        if envelope.deadline_ns <= self._clock():
            self._counters.requests_late += 1
            return None
        if envelope.schema != row.schema:
            text = f"version {envelope.schema} of {row.name}, spoken here is {row.schema}"
            raise _RefusedError(ErrorKind.BAD_REQUEST, text)
        body = schema.decode(row.body, envelope.body)
        if served.running >= served.limit:
            self._counters.requests_busy += 1
            raise _RefusedError(ErrorKind.BUSY, f"{served.running} are running already")
        caller = Caller(kind, credentials.uid, credentials.pid, envelope.deadline_ns)
        return _Call(route, served, envelope.id, body, caller)

    def _deny(self, name: str, kind: str | None, credentials: Credentials | None) -> None:
        self._counters.requests_denied += 1
        uid, pid = (credentials.uid, credentials.pid) if credentials else (None, None)
        self._denied(request=name[:64], sender=kind or "unknown", uid=uid, peer_pid=pid)

    def _begin(self, call: _Call) -> None:
        running = self._run(call)
        call.served.running += 1
        try:
            self._spawn(running)
        except RuntimeError:  # a task group that is ending takes no more tasks
            running.close()
            call.served.running -= 1
            self._fail(call, ErrorKind.FAILED, "the process is stopping")

    async def _run(self, call: _Call) -> None:
        """Run a handler and answer; what it did not expect is answered and then raised."""
        row = call.served.row
        try:
            reply = await call.served.handler(call.body, call.caller)
            if not isinstance(reply, row.reply):
                raise TypeError(f"the handler of {row.name} returned {type(reply).__name__}")
            frame = wire.encode(wire.Envelope(row.schema, wire.REPLY, row.name, call.id, 0, reply))
            if len(frame) > wire.MAX_FRAME:
                raise HandlerError(f"the reply has {len(frame)} bytes, allowed is {wire.MAX_FRAME}")
            self._reply(call, frame)
        except HandlerError as error:
            self._fail(call, error.kind, error.text)
        except Exception as error:
            self._fail(call, ErrorKind.FAILED, f"{type(error).__name__}: {error}")
            raise
        finally:
            call.served.running -= 1

    def _fail(self, call: _Call, kind: ErrorKind, text: str) -> None:
        self._counters.requests_failed += 1
        self._reply(call, wire.encode_error(call.served.row.name, call.id, kind, text))

    def _reply(self, call: _Call, frame: bytes) -> None:
        if call.caller.deadline_ns <= self._clock():
            self._counters.replies_late += 1
        else:
            self._send(call.route, frame)

    def _refuse(self, route: bytes, name: str, id_: int, kind: ErrorKind, text: str) -> None:
        self._send(route, wire.encode_error(name, id_, kind, text))

    def _send(self, route: bytes, frame: bytes) -> None:
        if self._socket.raw.closed or self._socket.send([route, frame]) is not sockets.Sent.OK:
            self._counters.replies_undelivered += 1
        else:
            self._counters.replies_sent += 1


def _credentials(frame: zmq.Frame) -> Credentials | None:
    """Read what the kernel said when the peer connected; no message can set it.

    Peers of protocol versions before 3 carry no properties; nobody here speaks those.
    """
    try:
        return parse_address(str(frame.get("Peer-Address")))
    except zmq.ZMQError:
        return None


def _peer_text(frame: zmq.Frame) -> str:
    credentials = _credentials(frame)
    return f"uid {credentials.uid} pid {credentials.pid}" if credentials else "unknown"
