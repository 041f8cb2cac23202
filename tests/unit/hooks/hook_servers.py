"""Real servers for hooks to call, and what they heard."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from kubelet.api.container import Container, ContainerPort
from kubelet.api.handlers import HTTPGetAction, HTTPHeader, LifecycleHandler
from kubelet.api.meta import ObjectMeta
from kubelet.api.pod import Pod
from procs.syncloop.runtime.hooks import Hooks

POD = Pod(metadata=ObjectMeta(name="web", namespace="ns", uid="u1"))
HOST = "127.0.0.1"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Server:
    """Gives its answers in turn, the last one again and again."""

    answers: list[bytes] = field(default_factory=lambda: [OK])
    heard: list[bytes] = field(default_factory=list)
    port: int = 0
    keeps_open: bool = False  # it does not hang up after its answer

    async def _serve(self, reader, writer):
        try:
            self.heard.append(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.IncompleteReadError as err:  # not HTTP: a TLS hello, or nothing at all
            self.heard.append(err.partial)
        writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
        if self.keeps_open:
            await reader.read()
        writer.close()

    @property
    def requests(self):
        """The first line and the headers of each request."""
        return [text.decode().split("\r\n") for text in self.heard]


@contextlib.asynccontextmanager
async def serving(server, tls=None):
    """Listen on a port of this machine."""
    listening = await asyncio.start_server(server._serve, HOST, 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server


class PlainServer(Server):
    """Answers whatever it hears, a TLS hello too, as HTTP servers do."""

    async def _serve(self, reader, writer):
        heard = await reader.read(4096)
        self.heard.append(heard)
        is_http = heard.startswith(b"GET ")
        writer.write(OK if is_http else b"HTTP/1.0 400 Bad Request\r\n\r\nthis is HTTP")
        await writer.drain()
        writer.close()


class Calls:
    """Runs HTTP hooks, and keeps the events."""

    def __init__(self):
        self.events = []
        self._hooks = Hooks(None, lambda _pod, *event: self.events.append(event))

    async def get(self, port, ip=HOST, headers=(), **action):
        got = HTTPGetAction(
            port=port, http_headers=tuple(HTTPHeader(*header) for header in headers), **action
        )
        handler = LifecycleHandler(http_get=got)
        ports = (ContainerPort(name="web", container_port=port if isinstance(port, int) else 1),)
        container = Container(name="c", ports=ports)
        async with asyncio.timeout(20):
            await self._hooks.run(POD, container, "id", handler, ip, None)
