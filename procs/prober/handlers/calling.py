"""One HTTP/2 exchange over a socket of its own: callbacks on the loop and a single future.

A server that cannot be reached, or does not speak HTTP/2 yet, is tried again until the time is
over, each time after a longer pause, as gRPC's own clients do; whoever has begun to speak has had
its chance. When the time is over although the loop was late, the server gets the time back that
the loop has taken from it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from procs.prober.handlers.http2 import Exchange, Http2Error

_READ: Final = 65536
_PAUSE: Final = 1.0  # seconds before the second attempt
_PAUSE_FACTOR: Final = 1.6
_JITTER: Final = (0.8, 1.2)
_NOTICED: Final = 0.005  # seconds that a timer may be late before anybody owes anything
_ALPN: Final = "h2"
# What this process or node has run out of says nothing of a server.
OWN_FAULTS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL}
)


class ConnectionBrokenError(Exception):
    """The connection ended before the answer; its text says how."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an exchange ended: with an answer, with an error, or (neither) with its time."""

    exchange: Exchange
    error: Exception | None
    late_ns: int

    @property
    def timed_out(self) -> bool:
        """Whether the time was over before anything else happened."""
        return self.error is None and not self.exchange.ended


@dataclass(frozen=True, slots=True)
class Target:
    """Where an exchange takes place; ``patient``: it is worth trying again."""

    address: str
    port: int
    tls: bool = False
    patient: bool = True

    @property
    def authority(self) -> str:
        """Address and port in one."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


class Call:
    """One request to one server."""

    __slots__ = (
        "_again",
        "_deadline",
        "_ended",
        "_exchange",
        "_late",
        "_loop",
        "_make",
        "_pause",
        "_reading",
        "_refused",
        "_request",
        "_seconds",
        "_socket",
        "_target",
        "_timer",
        "_tls",
        "_unsent",
        "_writing",
    )

    def __init__(self, target: Target, request: bytes, make: Callable[[], Exchange]) -> None:
        self._target = target
        self._request = request
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Ended] = self._loop.create_future()
        self._again: asyncio.TimerHandle | None = None
        self._socket: socket.socket | None = None
        self._tls: _Tls | None = None
        self._reading = self._writing = self._refused = False
        self._unsent = b""
        self._pause = _PAUSE
        self._late = 0.0

    async def run(self, seconds: float) -> Ended:
        """Have the exchange, within some seconds."""
        self._seconds = seconds
        self._deadline = self._loop.time() + seconds
        self._timer = self._loop.call_at(self._deadline, self._expire)
        try:
            self._attempt()
            return await self._ended
        finally:
            self._timer.cancel()
            if self._again is not None:
                self._again.cancel()
            self._close()

    # One attempt.

    def _attempt(self) -> None:
        self._again = None
        self._exchange = self._make()
        target = self._target
        family = socket.AF_INET6 if ":" in target.address else socket.AF_INET
        try:
            self._socket = made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = made.connect_ex((target.address, target.port))
            if code not in {0, errno.EINPROGRESS}:
                raise OSError(code, os.strerror(code))
            self._tls = _Tls() if target.tls else None
            # A server on this node has mostly taken the connection by now: then this is sent at
            # once. One that has not is waited for.
            self._send(self._tls.begin(self._request) if self._tls else self._request)
            if not self._writing:
                self._listen()
        except (OSError, ssl.SSLError) as err:
            self._failed(err)

    def _send(self, data: bytes) -> None:
        self._unsent += data
        if self._writing or not self._unsent:
            return
        assert self._socket is not None
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            sent = 0
        self._unsent = self._unsent[sent:]
        if self._unsent:
            self._writing = True
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _listen(self) -> None:
        assert self._socket is not None
        self._reading = True
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def _writable(self) -> None:
        assert self._socket is not None
        self._loop.remove_writer(self._socket.fileno())
        self._writing = False
        try:
            self._send(b"")
            if not self._reading:
                self._listen()
        except OSError as err:
            self._failed(err)

    def _readable(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(_READ)
            if not data:
                raise ConnectionBrokenError("EOF")
            answer = self._take(data)
            if self._exchange.ended:
                self._end(None)
            elif answer:
                self._send(answer)
        except BlockingIOError:
            return
        except (OSError, ssl.SSLError, Http2Error, ConnectionBrokenError) as err:
            self._failed(err)

    def _take(self, data: bytes) -> bytes:
        """Hand over what came, and return what is to be sent for it."""
        if self._tls is None:
            return self._exchange.receive(data)
        plain = self._tls.take(data)
        if plain:
            self._tls.put(self._exchange.receive(plain))
        return self._tls.sealed()

    def _failed(self, err: Exception) -> None:
        """Give up, or try again: what the server did not look at, and what was no server yet."""
        exchange = self._exchange
        if isinstance(err, OSError) and err.errno in OWN_FAULTS:
            self._end(err)
            return
        unseen = exchange.unprocessed and not self._refused
        if not self._target.patient or (exchange.settled and not unseen):
            self._end(self._worded(err) if isinstance(err, OSError) else err)
            return
        self._close()
        self._refused = self._refused or unseen
        pause = 0.0
        if not unseen:
            pause = self._pause * random.uniform(*_JITTER)  # noqa: S311 - it only spreads load
            self._pause *= _PAUSE_FACTOR
        self._again = self._loop.call_later(pause, self._attempt)

    def _worded(self, err: OSError) -> ConnectionBrokenError:
        """Say what the kernel said, and between whom."""
        what = os.strerror(err.errno).lower() if err.errno else str(err)
        if not self._reading or self._socket is None:
            return ConnectionBrokenError(f"dial tcp {self._target.authority}: connect: {what}")
        host, port = self._socket.getsockname()[:2]
        own = Target(host, port).authority
        return ConnectionBrokenError(f"read tcp {own}->{self._target.authority}: read: {what}")

    # The end.

    def _expire(self) -> None:
        """The time is over; what has come before anybody looked still counts."""
        late = max(0.0, self._loop.time() - self._deadline)
        if self._reading:
            self._readable()
        if self._ended.done():
            return
        if late > _NOTICED and self._late < self._seconds:
            self._late += late
            self._deadline = self._loop.time() + min(late, self._seconds)
            self._timer = self._loop.call_at(self._deadline, self._expire)
            return
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._ended.done():
            return
        late = self._late + max(0.0, self._loop.time() - self._deadline)
        late_ns = int(late * 1e9) if late > _NOTICED else 0
        self._ended.set_result(Ended(self._exchange, error, late_ns))
        self._close()

    def _close(self) -> None:
        if self._socket is None:
            return
        number = self._socket.fileno()
        if self._reading:
            self._loop.remove_reader(number)
        if self._writing:
            self._loop.remove_writer(number)
        self._reading = self._writing = False
        self._unsent = b""
        self._socket.close()
        self._socket = None


class _Tls:
    """TLS without verification, as bytes in and bytes out."""

    def __init__(self) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = _context().wrap_bio(self._in, self._out, server_side=False)
        self._waiting = b""  # what is to be said once there is a connection
        self._shaken = False

    def begin(self, request: bytes) -> bytes:
        """Return the first bytes of a handshake, after which a request will follow."""
        self._waiting = request
        self._shake()
        return self.sealed()

    def take(self, data: bytes) -> bytes:
        """Take what came; what of it is for us is returned."""
        self._in.write(data)
        if not self._shaken:
            self._shake()
        plain = b""
        while self._shaken:
            try:
                piece = self._object.read(_READ)
            except ssl.SSLWantReadError:
                break
            if not piece:
                break
            plain += piece
        return plain

    def put(self, data: bytes) -> None:
        """Have something sent."""
        if data:
            self._object.write(data)

    def sealed(self) -> bytes:
        """Return what is to be sent by now."""
        return self._out.read()

    def _shake(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return
        if self._object.selected_alpn_protocol() != _ALPN:
            raise ConnectionBrokenError("the server did not choose HTTP/2 in its handshake")
        self._shaken = True
        self._object.write(self._waiting)


@cache
def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([_ALPN])
    return context
