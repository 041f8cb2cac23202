"""The gRPC server: every RPC of the two services, through the faults, to what answers it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from kubelet.cri import api_pb2 as pb

from .faults import Faults
from .model import SimError
from .store import Store

Context = grpc.aio.ServicerContext[Any, Any]
_ABOUT = ("container_id", "pod_sandbox_id")
_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.so_reuseport", 0),
)


def _serialise(answer: Message | bytes) -> bytes:
    """Bytes are an answer that was prepared, or garbage."""
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


def about(request: Any) -> tuple[str, ...]:
    """What a request is about: IDs, names, an image. Faults are aimed with it."""
    fields = request.DESCRIPTOR.fields_by_name
    found = [getattr(request, name) for name in _ABOUT if name in fields]
    if "image" in fields:
        found.append(request.image.image)
    if "config" in fields:
        found.append(request.config.metadata.name)
    return tuple(found)


class Dispatch:
    """Turns methods named as RPCs into gRPC handlers."""

    def __init__(self, faults: Faults, store: Store) -> None:
        self._faults = faults
        self._store = store

    def service(
        self, name: str, parts: tuple[object, ...], without: tuple[str, ...]
    ) -> grpc.GenericRpcHandler:
        """The handlers of a service. An RPC that no part has is Unimplemented, as gRPC says it."""
        handlers = {}
        for method in pb.DESCRIPTOR.services_by_name[name].methods:
            answers = [getattr(part, method.name) for part in parts if hasattr(part, method.name)]
            if not answers or method.name in without:
                continue
            if method.server_streaming:
                make, call = (
                    grpc.unary_stream_rpc_method_handler,
                    self._stream(method.name, answers[0]),
                )
            else:
                make, call = (
                    grpc.unary_unary_rpc_method_handler,
                    self._unary(method.name, answers[0]),
                )
            request = GetMessageClass(method.input_type)
            handlers[method.name] = make(call, request.FromString, _serialise)
        return grpc.method_handlers_generic_handler(f"runtime.v1.{name}", handlers)

    def _unary(self, name: str, answer: Callable[[Any], Any]) -> Callable[..., Any]:
        async def call(request: Any, context: Context) -> Message | bytes:
            self._faults.calls[name] += 1
            try:
                garbage = await self._faults.strike(name, about(request))
                if garbage is not None:
                    return garbage
                response: Message | bytes = await answer(request)
                self._store.settle()
                return await self._faults.strike(name, about(request), after=True) or response
            except SimError as err:
                self._store.settle()
                return await _refuse(context, err)

        return call

    def _stream(self, name: str, answer: Callable[[Any], Any]) -> Callable[..., Any]:
        async def call(request: Any, context: Context) -> AsyncIterator[Message | bytes]:
            self._faults.calls[name] += 1
            try:
                garbage = await self._faults.strike(name, about(request))
                if garbage is not None:
                    yield garbage
                    return
                responses = answer(request)
                # A stream's first sign of life: who waits for it knows that nothing is missed.
                await context.send_initial_metadata(())
                async for response in responses:
                    yield response
            except SimError as err:
                await _refuse(context, err)

        return call


async def _refuse(context: Context, err: SimError) -> Any:
    await context.abort(grpc.StatusCode[err.code], err.message)


def make_server(handlers: tuple[grpc.GenericRpcHandler, ...], socket: str) -> grpc.aio.Server:
    """A server on a unix socket."""
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers(handlers)
    server.add_insecure_port(f"unix:{socket}")
    return server
