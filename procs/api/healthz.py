"""The health server on 10248: ``/healthz``, bound to loopback by default (H-3).

It answers whether this part of the kubelet is alive, as the Go kubelet's does with its ping and
log checks; whether the others are, ``kubeletctl status`` says.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from kubelet import logging as klog

log = klog.get_logger(__name__)

CHECKS: Final = ("ping", "log")
_HEAD_LIMIT: Final = 16 * 1024
_HEAD_SECONDS: Final = 10.0
_CONNECTION_LIMIT: Final = 256

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
}


class HealthServer:
    """A few lines of HTTP/1.1: one request per connection, bounded in size, time and number."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count
        self._open = 0
        self._server: asyncio.Server | None = None

    async def start(self, descriptor: int) -> HealthServer:
        """Accept on a socket that somebody else listens with."""
        sock = socket.socket(fileno=descriptor)
        self._server = await asyncio.start_server(self._serve, sock=sock, limit=_HEAD_LIMIT)
        return self

    async def stop(self) -> None:
        """Accept no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _CONNECTION_LIMIT:
                async with asyncio.timeout(_HEAD_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(respond(head))
                    await writer.drain()
                self._count("http_requests")
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            self._count("http_bad_requests")
        finally:
            self._open -= 1
            writer.close()


def respond(head: bytes) -> bytes:
    """The whole answer to a request's head. Pure."""
    line = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(line) != 3 or not line[2].startswith("HTTP/1."):
        return _answer(400, "bad request\n", {})
    method, target, _ = line
    path, _, query = target.partition("?")
    names = ("/healthz", "/healthz/", *(f"/healthz/{check}" for check in CHECKS))
    if path not in names:
        return _answer(404, "404 page not found\n", {})
    if method not in ("GET", "HEAD"):
        return _answer(405, "method not allowed\n", {"Allow": "GET, HEAD"})
    verbose = path in ("/healthz", "/healthz/") and "verbose" in query.split("&")
    body = "".join(f"[+]{check} ok\n" for check in CHECKS) + "healthz check passed\n"
    return _answer(200, body if verbose else "ok", {}, bodyless=method == "HEAD")


def _answer(code: int, body: str, headers: dict[str, str], *, bodyless: bool = False) -> bytes:
    lines = [
        f"HTTP/1.1 {code} {_REASONS[code]}",
        "Content-Type: text/plain; charset=utf-8",
        "X-Content-Type-Options: nosniff",
        f"Content-Length: {len(body.encode())}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    head = "\r\n".join(lines) + "\r\n\r\n"
    return head.encode() if bodyless else (head + body).encode()
