"""An API server on the loopback that follows a script, and a small transport that leads to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from procs.node.apiserver.types import ApiError, Response


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    query: dict
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


async def head(reader):
    """Read the first line and the headers of a message."""
    text = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *rest = text.strip().split("\r\n")
    pairs = (line.split(":", 1) for line in rest)
    return first, {name.strip().lower(): value.strip() for name, value in pairs}


def answer(body=b"", status=200, **headers):
    """A step: one whole answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = {} if isinstance(body, bytes) else {"content-type": "application/json"}
    lines = {**kind, **{k.replace("_", "-"): v for k, v in headers.items()}}

    async def step(_asked, writer):
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n{text}\r\n".encode())
        writer.write(data)

    return step


def refusal(status, reason="", message="no", details=None, **headers):
    """A step: a Status object."""
    return answer(status_object(status, reason, message, details), status, **headers)


def status_object(code, reason="", message="no", details=None):
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details or {},
    }


def frame(kind, item):
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def watch(*chunks, hold=None):
    """A step: a watch that sends these bytes, and ends, or waits for ``hold`` before it ends."""

    async def step(_asked, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for chunk in chunks:
            writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            await writer.drain()
        if hold is not None:
            await hold.wait()
        writer.write(b"0\r\n\r\n")

    return step


async def hang_up(_asked, writer):
    """A step: close without an answer."""
    writer.transport.abort()


class Loopback:
    """Takes one step of its script for each request; at its end requests wait, and it is idle."""

    def __init__(self, *script):
        self.script = list(script)
        self.asked = []
        self.idle = asyncio.Event()
        self._end = asyncio.Event()
        self._news = asyncio.Event()
        self._serving = set()
        self.port = 0

    async def serve(self, reader, writer):
        task = asyncio.current_task()
        self._serving.add(task)
        try:
            first, headers = await head(reader)
            method, target, _ = first.split()
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            parts = urlsplit(target)
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            asked = Asked(method, parts.path, query, headers, body)
            self.asked.append(asked)
            self._news.set()
            if not self.script:
                self.idle.set()
                await self._end.wait()
                return
            await self.script.pop(0)(asked, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._serving.discard(task)
            writer.close()

    async def count(self, number):
        """Wait until so many requests have come."""
        while len(self.asked) < number:
            self._news.clear()
            await self._news.wait()

    def close(self):
        """Have no request wait any more, nor a step that would never end."""
        self._end.set()
        for task in self._serving:
            task.cancel()


class Plain:
    """A transport: one connection for each request."""

    def __init__(self, port):
        self._port = port

    async def _open(self, request):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            lines = [
                f"{request.method} {request.path} HTTP/1.1",
                "Host: x",
                f"Content-Length: {len(request.body)}",
                f"Content-Type: {request.content_type}",
                f"X-Purpose: {request.purpose.value}",
                "",
                "",
            ]
            writer.write("\r\n".join(lines).encode() + request.body)
            first, headers = await head(reader)
        except (OSError, asyncio.IncompleteReadError) as err:
            raise ApiError(f"cannot be reached: {type(err).__name__}") from None
        return reader, writer, int(first.split()[1]), headers

    async def send(self, request):
        reader, writer, status, headers = await self._open(request)
        try:
            body = await reader.readexactly(int(headers["content-length"]))
        finally:
            writer.close()
        return Response(status, headers, body)

    @contextlib.asynccontextmanager
    async def stream(self, request):
        reader, writer, status, headers = await self._open(request)
        try:
            yield Flow(reader, status, headers)
        finally:
            writer.close()

    def drop(self, purpose=None):
        pass

    async def close(self):
        pass


class Flow:
    """A stream."""

    def __init__(self, reader, status, headers):
        self._reader = reader
        self.status = status
        self.headers = headers

    async def __aiter__(self):
        try:
            if "content-length" in self.headers:
                yield await self._reader.readexactly(int(self.headers["content-length"]))
                return
            while size := int(await self._reader.readline(), 16):
                yield (await self._reader.readexactly(size + 2))[:-2]
        except (OSError, asyncio.IncompleteReadError, ValueError) as err:
            raise ApiError(f"the connection broke: {type(err).__name__}") from None


@contextlib.asynccontextmanager
async def serving(*script):
    """A server with its transport."""
    server = Loopback(*script)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server, Plain(server.port)
    finally:
        server.close()
        listening.close()
        await listening.wait_closed()


class Time:
    """A clock that only moves when somebody sleeps, and the sleep that moves it."""

    def __init__(self):
        self.now_ns = 1_000_000_000_000
        self.slept = []

    def __call__(self):
        return self.now_ns

    def pass_(self, seconds):
        self.now_ns += int(seconds * 1e9)

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.pass_(seconds)
        await asyncio.sleep(0)


def story(work, seconds=20):
    """Run a coroutine to its end."""

    async def limited():
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(limited())
