"""Through a proxy to a server: CONNECT of HTTP, and SOCKS 5 (RFC 1928, 1929)."""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from typing import Final

from procs.node.apiserver.link import Link
from procs.node.apiserver.proxy import Proxy

_MAX_HEAD: Final = 1 << 16  # bytes of a proxy's answer

_VERSION: Final = 5
_NO_LOGIN, _LOGIN, _NONE = 0, 2, 0xFF
_CONNECT: Final = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_REPLIES: Final = {
    1: "it failed",
    2: "it is not allowed",
    3: "the network cannot be reached",
    4: "the host cannot be reached",
    5: "connection refused",
    6: "it took too long",
    7: "it cannot connect",
    8: "it does not know such addresses",
}


class TunnelError(Exception):
    """The proxy did not make the way; says why."""


async def through(link: Link, proxy: Proxy, host: str, port: int) -> None:
    """Have a proxy connect the link to a host; TunnelError."""
    reader = _Reader(link)
    if proxy.scheme == "socks5":
        await _socks(link, reader, proxy, host, port)
    else:
        await _connect(link, reader, proxy, host, port)
    if reader.kept:
        raise TunnelError("it sent more than it was asked for")


class _Reader:
    """What a proxy answers, read by count or up to a mark."""

    def __init__(self, link: Link) -> None:
        self.kept = b""
        self._more = asyncio.Event()
        self._ended = False
        link.use(self._take, self._lost)

    def _take(self, data: memoryview | bytes) -> None:
        self.kept += bytes(data)
        self._more.set()

    def _lost(self, _error: Exception | None) -> None:
        self._ended = True
        self._more.set()

    async def _wait(self) -> None:
        if self._ended:
            raise TunnelError("it closed the connection")
        if len(self.kept) > _MAX_HEAD:
            raise TunnelError("its answer is no answer of a proxy")
        self._more.clear()
        await self._more.wait()

    async def exactly(self, count: int) -> bytes:
        """Return so many bytes."""
        while len(self.kept) < count:
            await self._wait()
        found, self.kept = self.kept[:count], self.kept[count:]
        return found

    async def until(self, mark: bytes) -> bytes:
        """Return the bytes before a mark."""
        while mark not in self.kept:
            await self._wait()
        found, _, self.kept = self.kept.partition(mark)
        return found


async def _connect(link: Link, reader: _Reader, proxy: Proxy, host: str, port: int) -> None:
    name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {name} HTTP/1.1", f"Host: {name}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    link.write("\r\n".join([*lines, "", ""]).encode())
    first = (await reader.until(b"\r\n\r\n")).split(b"\r\n")[0].decode("latin-1")
    words = first.split(" ", 2)
    if not words[0].startswith("HTTP/1") or len(words) < 2:
        raise TunnelError("its answer is no answer of a proxy")
    if words[1] != "200":
        raise TunnelError(f"it answered {' '.join(words[1:])[:100]}")


async def _socks(link: Link, reader: _Reader, proxy: Proxy, host: str, port: int) -> None:
    offered = bytes([_NO_LOGIN] if proxy.user is None else [_NO_LOGIN, _LOGIN])
    link.write(bytes([_VERSION, len(offered)]) + offered)
    version, method = await reader.exactly(2)
    if version != _VERSION:
        raise TunnelError("it does not speak SOCKS 5")
    if method == _NONE or method not in offered:
        raise TunnelError("it wants another way to log in")
    if method == _LOGIN:
        user, password = (proxy.user or "").encode(), proxy.password.encode()
        if not 0 < len(user) < 256 or not 0 < len(password) < 256:
            raise TunnelError("it wants a user and a password of 1 to 255 bytes")
        link.write(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        if (await reader.exactly(2))[1] != 0:
            raise TunnelError("it does not accept user and password")
    link.write(bytes([_VERSION, _CONNECT, 0]) + _target(host) + struct.pack("!H", port))
    _, reply, _, kind = await reader.exactly(4)
    if reply != 0:
        raise TunnelError(_REPLIES.get(reply, f"reply {reply}"))
    length = {_IPV4: 4, _IPV6: 16}.get(kind) or (await reader.exactly(1))[0]
    await reader.exactly(length + 2)


def _target(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("idna")
        return bytes([_NAME, len(name)]) + name
    return bytes([_IPV4 if address.version == 4 else _IPV6]) + address.packed
