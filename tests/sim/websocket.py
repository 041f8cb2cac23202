"""WebSocket as exec and attach use it: binary frames whose first byte is the channel."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import struct

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
CHANNELS = {"stdin": 0, "stdout": 1, "stderr": 2, "error": 3, "resize": 4}
CLOSE_CHANNEL = 255  # v5: the next byte names a channel that ends
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10


def accept(key: str) -> str:
    """The answer to a client's key."""
    return base64.b64encode(hashlib.sha1((key + _GUID).encode()).digest()).decode()


class Socket:
    """The server's side of a WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.stdin: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(self) -> None:
        """Read frames until the other side goes."""
        try:
            while True:
                opcode, body = await self._read()
                if opcode == _CLOSE:
                    return
                if opcode == _PING:
                    await self._send(_PONG, body)
                elif body[:1] == bytes([CHANNELS["stdin"]]) and len(body) > 1:
                    self.stdin.put_nowait(body[1:])
                elif body == bytes([CLOSE_CHANNEL, CHANNELS["stdin"]]):
                    self.stdin.put_nowait(b"")
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.stdin.put_nowait(b"")

    async def _read(self) -> tuple[int, bytes]:
        first, second = await self._reader.readexactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", await self._reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self._reader.readexactly(8))
        mask = await self._reader.readexactly(4) if second & 0x80 else b"\0\0\0\0"
        body = await self._reader.readexactly(length)
        return first & 0x0F, bytes(b ^ mask[i % 4] for i, b in enumerate(body))

    async def _send(self, opcode: int, body: bytes) -> None:
        head = bytes([0x80 | opcode])
        if len(body) < 126:
            head += bytes([len(body)])
        elif len(body) < 1 << 16:
            head += struct.pack("!BH", 126, len(body))
        else:
            head += struct.pack("!BQ", 127, len(body))
        self._writer.write(head + body)
        await self._writer.drain()

    async def write(self, channel: str, data: bytes) -> None:
        """Send bytes on a channel."""
        await self._send(_BINARY, bytes([CHANNELS[channel]]) + data)

    async def close(self) -> None:
        """Say goodbye."""
        await self._send(_CLOSE, struct.pack("!H", 1000))
