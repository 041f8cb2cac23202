"""A server between a kubelet and the real API server: it passes on, notes, and meddles as told.

It has a certificate of the cluster's authority, wants one of its clients, and speaks to the API
server with the certificate of the node. What it does to a request says the first rule that fits:

    with meddler.rule("PUT", r"/leases/", Answer(403)) as rule:
        ...
        assert rule.hits < 10

Without rules everything goes through. While it is ``transparent`` it does not even decrypt: the
API server then sees who really calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from urllib.parse import urlsplit

from tests.cluster.control_plane import HOST, ControlPlane
from tests.cluster.deeds import (
    Answer,
    Change,
    Cut,
    Deed,
    Delay,
    Gone,
    Hold,
    Request,
    Rule,
    Seen,
    Words,
    answer_of,
    chunk_of,
)

START_SECONDS = 20.0
_LIMIT = 1 << 24  # bytes of a line: of a watch, an object

__all__ = [
    "Answer",
    "Change",
    "Cut",
    "Deed",
    "Delay",
    "Gone",
    "Hold",
    "Meddler",
    "Request",
    "Rule",
    "Seen",
    "Words",
    "meddler",
]


class Meddler:
    """The server, in a thread of its own."""

    def __init__(self, plane: ControlPlane, node: str) -> None:
        serving = plane.authority.issue(f"meddler-{node}", "kube-apiserver", hosts=(HOST,))
        me = plane.authority.issue(f"meddler-{node}-client", f"system:node:{node}", "system:nodes")
        where = urlsplit(plane.server)
        self._upstream = str(where.hostname), int(where.port or 443)
        self._server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=plane.ca)
        self._server_tls.verify_mode = ssl.CERT_REQUIRED
        self._server_tls.load_cert_chain(serving.certificate, serving.key)
        self._client_tls = ssl.create_default_context(cafile=plane.ca)
        self._client_tls.load_cert_chain(me.certificate, me.key)
        self._socket = socket.create_server((HOST, 0))
        self._socket.setblocking(False)
        self.url = f"https://{HOST}:{self._socket.getsockname()[1]}"
        self.seen: list[Seen] = []
        self.dials: list[float] = []  # monotonic seconds of each connection, good or bad
        self.transparent = False
        self._rules: tuple[Rule, ...] = ()
        self._open: set[_Client] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: list[BaseException] = []  # of ours
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="meddler", daemon=True)
        self._thread.start()

    # What a test does.

    def rule(self, method: str, path: str, deed: Deed, *, times: int | None = None) -> Rule:
        """Begin to do something to requests whose method and path fit.

        A watch that is under way and fits an answer is ended: it is to be asked for again.
        """
        made = Rule(method, path, deed, times, self.lift)
        self._rules = (*self._rules, made)
        if isinstance(deed, Answer):
            self.cut(method, path)
        return made

    def lift(self, rule: Rule) -> None:
        """Do it no more."""
        self._rules = tuple(r for r in self._rules if r is not rule)
        self._loop.call_soon_threadsafe(rule.over.set)

    def cut(self, method: str = ".*", path: str = "") -> None:
        """Close the connections that such a request is under way on; all of them: idle ones too."""

        def work() -> None:
            for client in tuple(self._open):
                now = client.request
                if not path or (now and Rule(method, path, Deed()).fits(*now)):
                    client.close()

        self._loop.call_soon_threadsafe(work)

    def asked(self, method: str, path: str, since: float = 0.0) -> list[Seen]:
        """The requests of a kind since a moment."""
        rule = Rule(method, path, Deed())
        return [s for s in tuple(self.seen) if s.at >= since and rule.fits(s.method, s.path)]

    def close(self) -> None:
        """End."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(START_SECONDS)
        assert not self._thread.is_alive(), "the meddler does not end"
        if self._errors:
            raise self._errors[0]

    # The server.

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        with self._socket, contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        accepting = asyncio.create_task(self._accept())
        await self._ended.wait()
        accepting.cancel()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            sock, _ = await self._loop.sock_accept(self._socket)
            self.dials.append(time.monotonic())
            task = asyncio.create_task(self._client(sock))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._errors.append(error)

    async def _client(self, sock: socket.socket) -> None:
        """Serve one connection to its end; what goes wrong with it is the client's to notice."""
        transparent = self.transparent
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, Gone):
            reader = asyncio.StreamReader(_LIMIT)
            transport, protocol = await self._loop.connect_accepted_socket(
                lambda: asyncio.StreamReaderProtocol(reader),
                sock,
                ssl=None if transparent else self._server_tls,
            )
            writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
            client = _Client(self, reader, writer)
            self._open.add(client)
            try:
                await (client.pipe() if transparent else client.serve())
            finally:
                self._open.discard(client)
                client.close()

    async def dial(self, *, plain: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the API server."""
        tls = None if plain else self._client_tls
        return await asyncio.open_connection(*self._upstream, ssl=tls, limit=_LIMIT)

    def chosen(self, request: Request) -> Rule | None:
        """The rule for a request."""
        fitting = (r for r in self._rules if r.fits(request.method, request.path))
        return next(fitting, None)


class _Client:
    """One connection of the kubelet's, and the one to the API server that belongs to it."""

    def __init__(
        self, meddler: Meddler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._meddler = meddler
        self._reader = reader
        self._writer = writer
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.request: tuple[str, str] | None = None  # under way

    def close(self) -> None:
        """Close at once, both."""
        self._writer.transport.abort()
        if self._server is not None:
            self._server[1].transport.abort()

    async def pipe(self) -> None:
        """Pass bytes on, both ways."""
        self._server = server = await self._meddler.dial(plain=True)
        await asyncio.gather(
            _copy(self._reader, server[1]),
            _copy(server[0], self._writer),
        )

    async def serve(self) -> None:
        """Answer one request after the other."""
        while True:
            head = await _head(self._reader)
            method, path, _ = head[0].split(" ", 2)
            headers = _headers(head[1:])
            body = await self._reader.readexactly(int(headers.get("content-length", 0)))
            request = Request(method, path, headers, body)
            at, status = time.monotonic(), 0
            self.request = (method, path)
            try:
                status = await self._one(request)
            finally:
                self.request = None
                if not request.watches or not status:
                    self._meddler.seen.append(Seen(method, path, status, at))

    async def _one(self, request: Request) -> int:
        """Answer a request; the status."""
        rule = self._meddler.chosen(request)
        if rule is not None and not (request.watches and isinstance(rule.deed, Words | Cut)):
            rule.hit()
        try:
            given = await rule.deed.meet(rule, request) if rule is not None else None
            if given is None:
                if self._reader.at_eof():  # nobody waits for it any more
                    raise Gone
                return await self._forward(request, rule)
        except Gone as last:
            self._writer.write(last.words)
            await self._writer.drain()
            self._writer.close()
            raise
        self._writer.write(given)
        await self._writer.drain()
        return int(given.split(b" ", 2)[1])

    async def _forward(self, request: Request, rule: Rule | None) -> int:
        if self._server is None:
            self._server = await self._meddler.dial(plain=False)
        reader, writer = self._server
        writer.write(_asked(request))
        head = await _head(reader)
        status = int(head[0].split(" ", 2)[1])
        headers = _headers(head[1:])
        if request.watches and status == HTTPStatus.OK:
            self._meddler.seen.append(Seen(request.method, request.path, status, time.monotonic()))
            await self._stream(request, headers, reader)
            return status
        pieces = [piece async for piece in _pieces(reader, headers)]
        body = b"".join(pieces)
        if rule is not None and status < HTTPStatus.BAD_REQUEST:
            rule.deed.pass_head(headers)
            body = rule.deed.pass_body(body)
        self._writer.write(answer_of(status, headers, body))
        await self._writer.drain()
        return status

    async def _stream(
        self, request: Request, headers: dict[str, str], reader: asyncio.StreamReader
    ) -> None:
        """Pass on the frames of a watch, each after the rule of its own time."""
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(("HTTP/1.1 200 OK", *lines, "", ""))
        self._writer.write(head.encode())
        rest = b""
        gone = asyncio.create_task(self._reader.read())  # nothing more comes from who watches
        gone.add_done_callback(lambda _: self.close())
        async for piece in _pieces(reader, headers):
            *frames, rest = (rest + piece).split(b"\n")
            for frame in frames:
                line = frame + b"\n"
                rule = self._meddler.chosen(request)
                if rule is not None:
                    rule.hit()
                    line = await rule.deed.pass_frame(rule, line)
                self._writer.write(chunk_of(line))
            await self._writer.drain()
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()


# HTTP.


async def _head(reader: asyncio.StreamReader) -> list[str]:
    data = await reader.readuntil(b"\r\n\r\n")
    return data.decode("latin-1").split("\r\n")[:-2]


def _headers(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _pieces(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """The body of an answer as it comes."""
    if headers.get("transfer-encoding") != "chunked":
        yield await reader.readexactly(int(headers.get("content-length", 0)))
        return
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")


def _asked(request: Request) -> bytes:
    """A request as the API server gets it: its answer is to be plain."""
    kept = {n: v for n, v in request.headers.items() if n != "accept-encoding"}
    lines = [f"{name}: {value}" for name, value in kept.items()]
    head = "\r\n".join((f"{request.method} {request.path} HTTP/1.1", *lines, "", ""))
    return head.encode() + request.body


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


@contextlib.contextmanager
def meddler(plane: ControlPlane, node: str) -> Iterator[Meddler]:
    """A meddler for a node."""
    made = Meddler(plane, node)
    try:
        yield made
    finally:
        made.close()
