"""A connection as a pipe of plain bytes, whatever encryption is around them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

from procs.node.apiserver.tls import Tls

# Shared by all connections: what is read into it is used before anybody reads again.
_buffer: Final = memoryview(bytearray(1 << 18))

_PEEK: Final = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)

Sink = Callable[[memoryview | bytes], None]
Lost = Callable[[Exception | None], None]


class Link(asyncio.BufferedProtocol):
    """Bytes to and from a server. What comes goes to the ``sink``; the end goes to ``lost``."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self._layers: list[Tls] = []  # the outermost first
        self._starting: asyncio.Future[None] | None = None  # a handshake under way
        self._sink: Sink | None = None
        self._lost: Lost | None = None
        self._early = b""  # came before somebody wanted it
        self._error: Exception | None = None
        self.closed = False

    def use(self, sink: Sink, lost: Lost) -> None:
        """Say who takes what comes, and who is told of the end; both at once if they were late."""
        self._sink, self._lost = sink, lost
        early, self._early = self._early, b""
        if early:
            sink(early)
        if self.closed:
            lost(self._error)

    def write(self, data: bytes) -> None:
        """Send bytes; nothing happens on a closed connection, whose end was told."""
        if self._transport is None or self.closed:
            return
        for layer in reversed(self._layers):
            data = layer.seal(data)
        self._transport.write(data)

    async def secure(self, context: ssl.SSLContext, name: str) -> Tls:
        """Encrypt from now on; raises ssl.SSLError or OSError."""
        self._sink = None
        layer = Tls(context, name)
        self._starting = asyncio.get_running_loop().create_future()
        hello = layer.handshake()
        self.write(hello)
        self._layers.append(layer)
        if self.closed:
            raise self._error or ConnectionResetError("closed")
        try:
            await self._starting
        finally:
            self._starting = None
        return layer

    def pause(self) -> None:
        """Read no more for now."""
        if self._transport is not None and not self.closed:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on reading."""
        if self._transport is not None and not self.closed:
            self._transport.resume_reading()

    def quiet(self) -> bool:
        """Whether the connection is open and nothing has come that was not read yet.

        The loop may not have got to an end that has already come.
        """
        if self.closed or self._socket is None:
            return False
        try:
            self._socket.recv(1, _PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self, error: Exception | None = None) -> None:
        """Close at once; what was not sent is lost."""
        if self.closed:
            return
        self.closed = True
        self._error = error
        if self._transport is not None:
            self._transport.abort()
        if self._starting is not None and not self._starting.done():
            self._starting.set_exception(error or ConnectionResetError("closed by the server"))
        if self._lost is not None:
            self._lost(error)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def on_socket(self, sock: socket.socket) -> None:
        """Take the socket, to look at what has come."""
        self._socket = sock

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return where to read to."""
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read."""
        try:
            self._through(0, _buffer[:nbytes])
        except ssl.SSLError as err:
            if self._layers:
                self._send_below(len(self._layers) - 1, self._layers[-1].alert())
            self.close(err)

    def eof_received(self) -> bool:
        """End: nobody here answers a half-closed connection."""
        self.close()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.close(exc)

    # Through the layers.

    def _through(self, depth: int, data: memoryview | bytes) -> None:
        if self.closed:
            return
        if depth == len(self._layers):
            self._arrived(data)
            return
        layer = self._layers[depth]
        layer.take(data)
        if not layer.established:
            self._shake(layer, depth)
        if not layer.established:
            return
        layer.plain(lambda plain: self._through(depth + 1, plain))
        if answer := layer.answers():
            self._send_below(depth, answer)
        if layer.closed:
            self.close()

    def _shake(self, layer: Tls, depth: int) -> None:
        if answer := layer.handshake():
            self._send_below(depth, answer)
        if layer.established and self._starting is not None and not self._starting.done():
            self._starting.set_result(None)

    def _send_below(self, depth: int, data: bytes) -> None:
        for layer in reversed(self._layers[:depth]):
            data = layer.seal(data)
        if self._transport is not None and not self.closed:
            self._transport.write(data)

    def _arrived(self, data: memoryview | bytes) -> None:
        if self._sink is None:
            self._early += bytes(data)
        else:
            self._sink(data)
