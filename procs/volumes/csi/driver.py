"""One CSI driver, as this process speaks with it.

gRPC and the message types are loaded by the first call: a node without CSI drivers does without.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kubelet.cri.endpoint import MAX_SOCKET_PATH, Endpoint, transport_fault, unwrapped
from kubelet.cri.errors import Code
from procs.volumes.csi.errors import UNCERTAIN, CsiError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from kubelet.cri.core import grpc

__all__ = ["UNCERTAIN", "CsiError", "Driver", "Line", "path_problem"]

R = TypeVar("R", bound="Message")

CALL_SECONDS: Final = 120.0  # L-43
_IDENTITY: Final = ("GetPluginInfo", "GetPluginCapabilities", "Probe")
# A value shorter than this is no secret, and taking it out would garble what a driver says.
_LEAST_SECRET: Final = 4
_TOKENS: Final = "csi.storage.k8s.io/serviceAccount.tokens"

# Each line has a connection of its own and tries at once: what others have found does not count.
_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),
)

_closing: set[asyncio.Task[None]] = set()


class Line:
    """A connection to a socket, closed when it is of no more use and nobody speaks on it."""

    def __init__(self, path: str, *, spare: bool = False) -> None:
        from kubelet.cri.core import grpc  # its memory is for nodes with drivers

        target = Endpoint(path).target
        self.channel: grpc.aio.Channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
        self._calls = 0
        self._spare = spare

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be in use."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._settle()

    def let_go(self) -> None:
        """Close after the last call."""
        self._spare = True
        self._settle()

    def _settle(self) -> None:
        if self._spare and not self._calls:
            task = asyncio.get_running_loop().create_task(self.channel.close())
            _closing.add(task)  # the loop itself remembers a task only weakly
            task.add_done_callback(_closing.discard)


class Driver:
    """A driver that has registered itself, for as long as it stays so."""

    def __init__(
        self, name: str, endpoint: str, node_id: str = "", version: tuple[int, ...] = (1, 0)
    ) -> None:
        self.name = name
        self.endpoint = endpoint  # the path of its socket
        self.node_id = node_id  # what it calls this node
        self.version = version  # of CSI, the highest that both know
        self._line: Line | None = None
        self._retired = False
        self._capabilities: frozenset[int] | None = None

    def __repr__(self) -> str:
        return f"Driver({self.name!r}, {self.endpoint!r})"

    async def capabilities(self) -> frozenset[int]:
        """Return what its node service can do: values of NodeServiceCapability.RPC.Type."""
        if self._capabilities is None:
            from procs.volumes.csi.wire import csi_pb2 as pb  # with the first driver

            request = pb.NodeGetCapabilitiesRequest()
            reply = await self.call("NodeGetCapabilities", request, pb.NodeGetCapabilitiesResponse)
            found = frozenset(c.rpc.type for c in reply.capabilities if c.HasField("rpc"))
            self._capabilities = frozenset(int(kind) for kind in found)
        return self._capabilities

    async def call(
        self, method: str, request: Message, reply: type[R], seconds: float = CALL_SECONDS
    ) -> R:
        """Make a call and return the answer; CsiError says why there is none.

        A driver that dies is noticed at once, one that hangs when the time is over.
        """
        line = self._line or self._open()
        with line.held():
            return await self._call(line, method, request, reply, seconds)

    async def _call(
        self, line: Line, method: str, request: Message, reply: type[R], seconds: float
    ) -> R:
        from google.protobuf.message import DecodeError

        from kubelet.cri.core import grpc

        call: Any = line.channel.unary_unary(f"/csi.v1.{service(method)}/{method}")
        try:
            data = await call(request.SerializeToString(), timeout=seconds)
            return reply.FromString(data)
        except grpc.aio.AioRpcError as failure:
            raise self._error(line, method, request, failure, seconds) from None
        except DecodeError:
            why = f"its answer is no {reply.__name__}"
            raise CsiError(self.name, method, Code.INTERNAL.value, why) from None

    def retire(self) -> None:
        """Hold no connection beyond the calls that are under way."""
        self._retired = True
        self._drop(self._line)

    def _open(self) -> Line:
        line = Line(self.endpoint, spare=self._retired)
        if not self._retired:
            self._line = line
        return line

    def _drop(self, line: Line | None) -> None:
        if line is not None:
            line.let_go()
            if self._line is line:
                self._line = None

    def _error(
        self,
        line: Line,
        method: str,
        request: Message,
        failure: grpc.aio.AioRpcError,
        seconds: float,
    ) -> CsiError:
        details = failure.details() or ""
        code = int(failure.code().value[0])
        if code in (Code.UNAVAILABLE.value, Code.UNKNOWN.value) and transport_fault(details):
            self._drop(line)  # the next call connects anew, without waiting for its turn
            why = f"nobody answers at {self.endpoint}: {unwrapped(details)}"
            return CsiError(self.name, method, Code.UNAVAILABLE.value, why)
        if code == Code.DEADLINE_EXCEEDED.value:
            details = f"no answer within {seconds:g} s ({details})"
        return CsiError(self.name, method, code, _without_secrets(details, request))


def service(method: str) -> str:
    """Return the service that a method belongs to."""
    if method.startswith("Node"):
        return "Node"
    return "Identity" if method in _IDENTITY else "Controller"


def path_problem(path: str) -> str:
    """Return what keeps a path from being a socket's address; "" if nothing does."""
    if not path.startswith("/"):
        return "it is not an absolute path"
    if not path.isprintable():
        return "it has characters that cannot be printed"
    size = len(os.fsencode(path))
    if size > MAX_SOCKET_PATH:
        return f"it has {size} bytes, the kernel allows {MAX_SOCKET_PATH}"
    return ""


def _without_secrets(text: str, request: Any) -> str:
    """Return a driver's words without what it was told in confidence."""
    known = request.DESCRIPTOR.fields_by_name
    values = list(request.secrets.values()) if "secrets" in known else []
    if "volume_context" in known and _TOKENS in request.volume_context:
        values.append(request.volume_context[_TOKENS])
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _LEAST_SECRET:
            text = text.replace(value, "<secret>")
    return text
