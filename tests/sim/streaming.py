"""The streaming server: what the URLs of Exec, Attach and PortForward lead to.

A client upgrades to SPDY/3.1 (all three) or to a WebSocket (exec, attach), as with a real runtime.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
from typing import Any

from . import websocket
from .engine import Engine
from .executor import run
from .model import SimError
from .spdy import Connection, Stream
from .websocket import Socket

PATIENCE = 30.0  # for the streams that a request has announced


def outcome(code: int) -> bytes:
    """What goes over the error stream at the end: a Status of the Kubernetes API."""
    if code == 0:
        return json.dumps({"metadata": {}, "status": "Success"}).encode()
    cause = {"reason": "ExitCode", "message": str(code)}
    text = f"command terminated with non-zero exit code: {code}"
    status = {"metadata": {}, "status": "Failure", "message": text, "reason": "NonZeroExitCode"}
    return json.dumps({**status, "details": {"causes": [cause]}}).encode()


class _Ends:
    """Where a session's bytes come from and go to, whatever carries them."""

    def __init__(self) -> None:
        self.stdin: asyncio.Queue[bytes] = asyncio.Queue()
        self.streams: dict[str, Stream] = {}
        self.socket: Socket | None = None

    async def write(self, kind: str, data: bytes) -> None:
        with contextlib.suppress(OSError):
            if self.socket is not None:
                await self.socket.write(kind, data)
            elif kind in self.streams:
                await self.streams[kind].write(data)

    async def finish(self, code: int) -> None:
        await self.write("error", outcome(code))
        with contextlib.suppress(OSError):
            if self.socket is not None:
                await self.socket.close()
            for stream in self.streams.values():
                await stream.close()


class Streaming:
    """Serves sessions that were announced by a call, each once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._requests: dict[str, tuple[str, Any]] = {}
        self._server: asyncio.Server | None = None
        self._sessions: set[asyncio.Task[None]] = set()
        self._base = ""

    async def start(self) -> None:
        """Listen on a port of loopback."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self._base = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """End every session."""
        if self._server is not None:
            self._server.close()
        for session in list(self._sessions):
            session.cancel()

    def url(self, kind: str, request: Any) -> str:
        """Where a client finds what it asked for."""
        token = secrets.token_urlsafe(8)
        self._requests[token] = (kind, request)
        return f"{self._base}/{kind}/{token}"

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._sessions.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._session(reader, writer)
        except (SimError, ExceptionGroup) as err:  # its container is gone, or it stopped speaking
            print(f"sim: a stream ended: {err}", file=sys.stderr, flush=True)
        finally:
            self._sessions.discard(task)
            writer.close()

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        path = head[0].split()[1].partition("?")[0]
        headers: dict[str, str] = {}
        for line in head[1:]:
            name, _, value = line.partition(":")
            known = headers.get(name.lower())
            headers[name.lower()] = f"{known},{value.strip()}" if known else value.strip()
        kind, request = self._requests.pop(path.rsplit("/", 1)[-1], ("", None))
        upgrade = headers.get("upgrade", "").lower()
        if not kind:
            _refuse(writer, "404 Not Found", "no such stream, or it was used before")
        elif upgrade == "spdy/3.1":
            await self._spdy(kind, request, headers, reader, writer)
        elif upgrade == "websocket" and kind != "portforward":
            await self._websocket(kind, request, headers, reader, writer)
        else:
            _refuse(writer, "400 Bad Request", "unable to upgrade: SPDY/3.1 or websocket is needed")
        await writer.drain()

    # Carriers.

    async def _spdy(
        self,
        kind: str,
        request: Any,
        headers: dict[str, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        asked = [p.strip() for p in headers.get("x-stream-protocol-version", "").split(",")]
        known = ("portforward.k8s.io",) if kind == "portforward" else ("v4.channel.k8s.io",)
        chosen = next((p for p in known if p in asked), "")
        if not chosen:
            _refuse(writer, "403 Forbidden", f"unable to negotiate: asked {asked}, known {known}")
            return
        extra = {"X-Stream-Protocol-Version": chosen}
        await _switch(writer, "SPDY/3.1", extra)
        arrived: asyncio.Queue[Stream] = asyncio.Queue()
        connection = Connection(reader, writer, arrived.put_nowait)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(connection.serve())
            if kind == "portforward":
                await self._forward(request, arrived, group, reading)
            else:
                ends = await _collect(request, arrived)
                await self._work(kind, request, ends)
            reading.cancel()

    async def _websocket(
        self,
        kind: str,
        request: Any,
        headers: dict[str, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        asked = [p.strip() for p in headers.get("sec-websocket-protocol", "").split(",")]
        chosen = next((p for p in websocket.PROTOCOLS if p in asked), "")
        if not chosen:
            _refuse(writer, "403 Forbidden", f"unable to negotiate: asked {asked}")
            return
        extra = {
            "Sec-WebSocket-Accept": websocket.accept(headers.get("sec-websocket-key", "")),
            "Sec-WebSocket-Protocol": chosen,
        }
        await _switch(writer, "websocket", extra)
        ends = _Ends()
        ends.socket = Socket(reader, writer)
        ends.stdin = ends.socket.stdin
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(ends.socket.serve())
            await self._work(kind, request, ends)
            reading.cancel()

    # What is done over them.

    async def _work(self, kind: str, request: Any, ends: _Ends) -> None:
        if kind == "exec":
            container = self._engine.world.container(request.container_id)
            shell = self._engine.shell(container)
            read = ends.stdin.get if request.stdin else _no_input
            await ends.finish(await run(shell, tuple(request.cmd), read, ends.write))
        else:
            await self._attach(request, ends)

    async def _attach(self, request: Any, ends: _Ends) -> None:
        container = self._engine.world.container(request.container_id)
        runner = self._engine.runners.get(container.id)
        queue: asyncio.Queue[tuple[str, bytes] | None] = asyncio.Queue()
        self._engine.outputs.setdefault(container.id, set()).add(queue)

        async def feed() -> None:
            while data := await ends.stdin.get():
                if runner is not None:
                    runner.feed(data)
            if container.config.stdin_once and runner is not None:
                runner.feed(b"")

        feeding = asyncio.get_running_loop().create_task(feed())
        try:
            while runner is not None and (piece := await queue.get()) is not None:
                await ends.write(*piece)
            await ends.finish(0)
        finally:
            feeding.cancel()
            self._engine.outputs.get(container.id, set()).discard(queue)

    async def _forward(
        self,
        request: Any,
        arrived: asyncio.Queue[Stream],
        group: asyncio.TaskGroup,
        reading: asyncio.Task[None],
    ) -> None:
        sandbox = self._engine.world.sandbox(request.pod_sandbox_id)
        waiting: dict[str, Stream] = {}
        while not reading.done():
            getting = group.create_task(arrived.get())
            await asyncio.wait({getting, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                getting.cancel()
                return
            stream = getting.result()
            if stream.kind == "error":
                waiting[stream.headers.get("requestid", "")] = stream
            else:
                error = waiting.pop(stream.headers.get("requestid", ""), None)
                group.create_task(_pipe(sandbox.ip or "127.0.0.1", stream, error))


async def _no_input() -> bytes:
    return b""


async def _collect(request: Any, arrived: asyncio.Queue[Stream]) -> _Ends:
    """Wait for the streams that the request says there will be."""
    wanted = {"error"} | {k for k in ("stdin", "stdout", "stderr") if getattr(request, k)}
    if request.tty:
        wanted = wanted - {"stderr"} | {"resize"}
    ends = _Ends()
    while wanted - set(ends.streams):
        stream = await asyncio.wait_for(arrived.get(), PATIENCE)
        ends.streams[stream.kind] = stream
    if "stdin" in ends.streams:
        ends.stdin = ends.streams["stdin"].incoming
    return ends


async def _pipe(host: str, stream: Stream, error: Stream | None) -> None:
    """Copy both ways between a stream and a port of the pod."""
    port = int(stream.headers.get("port", "0"))
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError as err:
        if error is not None:
            await error.write(f"failed to connect to {host}:{port}: {err}".encode())
            await error.close()
        await stream.close()
        return

    async def inward() -> None:
        while data := await stream.incoming.get():
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    inwards = asyncio.get_running_loop().create_task(inward())
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 15):
            await stream.write(data)
        await stream.close()
        if error is not None:
            await error.close()
    inwards.cancel()
    writer.close()


async def _switch(writer: asyncio.StreamWriter, protocol: str, extra: dict[str, str]) -> None:
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", f"Upgrade: {protocol}"]
    lines += [f"{name}: {value}" for name, value in extra.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    await writer.drain()


def _refuse(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = f"{text}\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n{body}".encode())
