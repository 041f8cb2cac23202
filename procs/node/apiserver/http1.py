"""HTTP/1.1 on one connection: one request after the other, each with its answer."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Protocol

import httptools

from procs.node.apiserver import words
from procs.node.apiserver.link import Link
from procs.node.apiserver.types import Response

MAX_BODY: Final = 64 << 20
_MAX_HEAD: Final = 1 << 20
_AHEAD: Final = 1 << 20  # bytes of a stream that may wait to be taken

_GZIP: Final = 16 + zlib.MAX_WBITS


class BrokenError(Exception):
    """An exchange that did not end as it should; ``begun``: something of an answer had come."""

    def __init__(self, message: str, *, begun: bool) -> None:
        super().__init__(message)
        self.begun = begun


class Receiver(Protocol):
    """Takes an answer as it comes."""

    def head(self, status: int, headers: dict[str, str]) -> None:
        """Take its beginning; ValueError if it cannot be taken."""

    def piece(self, data: bytes) -> None:
        """Take some of its body; ValueError if it cannot be taken."""

    def end(self) -> None:
        """Take that it is complete."""

    def fail(self, error: BrokenError) -> None:
        """Take that it will not be."""


class Whole:
    """An answer that is wanted as a whole."""

    def __init__(self) -> None:
        self.done: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._status = 0
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._size = 0

    def head(self, status: int, headers: dict[str, str]) -> None:
        """Take the beginning."""
        self._status, self._headers = status, headers
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > MAX_BODY:
            raise ValueError(f"is larger than {MAX_BODY} bytes")

    def piece(self, data: bytes) -> None:
        """Take some of the body."""
        self._size += len(data)
        if self._size > MAX_BODY:
            raise ValueError(f"is larger than {MAX_BODY} bytes")
        self._pieces.append(data)

    def end(self) -> None:
        """Give the answer to who waits."""
        body = b"".join(self._pieces)
        if self._headers.get("content-encoding") == "gzip":
            body = _unzip(body)
        if not self.done.done():
            self.done.set_result(Response(self._status, self._headers, body))

    def fail(self, error: BrokenError) -> None:
        """Give the failure to who waits."""
        if not self.done.done():
            self.done.set_exception(error)


def _unzip(data: bytes) -> bytes:
    """Decompress, but no bomb."""
    machine = zlib.decompressobj(_GZIP)
    try:
        body = machine.decompress(data, MAX_BODY)
    except zlib.error:
        raise ValueError("is not the gzip that it says it is") from None
    if machine.unconsumed_tail:
        raise ValueError(f"is larger than {MAX_BODY} bytes")
    if not machine.eof:
        raise ValueError("ends in the middle of its gzip")
    return body


class Flow:
    """An answer that is taken piece by piece while it comes."""

    def __init__(self, link: Link) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._link = link
        self._pieces: deque[bytes] = deque()
        self._waiting = 0  # bytes
        self._paused = False
        self._more: asyncio.Future[None] | None = None
        self._over = False
        self._error: BrokenError | None = None

    def head(self, status: int, headers: dict[str, str]) -> None:
        """Take the beginning."""
        self.status, self.headers = status, headers
        if not self.begun.done():
            self.begun.set_result(None)

    def piece(self, data: bytes) -> None:
        """Take some of the body; the server waits if too much of it does."""
        self._pieces.append(data)
        self._waiting += len(data)
        if self._waiting > _AHEAD and not self._paused:
            self._paused = True
            self._link.pause()
        self._wake()

    def end(self) -> None:
        """Take that it is complete."""
        self._over = True
        self._wake()

    def fail(self, error: BrokenError) -> None:
        """Take that it will not be."""
        self._over, self._error = True, error
        if not self.begun.done():
            self.begun.set_exception(error)
        self._wake()

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Go through the body; BrokenError where it breaks off, after all that came."""
        while True:
            while self._pieces:
                data = self._pieces.popleft()
                self._waiting -= len(data)
                if self._paused and not self._pieces:
                    self._paused = False
                    self._link.resume()
                yield data
            if self._over:
                if self._error is not None:
                    raise self._error
                return
            self._more = asyncio.get_running_loop().create_future()
            await self._more


class Http1:
    """One connection. It is closed as soon as it cannot carry another request."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.used = 0  # requests that it has carried
        self.heard = 0  # how often something came
        self.generation = 0  # of the credentials that it was made with
        self.idle_ns = 0  # since when nobody uses it
        self._parser = httptools.HttpResponseParser(self)
        self._receiver: Receiver | None = None
        self._status = 0
        self._headers: dict[str, str] = {}
        self._head_bytes = 0
        self._begun = self._headed = self._framed = False
        link.use(self._received, self._lost)

    @property
    def closed(self) -> bool:
        """Whether no request can go this way any more."""
        return self.link.closed

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return self._receiver is not None

    def close(self, reason: str = "") -> None:
        """Close; who waits for an answer is told."""
        self.link.close(ConnectionAbortedError(reason) if reason else None)

    def send(self, data: bytes, receiver: Receiver) -> None:
        """Send a request; its answer goes to the receiver. BrokenError if nothing was sent."""
        assert self._receiver is None
        if self.closed:
            raise BrokenError("the connection is closed", begun=False)
        self.used += 1
        self._receiver = receiver
        self._begun = self._headed = self._framed = False
        self._head_bytes = 0
        self.link.write(data)

    async def exchange(self, data: bytes) -> Response:
        """Send a request and return its answer; the connection is closed if that is given up."""
        whole = Whole()
        self.send(data, whole)
        try:
            return await whole.done
        finally:
            if self._receiver is whole:
                self._receiver = None
                self.close()

    # What the link tells.

    def _received(self, data: memoryview | bytes) -> None:
        if self._receiver is None:
            self.close()  # nobody asked for anything
            return
        self._begun = True
        self.heard += 1
        if not self._headed:
            self._head_bytes += len(data)
            if self._head_bytes - len(data) > _MAX_HEAD:
                self._fail(f"has a head larger than {_MAX_HEAD} bytes")
                return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as err:
            cause = err.__context__
            if not isinstance(cause, ValueError):
                raise
            self._fail(str(cause))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail("is not HTTP")

    def _fail(self, problem: str) -> None:
        self._end(BrokenError(f"the answer {problem}", begun=True))

    def _end(self, error: BrokenError) -> None:
        receiver, self._receiver = self._receiver, None
        self.close()
        if receiver is not None:
            receiver.fail(error)

    def _lost(self, error: Exception | None) -> None:
        if self._receiver is None:
            return
        if self._headed and not self._framed and error is None:
            self._complete()  # a body that lasts until the connection is closed
        elif self._begun:
            self._end(BrokenError("the answer ended in the middle" + _why(error), begun=True))
        else:
            reason = "the connection was closed before an answer came" + _why(error)
            self._end(BrokenError(reason, begun=False))

    def _complete(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            try:
                receiver.end()
            except ValueError as err:
                self.close()
                receiver.fail(BrokenError(f"the answer {err}", begun=True))

    # What the parser tells.

    def on_message_begin(self) -> None:
        """Begin an answer; one that nobody asked for must not be taken for the next one's."""
        self._headers = {}
        if self._receiver is None:
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; of one that comes twice, the last."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Pass on the head, but for "continue" and such."""
        status = self._parser.get_status_code()
        if status < 200 or self._receiver is None:
            return
        self._headed = True
        headers = self._headers
        self._framed = "content-length" in headers or "transfer-encoding" in headers
        self._receiver.head(status, headers)

    def on_body(self, data: bytes) -> None:
        """Pass on some of the body."""
        if self._receiver is not None:
            self._receiver.piece(data)

    def on_message_complete(self) -> None:
        """End an answer."""
        if not self._headed or self._receiver is None:
            return
        keep = self._parser.should_keep_alive()
        self._complete()
        if not keep:
            self.close()


def _why(error: Exception | None) -> str:
    if error is None:
        return ""
    if isinstance(error, ssl.SSLError):
        from datetime import UTC, datetime  # only where something is wrong

        return f": {words.of_tls(error, 'its CA', 'it', None, datetime.now(UTC))}"
    if isinstance(error, ConnectionAbortedError):
        return f": {error}"  # of our own
    if isinstance(error, ConnectionError):
        return ""  # that it was closed is said already
    return f": {words.of_socket(error)}" if isinstance(error, OSError) else f": {error}"
