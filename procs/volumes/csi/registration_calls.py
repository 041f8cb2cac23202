"""The calls on a registration socket: who is there, and what became of it (L-40)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from kubelet.cri.endpoint import unwrapped
from procs.volumes.csi.driver import Line, path_problem
from procs.volumes.csi.errors import RegistrationError
from procs.volumes.csi.registration_rules import PluginInfo

if TYPE_CHECKING:
    from google.protobuf.message import Message

R = TypeVar("R", bound="Message")

DIAL_SECONDS: Final = 10.0
INFO_SECONDS: Final = 1.0
NOTIFY_SECONDS: Final = 5.0


class Registrar:
    """What listens on a registration socket; RegistrationError: it does not answer as it should."""

    def __init__(self, socket: str, dial_seconds: float = DIAL_SECONDS) -> None:
        self._socket = socket
        self._dial_seconds = dial_seconds
        self._line: Line | None = None

    async def __aenter__(self) -> Self:
        problem = path_problem(self._socket)
        if problem:
            raise RegistrationError(f"socket {self._socket!r}: {problem}", again=False)
        self._line = Line(self._socket)
        try:
            async with asyncio.timeout(self._dial_seconds):
                await self._line.channel.channel_ready()
        except TimeoutError:
            self._line.let_go()
            text = f"nobody answers at {self._socket} within {self._dial_seconds:g} s"
            raise RegistrationError(text) from None
        except BaseException:
            self._line.let_go()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.let_go()

    async def info(self) -> PluginInfo:
        """Ask who it is."""
        from procs.volumes.csi.wire import registration_pb2 as pb  # with the first plugin

        found = await self._call("GetInfo", pb.InfoRequest(), pb.PluginInfo, INFO_SECONDS)
        return PluginInfo(found.type, found.name, found.endpoint, tuple(found.supported_versions))

    async def notify(self, error: str = "") -> None:
        """Say that it is registered, or why it is not."""
        from procs.volumes.csi.wire import registration_pb2 as pb  # as above

        said = pb.RegistrationStatus(plugin_registered=not error, error=error)
        reply = pb.RegistrationStatusResponse
        await self._call("NotifyRegistrationStatus", said, reply, NOTIFY_SECONDS)

    async def _call(self, method: str, request: Message, reply: type[R], seconds: float) -> R:
        from google.protobuf.message import DecodeError

        from kubelet.cri.core import grpc

        assert self._line is not None
        call: Any = self._line.channel.unary_unary(f"/pluginregistration.Registration/{method}")
        try:
            return reply.FromString(await call(request.SerializeToString(), timeout=seconds))
        except grpc.aio.AioRpcError as failure:
            why = f"{failure.code().name}: {unwrapped(failure.details() or '')}"
        except DecodeError:
            why = f"its answer is no {reply.__name__}"
        raise RegistrationError(f"{method} at {self._socket}: {why}")
