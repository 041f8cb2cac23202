"""Real servers for probes to ask, most of them ill-behaved, and jobs that ask them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from itertools import count

from kubelet.api.container import Container, ContainerPort
from kubelet.api.handlers import HTTPGetAction, HTTPHeader, Probe, TCPSocketAction
from kubelet.api.pod import Pod
from kubelet.pods.probes import ProbeKind
from procs.prober.job import Job

HOST = "127.0.0.1"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
IDS = count()


def job_of(probe, port=None, ip=HOST):
    """A job of a container that nobody has probed before; its port is called web."""
    ports = (ContainerPort(name="web", container_port=port or 1),)
    container = Container(name="c", ports=ports)
    return Job(Pod(), container, f"id-{next(IDS)}", ProbeKind.LIVENESS, probe, ip)


def http_job(port, *, seconds=30, headers=(), ip=HOST, **action):
    given = tuple(HTTPHeader(*header) for header in headers)
    got = HTTPGetAction(port=port, http_headers=given, **{"path": "/x", **action})
    known = port if isinstance(port, int) else None
    return job_of(Probe(http_get=got, timeout_seconds=seconds), known, ip)


def tcp_job(port, *, seconds=30, ip=HOST, host=""):
    action = TCPSocketAction(port=port, host=host)
    return job_of(Probe(tcp_socket=action, timeout_seconds=seconds), None, ip)


def saying(*pieces, hangs=False, resets=False):
    """A server that hears a request and says some pieces, one after the other."""

    async def serve(reader, writer):
        await reader.read(4096)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if hangs:
            await reader.read()
        if resets:
            now = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
        writer.close()

    return serve


@contextlib.asynccontextmanager
async def listening(serve, tls=None):
    """Serve on a port of this machine; gives the port."""

    async def quietly(reader, writer):
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(quietly, HOST, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextlib.contextmanager
def closed_port():
    """A port that is taken and at which nobody listens."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        yield taken.getsockname()[1]
