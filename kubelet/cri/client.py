"""The typed client: one coroutine for each call of the interface, named as the call is.

``await RuntimeClient.connect("unix:///run/containerd/containerd.sock")`` opens a channel in this
process. Answers are the messages of ``api_pb2``; failures are the exceptions of ``errors``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import ClassVar, Final

from kubelet.cri import api_pb2 as pb
from kubelet.cri.connection import Call, Connection, Observe
from kubelet.cri.containers import ContainerCalls
from kubelet.cri.errors import BadReply, Code, Unimplemented, VersionNotSupported
from kubelet.cri.images import ImageClient
from kubelet.cri.pods import PodCalls
from kubelet.cri.service import present
from kubelet.cri.usage import UsageCalls

__all__ = ["Call", "ImageClient", "Observe", "RuntimeClient"]

API_VERSION: Final = "0.1.0"  # of the runtime.v1 messages; it has not changed since they exist
VERSION_TTL_NS: Final = 60 * 10**9


class RuntimeClient(PodCalls, ContainerCalls, UsageCalls):
    """The runtime service."""

    SERVICE: ClassVar[str] = "RuntimeService"

    def __init__(self, connection: Connection, timeout: float, clock: Callable[[], int]) -> None:
        super().__init__(connection, timeout, clock)
        self._version: tuple[int, pb.VersionResponse] | None = None

    async def version(self, *, fresh: bool = False) -> pb.VersionResponse:
        """Who the runtime is; VersionNotSupported unless it speaks runtime.v1.

        Remembered for a minute; a fresh answer is asked for at the start and after an outage.
        """
        if not fresh and self._version and self._clock() - self._version[0] < VERSION_TTL_NS:
            return self._version[1]
        asked = self._clock()
        answer = await self._checked_version()
        self._version = (asked, answer)
        return answer

    async def _checked_version(self) -> pb.VersionResponse:
        request, name = pb.VersionRequest(version=API_VERSION), "Version"
        try:
            answer = await self._call(name, request, pb.VersionResponse)
        except Unimplemented as error:
            why = f"{self.endpoint} serves gRPC, and not runtime.v1: {error.message}"
            raise VersionNotSupported(Code.UNIMPLEMENTED, why, name) from error
        wanted = ("version", "runtime_name", "runtime_version", "runtime_api_version")
        missing = [field for field in wanted if not getattr(answer, field)]
        if missing:
            raise BadReply(f"not set: {', '.join(missing)}", name)
        if answer.version != API_VERSION:
            why = (
                f"{answer.runtime_name} {answer.runtime_version} speaks version {answer.version!r}"
                f" of the interface, only {API_VERSION!r} is supported"
            )
            raise VersionNotSupported(Code.FAILED_PRECONDITION, why, name)
        return answer

    async def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        """Whether runtime and network are ready, and what the runtime can do."""
        request = pb.StatusRequest(verbose=verbose)
        return present(await self._call("Status", request, pb.StatusResponse), "status", "Status")

    async def runtime_config(self) -> pb.RuntimeConfigResponse:
        """How the runtime is set up; ``driver.cgroup_driver`` reads it."""
        request = pb.RuntimeConfigRequest()
        return await self._call("RuntimeConfig", request, pb.RuntimeConfigResponse)

    async def update_runtime_config(self, config: pb.RuntimeConfig) -> None:
        """Tell the runtime the node's pod addresses."""
        request = pb.UpdateRuntimeConfigRequest(runtime_config=config)
        await self._call("UpdateRuntimeConfig", request, pb.UpdateRuntimeConfigResponse)

    def get_container_events(self) -> AsyncGenerator[pb.ContainerEventResponse, None]:
        """What happens to containers, from now on, until the stream breaks.

        Unimplemented on a runtime without it. A stream that the runtime ends is a loop that ends.
        Use it within ``contextlib.aclosing``.
        """
        request, answer = pb.GetEventsRequest(), pb.ContainerEventResponse
        return self._endless("GetContainerEvents", request, answer)
