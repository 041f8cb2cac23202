"""SPDY/3.1 as exec, attach and port-forward use it: streams with headers over one connection."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Callable

_NAMES = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
]
_PAIRS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 "
    "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
    "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
# The dictionary that the protocol fixes for the compression of headers.
DICTIONARY = (
    b"".join(struct.pack("!I", len(word)) + word.encode() for word in (*_NAMES, *_PAIRS))
    + _TAIL.encode()
)
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_LARGEST = 1 << 15  # of a data frame


class Stream:
    """One stream of a connection: bytes in a queue, empty at the end, and bytes out."""

    def __init__(self, connection: Connection, number: int, headers: dict[str, str]) -> None:
        self._connection = connection
        self.number = number
        self.headers = headers
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._closed = False

    @property
    def kind(self) -> str:
        """What the other side made it for: error, stdin, stdout, stderr, resize, data."""
        return self.headers.get("streamtype", "")

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        for start in range(0, len(data), _LARGEST):
            await self._connection.send_data(self.number, data[start : start + _LARGEST], 0)

    async def close(self) -> None:
        """Send the end."""
        if not self._closed:
            self._closed = True
            await self._connection.send_data(self.number, b"", _FIN)


class Connection:
    """The server's side of a connection that was upgraded."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_stream: Callable[[Stream], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_stream = on_stream
        self.streams: dict[int, Stream] = {}
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    async def serve(self) -> None:
        """Read frames until the other side goes."""
        try:
            while True:
                first, second = struct.unpack("!II", await self._reader.readexactly(8))
                flags, length = second >> 24, second & 0xFFFFFF
                body = await self._reader.readexactly(length)
                if first & 0x80000000:
                    if not await self._control(first & 0xFFFF, flags, body):
                        return
                else:
                    self._data(first, flags, body)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            for stream in self.streams.values():
                stream.incoming.put_nowait(b"")

    async def _control(self, kind: int, flags: int, body: bytes) -> bool:
        if kind == _SYN_STREAM:
            number = struct.unpack("!I", body[:4])[0] & 0x7FFFFFFF
            stream = Stream(self, number, self._headers(body[10:]))
            self.streams[number] = stream
            await self._reply(number)
            if flags & _FIN:
                stream.incoming.put_nowait(b"")
            self._on_stream(stream)
        elif kind == _PING:
            await self._frame(_PING, 0, body)
        elif kind == _RST_STREAM:
            number = struct.unpack("!I", body[:4])[0] & 0x7FFFFFFF
            if number in self.streams:
                self.streams.pop(number).incoming.put_nowait(b"")
        return kind != _GOAWAY

    def _data(self, number: int, flags: int, body: bytes) -> None:
        stream = self.streams.get(number & 0x7FFFFFFF)
        if stream is None:
            return
        if body:
            stream.incoming.put_nowait(body)
        if flags & _FIN:
            stream.incoming.put_nowait(b"")

    def _headers(self, block: bytes) -> dict[str, str]:
        data = self._inflate.decompress(block)
        (count,) = struct.unpack_from("!I", data)
        at, headers = 4, {}
        for _ in range(count):
            pair = []
            for _part in range(2):
                (length,) = struct.unpack_from("!I", data, at)
                pair.append(data[at + 4 : at + 4 + length].decode())
                at += 4 + length
            headers[pair[0].lower()] = pair[1]
        return headers

    async def _reply(self, number: int) -> None:
        block = self._deflate.compress(struct.pack("!I", 0)) + self._deflate.flush(
            zlib.Z_SYNC_FLUSH
        )
        await self._frame(_SYN_REPLY, 0, struct.pack("!I", number) + block)

    async def _frame(self, kind: int, flags: int, body: bytes) -> None:
        self._writer.write(struct.pack("!HHI", 0x8003, kind, flags << 24 | len(body)) + body)
        await self._writer.drain()

    async def send_data(self, number: int, data: bytes, flags: int) -> None:
        """Send a data frame."""
        self._writer.write(struct.pack("!II", number, flags << 24 | len(data)) + data)
        await self._writer.drain()
