"""What probes of tests ask: servers at the address of a real pod, and commands in its containers.

A server is a thread of the test, but its sockets are made in the pod's own network: whoever asks
has to come to the pod's address. So a server outlives the containers that are restarted because of
it, counts who asks, and turns good, bad or silent when it is told to.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent import futures
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from kubelet.cri import api_pb2
from kubelet.cri.api_pb2_grpc import RuntimeServiceStub
from kubelet.cri.info import init_pid
from tests.node.containerd import Containerd
from tests.node.pod_node import PAUSE, SECONDS, Document
from tests.processes.node import wait_for

CLONE_NEWNET: Final = 0x40000000
Answer = TypeVar("Answer")


class Mode(StrEnum):
    """How a target answers."""

    GOOD = "good"
    BAD = "bad"  # it says no
    SILENT = "silent"  # it says nothing


# The network of a pod.


def in_network_of(pid: int, work: Callable[[], Answer]) -> Answer:
    """Do something in the network of a process, in a thread that ends with it."""

    def entered() -> Answer:
        fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(fd, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter the network of process {pid}")
        finally:
            os.close(fd)
        return work()

    with futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(entered).result()


def listener(pid: int, port: int, backlog: int = 128) -> socket.socket:
    """A socket that listens on a port of a pod."""

    def make() -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("", port))
        made.listen(backlog)
        made.setblocking(False)
        return made

    return in_network_of(pid, make)


def sandbox_of(containerd: Containerd, name: str, namespace: str = "default") -> int:
    """Wait until a pod has its sandbox; the process that holds it, whichever kubelet made it."""
    labels = {"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": namespace}
    ready = api_pb2.PodSandboxStateValue(state=api_pb2.SANDBOX_READY)
    chosen = api_pb2.PodSandboxFilter(label_selector=labels, state=ready)
    with containerd.channel() as channel:
        stub = RuntimeServiceStub(channel)

        def look() -> int:
            listed = stub.ListPodSandbox(api_pb2.ListPodSandboxRequest(filter=chosen)).items
            if not listed:
                return 0
            asked = api_pb2.PodSandboxStatusRequest(pod_sandbox_id=listed[0].id, verbose=True)
            return init_pid(stub.PodSandboxStatus(asked)) or 0

        return int(wait_for(f"the sandbox of {name}", look, SECONDS, PAUSE))


# Targets.


class Target:
    """Something that a probe asks, and the words in which a kubelet tells of its failures."""

    handler: Document  # of a probe
    bad: str  # a pattern
    silent: str

    def __init__(self) -> None:
        self.mode = Mode.GOOD
        self._stamps: list[float] = []

    def attach(self, pid: int) -> None:
        """Be in the network of this process."""

    def become(self, mode: Mode) -> None:
        """Answer like this from now on."""
        self.mode = mode

    def asked(self) -> int:
        """How often somebody has come."""
        return len(self._stamps)

    def stamp(self) -> None:
        """Somebody has come."""
        self._stamps.append(time.monotonic())

    def words(self, mode: Mode) -> str:
        """The pattern of what is said of a failure."""
        return self.bad if mode is Mode.BAD else self.silent

    def close(self) -> None:
        """End."""


class Served(Target):
    """A target with a socket."""

    def __init__(self, servers: Servers, port: int, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.port = port
        self._tls = tls
        self._servers = servers
        self._pid = 0
        self._server: asyncio.Server | None = None
        servers.targets.append(self)

    def attach(self, pid: int) -> None:
        """Be at the pod's address."""
        self._pid = pid
        self._open()

    def _open(self) -> None:
        sock = listener(self._pid, self.port)

        async def start() -> asyncio.Server:
            return await asyncio.start_server(self._welcome, sock=sock, ssl=self._tls)

        self._server = self._servers.run(start())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one who has come."""
        raise NotImplementedError

    def close(self) -> None:
        """Listen no more."""
        server, self._server = self._server, None
        if server is not None:

            async def stop() -> None:
                server.close()

            self._servers.run(stop())

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one who has come, until he or the test ends."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self.serve(reader, writer)
        writer.close()


class HttpTarget(Served):
    """An HTTP server; with TLS if it is given a certificate."""

    bad = r"HTTP probe failed with statuscode: 503"
    silent = (
        r'Get "{scheme}://[0-9.]+:{port}/ask": context deadline exceeded '
        r"\(Client\.Timeout exceeded while awaiting headers\)"
    )

    def __init__(self, servers: Servers, port: int, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(servers, port, tls)
        scheme = "https" if tls else "http"
        self.handler = {"httpGet": {"path": "/ask", "port": port, "scheme": scheme.upper()}}
        self.silent = self.silent.format(scheme=scheme, port=port)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a request."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.stamp()
        if self.mode is Mode.SILENT:
            await reader.read()  # until who asked has gone
        else:
            await self.answer(head.split()[1].decode(), writer)

    async def answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        """Say yes or no."""
        del path
        word = "200 OK" if self.mode is Mode.GOOD else "503 Service Unavailable"
        writer.write(f"HTTP/1.1 {word}\r\nContent-Length: 2\r\n\r\nhi".encode())
        await writer.drain()


class TcpTarget(Served):
    """A port: open, closed, or with a queue so full that nobody gets in."""

    bad = r"dial tcp [0-9.]+:{port}: connect: connection refused"
    silent = r"dial tcp [0-9.]+:{port}: i/o timeout"

    def __init__(self, servers: Servers, port: int) -> None:
        super().__init__(servers, port)
        self.handler = {"tcpSocket": {"port": port}}
        self.bad, self.silent = (t.format(port=port) for t in (self.bad, self.silent))
        self._full: list[socket.socket] = []

    def become(self, mode: Mode) -> None:
        """Open or close the port, or have others fill its queue."""
        super().become(mode)
        if self._pid:
            self.close()
            self._open()

    def _open(self) -> None:
        if self.mode is Mode.GOOD:
            super()._open()
        elif self.mode is Mode.SILENT:
            # One fits into a queue of none; what else comes is not even refused.
            self._full = [listener(self._pid, self.port, backlog=0)]
            self._full += in_network_of(self._pid, lambda: [self._caller() for _ in range(3)])

    def _caller(self) -> socket.socket:
        made = socket.socket()
        made.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            made.connect(("127.0.0.1", self.port))
        return made

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let one in."""
        del writer
        self.stamp()
        await reader.read()

    def close(self) -> None:
        """Close the port."""
        for one in self._full:
            one.close()
        self._full = []
        super().close()


class GrpcTarget(Served):
    """The health service of gRPC, by gRPC's own server; bytes are passed on from the pod to it."""

    bad = r'service unhealthy \(responded with "NOT_SERVING"\)'
    silent = r"timeout: health rpc did not complete within 1s"

    def __init__(self, servers: Servers, port: int, *, health: bool = True) -> None:
        super().__init__(servers, port)
        self.handler = {"grpc": {"port": port}}
        self._changed = threading.Condition()
        self._backend = grpc.server(futures.ThreadPoolExecutor(8))
        if health:
            check = grpc.unary_unary_rpc_method_handler(self._check)
            handlers = grpc.method_handlers_generic_handler(
                "grpc.health.v1.Health", {"Check": check}
            )
            self._backend.add_generic_rpc_handlers((handlers,))
        self._inside = self._backend.add_insecure_port("127.0.0.1:0")
        self._backend.start()

    def become(self, mode: Mode) -> None:
        """Answer like this from now on; those who wait are let go."""
        with self._changed:
            super().become(mode)
            self._changed.notify_all()

    def _check(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """HealthCheckResponse: its first field is 1 for SERVING and 2 for NOT_SERVING."""
        del request
        self.stamp()
        with self._changed:
            while self.mode is Mode.SILENT and context.is_active():
                self._changed.wait(0.5)
        return b"\x08\x01" if self.mode is Mode.GOOD else b"\x08\x02"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass everything on, both ways, until one side has gone."""
        inner, outer = await asyncio.open_connection("127.0.0.1", self._inside)
        ways = [asyncio.create_task(_pass(*w)) for w in ((reader, outer), (inner, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            outer.close()

    def close(self) -> None:
        """End both."""
        self.become(Mode.GOOD)
        self._backend.stop(0).wait()
        super().close()


class ExecTarget(Target):
    """A command in the container that does as a file in ``/notes`` says."""

    silent = r'command timed out: "sh -c .*" timed out after 1s'
    bad = r"not today"

    def __init__(self, directory: Path, name: str) -> None:
        super().__init__()
        self._mode, self._lines = directory / f"{name}.mode", directory / f"{name}.asked"
        script = (
            f"echo x >> /notes/{name}.asked; case $(cat /notes/{name}.mode) in good) exit 0;; "
            "bad) echo not today; exit 3;; *) exec sleep 1000;; esac"
        )
        self.handler = {"exec": {"command": ["sh", "-c", script]}}
        self.become(Mode.GOOD)

    def become(self, mode: Mode) -> None:
        """Answer like this from now on."""
        super().become(mode)
        new = self._mode.with_suffix(".new")
        new.write_text(mode)
        new.rename(self._mode)

    def asked(self) -> int:
        """How often it was run."""
        return self._lines.read_text().count("x") if self._lines.exists() else 0


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


class Servers:
    """A thread in which targets serve."""

    def __init__(self) -> None:
        self.targets: list[Target] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="probe targets")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Have the thread do something."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def close(self) -> None:
        """End all of them."""
        for target in self.targets:
            target.close()
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def servers() -> Iterator[Servers]:
    """Servers of a test; none is left."""
    made = Servers()
    try:
        yield made
    finally:
        made.close()
