"""A gRPC server that answers CRI calls as it is told to, and notes what it was asked.

``python -m tests.unit.cri.runtime SOCKET`` serves Version alone, until it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass, field
from typing import Any

from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import ImageClient, RuntimeClient
from kubelet.cri.connection import MAX_MESSAGE
from kubelet.cri.core import grpc

VERSION = pb.VersionResponse(
    version="0.1.0", runtime_name="fake", runtime_version="1.2.3", runtime_api_version="v1"
)


@dataclass
class Runtime(grpc.GenericRpcHandler):
    """Answers with what stands in ``answers``: a message, several, bytes, a status or a hang."""

    answers: dict[str, Any] = field(default_factory=lambda: {"Version": VERSION})
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    time_left: dict[str, float | None] = field(default_factory=dict)
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: asyncio.Event = field(default_factory=asyncio.Event)

    def service(self, details):
        service, name = details.method.removeprefix("/runtime.v1.").split("/")
        if name not in self.answers:
            return None
        assert name in pb.DESCRIPTOR.services_by_name[service].methods_by_name
        if pb.DESCRIPTOR.services_by_name[service].methods_by_name[name].server_streaming:
            return grpc.unary_stream_rpc_method_handler(self._many(name))
        return grpc.unary_unary_rpc_method_handler(self._one(name))

    def _one(self, name):
        async def handle(request, context):
            return await self._answer(name, self.answers[name], request, context)

        return handle

    def _many(self, name):
        async def handle(request, context):
            for answer in self.answers[name]:
                yield await self._answer(name, answer, request, context)

        return handle

    async def _answer(self, name, answer, request, context):
        self.requests.append((name, request))
        self.time_left[name] = context.time_remaining()
        if answer is HANG:
            self.hanging.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.given_up.set()
                raise
        if isinstance(answer, Refusal):
            await context.abort(answer.code, answer.words)
        return answer if isinstance(answer, bytes) else answer.SerializeToString()


@dataclass(frozen=True)
class Refusal:
    """A status that is no success."""

    code: grpc.StatusCode
    words: str


HANG = object()


@contextlib.asynccontextmanager
async def serving(path, runtime=None):
    """Serve on a socket; yields the runtime."""
    runtime = runtime or Runtime()
    limits = [
        ("grpc.max_send_message_length", 4 * MAX_MESSAGE),
        ("grpc.max_receive_message_length", 4 * MAX_MESSAGE),
    ]
    server = grpc.aio.server(options=limits)
    server.add_generic_rpc_handlers((runtime,))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        yield runtime
    finally:
        await server.stop(None)


@contextlib.asynccontextmanager
async def pair(directory, **options):
    """A runtime and a client of each service on one socket."""
    path = directory / "runtime.sock"
    async with (
        serving(path) as runtime,
        await RuntimeClient.connect(f"unix://{path}", **options) as client,
        await ImageClient.connect(f"unix://{path}", **options) as images,
    ):
        yield runtime, client, images


async def main():
    """Serve until the end."""
    async with serving(sys.argv[1]):
        print("up", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
