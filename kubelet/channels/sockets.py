"""ZeroMQ sockets on the asyncio loop, without ``zmq.asyncio`` and its price per message.

A ZeroMQ socket's descriptor tells of *changes* only, and any send or receive may swallow the
news. So a socket is read until it is empty (in batches, so that a busy one cannot starve the
loop), and looked at again after each send. There is one reader callback per socket and no
awaited receive that could be cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import errno
import os
import socket as stdlib_socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zmq

from kubelet import logging as klog
from kubelet.channels.counters import Counters

log = klog.get_logger(__name__)

Socket = zmq.Socket[bytes]
Context = zmq.Context[zmq.Socket[bytes]]

HIGH_WATER: Final = 1000  # messages, per direction and connection
MAX_MESSAGE: Final = 16 << 20  # libzmq closes a connection that announces more
RECONNECT_MS: Final = 20
RECONNECT_MAX_MS: Final = 200
HANDSHAKE_MS: Final = 3000  # a connection that has said nothing by then is closed
BACKLOG: Final = 128
BATCH: Final = 64  # messages handled before the loop gets its turn

# As plain integers: arithmetic on the enums costs more than the system calls it is for.
DONTWAIT: Final = int(zmq.DONTWAIT)
_READABLE: Final = int(zmq.POLLIN)
_WRITABLE: Final = int(zmq.POLLOUT)
_EVENTS: Final = int(zmq.EVENTS)

_EVENT: Final = struct.Struct("=Hi")


@dataclass(frozen=True, slots=True)
class Ground:
    """What all sockets of a process share."""

    context: Context
    counters: Counters
    clock: Callable[[], int]  # monotonic nanoseconds
    bug: Callable[[BaseException], None]  # ends the process


class Sent(enum.Enum):
    """What became of a message given to a socket."""

    OK = "ok"
    FULL = "full"  # no connection, or its queue is full
    GONE = "gone"  # the peer it was for is not connected any more


def make(context: Context, kind: zmq.SocketType) -> Socket:
    """Make a socket with the limits that all of them share."""
    socket = context.socket(kind)
    socket.set(zmq.LINGER, 0)
    socket.set(zmq.SNDHWM, HIGH_WATER)
    socket.set(zmq.RCVHWM, HIGH_WATER)
    socket.set(zmq.MAXMSGSIZE, MAX_MESSAGE)
    socket.set(zmq.RECONNECT_IVL, RECONNECT_MS)
    socket.set(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
    socket.set(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    return socket


def connect(socket: Socket, path: Path) -> None:
    """Connect now or, if nobody listens there yet, as soon as somebody does."""
    socket.connect(f"ipc://{path}")


def bind(socket: Socket, path: Path) -> None:
    """Listen at a path, replacing what a predecessor left there.

    The listening socket is made here and handed to libzmq, for two reasons: its name appears only
    when it is ready, and libzmq, which would remove the file on close, leaves it alone. A slow
    predecessor that closes after its successor has bound must not take the successor's name away.
    """
    listener = stdlib_socket.socket(stdlib_socket.AF_UNIX, stdlib_socket.SOCK_STREAM)
    try:
        # Shorter than the name itself, which has been checked against the kernel's limit.
        unready = path.with_name(path.name[0] + ".new")
        with contextlib.suppress(FileNotFoundError):
            unready.unlink()
        before = os.umask(0o007)
        try:
            listener.bind(str(unready))
        finally:
            os.umask(before)
        _share(unready)
        listener.listen(BACKLOG)
        listener.setblocking(False)
        unready.rename(path)
    except BaseException:
        listener.close()
        raise
    socket.set(zmq.USE_FD, listener.detach())  # closed with the ZeroMQ socket from here on
    socket.bind(f"ipc://{path}")


def _share(path: Path) -> None:
    """Give the socket to its directory's group, through which kinds without root reach it."""
    group = path.parent.stat().st_gid
    if path.stat().st_gid == group:
        return
    try:
        os.chown(path, -1, group)
    except PermissionError as error:
        log.warning("Socket keeps the group of its process", path=path, wanted=group, err=error)


class LoopSocket:
    """A socket whose messages are handed over by callbacks on the running loop.

    ``take`` receives and handles one message; it is called only while there is one.
    ``writable`` is called when there is room again after ``send`` said FULL.
    ``bug`` gets any other exception of these two.
    """

    def __init__(
        self,
        socket: Socket,
        take: Callable[[Socket], None],
        bug: Callable[[BaseException], None],
        writable: Callable[[], None] | None = None,
    ) -> None:
        self._socket = socket
        self._take = take
        self._bug = bug
        self._writable = writable
        self._wants_room = False
        self._pumping = False
        self._next: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()
        self._fd = int(socket.get(zmq.FD))
        self._loop.add_reader(self._fd, self._pump)
        self._schedule()  # what happened before the reader was added gives no edge any more

    @property
    def raw(self) -> Socket:
        """The socket itself, for options."""
        return self._socket

    def send(self, parts: Sequence[bytes]) -> Sent:
        """Send without blocking."""
        try:
            if len(parts) == 1:
                self._socket.send(parts[0], DONTWAIT)
            else:
                self._socket.send_multipart(parts, DONTWAIT)
        except zmq.Again:
            self._wants_room = True
            return Sent.FULL
        except zmq.ZMQError as error:
            if error.errno != errno.EHOSTUNREACH:
                raise
            return Sent.GONE
        finally:
            self._look_again()
        return Sent.OK

    def drain(self) -> None:
        """Handle at once what has arrived, up to a full queue of it."""
        if not self._pumping and not self._socket.closed:
            self._receive(2 * HIGH_WATER)

    def close(self) -> None:
        """Leave the loop and close the socket."""
        if self._socket.closed:
            return
        self._loop.remove_reader(self._fd)
        if self._next:
            self._next.cancel()
        self._socket.close(linger=0)

    def _events(self) -> int:
        events: int = self._socket.getsockopt(_EVENTS)  # type: ignore[assignment]
        return events

    def _schedule(self) -> None:
        if self._next is None:
            self._next = self._loop.call_soon(self._pump)

    def _look_again(self) -> None:
        """A send may have swallowed the descriptor's news of an arrival or of room."""
        if self._pumping or self._next:
            return
        events = self._events()
        if events & _READABLE or (self._wants_room and events & _WRITABLE):
            self._schedule()

    def _pump(self) -> None:
        if self._next:
            self._next.cancel()
            self._next = None
        if self._socket.closed or self._pumping:
            return
        if not self._receive(BATCH):
            self._schedule()
        if self._socket.closed:  # by what was received
            return
        if self._wants_room and self._events() & _WRITABLE:
            self._wants_room = False
            self._guard(self._writable)
        self._look_again()

    def _receive(self, limit: int) -> bool:
        """Take up to ``limit`` messages; True when the socket was read empty."""
        self._pumping = True
        try:
            for _ in range(limit):
                if self._socket.closed or not self._events() & _READABLE:
                    return True
                self._take(self._socket)
        except Exception as error:  # noqa: BLE001 - handed on: a bug must end the process
            self._bug(error)
        finally:
            self._pumping = False
        return False

    def _guard(self, callback: Callable[[], None] | None) -> None:
        try:
            if callback:
                callback()
        except Exception as error:  # noqa: BLE001 - as above
            self._bug(error)


class Monitor:
    """The events of a socket's connections, as callbacks on the running loop."""

    _serial = 0

    def __init__(
        self,
        ground: Ground,
        watched: Socket,
        events: int,
        on_event: Callable[[int, int], None],
    ) -> None:
        Monitor._serial += 1
        address = f"inproc://monitor-{Monitor._serial}"
        watched.monitor(address, events)
        self._watched = watched
        self._on_event = on_event
        pair = ground.context.socket(zmq.PAIR)
        pair.set(zmq.LINGER, 0)
        pair.connect(address)
        self._pair = LoopSocket(pair, self._take, ground.bug)

    def _take(self, socket: Socket) -> None:
        parts = socket.recv_multipart(DONTWAIT)
        event, value = _EVENT.unpack(parts[0])
        self._on_event(event, value)

    def drain(self) -> None:
        """Handle at once what has happened."""
        self._pair.drain()

    def close(self) -> None:
        """Stop watching; called before the watched socket is closed."""
        if not self._watched.closed:
            self._watched.monitor(None, 0)
        self._pair.close()


class Strangers:
    """Counts the connections of a bound socket that never spoke the protocol.

    libzmq reports some of them as failed handshakes, others as connections that just ended; and
    a finished handshake does not say which connection it was. What is certain: each connection
    accepted that has neither finished its handshake, nor is still within the time for it, failed.
    """

    EVENTS: Final = zmq.EVENT_ACCEPTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED

    def __init__(self, clock: Callable[[], int], on_stranger: Callable[[], None]) -> None:
        self._clock = clock
        self._on_stranger = on_stranger
        self._accepted = 0
        self._proven = 0
        self._open: dict[int, int] = {}  # descriptor: accepted at
        self.count = 0

    def event(self, event: int, value: int) -> None:
        """Take one event of the socket's monitor."""
        if event == zmq.EVENT_ACCEPTED:
            self._accepted += 1
            self._open[value] = self._clock()
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._proven += 1
        else:
            self._open.pop(value, None)
        self.settle()

    def settle(self) -> int:
        """Count what is certain by now."""
        since = self._clock() - 2 * HANDSHAKE_MS * 1_000_000
        young = sum(1 for accepted in self._open.values() if accepted > since)
        while self.count < self._accepted - self._proven - young:
            self.count += 1
            self._on_stranger()
        return self.count
