"""What a program listens on: a tiny HTTP answer on the pod's own loopback address."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

from kubelet.cri import api_pb2 as pb

from .model import Sandbox

PAGE = b"<!DOCTYPE html><title>simulated</title><p>It works.\n"


class Listeners:
    """The ports that containers listen on."""

    def __init__(self) -> None:
        self._servers: dict[str, list[asyncio.Server]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, container_id: str, sandbox: Sandbox | None, port: int) -> None:
        """Answer on a port of the pod, and on the host's port that leads there."""
        where = [(sandbox.ip if sandbox and sandbox.ip else "127.0.0.1", port)]
        where += [
            (mapping.host_ip or "127.0.0.1", mapping.host_port)
            for mapping in (sandbox.config.port_mappings if sandbox else ())
            if mapping.container_port == port and mapping.host_port and mapping.protocol == pb.TCP
        ]
        self._servers.setdefault(container_id, [])
        for address in where:
            try:
                bound = socket.create_server(address)  # from here on, who connects is kept waiting
            except OSError as err:
                print(f"sim: cannot listen on {address}: {err}", file=sys.stderr, flush=True)
                continue
            task = asyncio.get_running_loop().create_task(self._serve(container_id, bound))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, container_id: str, bound: socket.socket) -> None:
        server = await asyncio.start_server(_answer, sock=bound)
        if container_id in self._servers:
            self._servers[container_id].append(server)
        else:
            server.close()  # the container ended in the meantime

    def close(self, container_id: str) -> None:
        """Its container ended."""
        for server in self._servers.pop(container_id, ()):
            server.close()

    async def close_all(self) -> None:
        """Nobody listens any more."""
        for container_id in list(self._servers):
            self.close(container_id)
        for task in list(self._tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(PAGE)}\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + PAGE)
        await writer.drain()
    writer.close()
