"""RuntimeService: each RPC, from a request to the engine's work to an answer."""
# ruff: noqa: N802 - each method has the name of its RPC

from __future__ import annotations

import asyncio
import io
import tarfile
import time
from collections.abc import AsyncIterator

from kubelet.cri import api_pb2 as pb

from . import messages
from .engine import Engine
from .executor import exec_sync
from .model import READY, RUNNING, Container, Sandbox, SimError
from .streaming import Streaming

VERSION = "0.1.0"
CHUNK = 500  # items in one message of a streamed list


class RuntimeService:
    """The answers of RuntimeService, one method for each RPC, named as the RPC."""

    def __init__(self, engine: Engine, streaming: Streaming, cgroup_driver: int) -> None:
        self._engine = engine
        self._world = engine.world
        self._streaming = streaming
        self._cgroup_driver = cgroup_driver
        self.conditions = {
            "RuntimeReady": pb.RuntimeCondition(type="RuntimeReady", status=True),
            "NetworkReady": pb.RuntimeCondition(type="NetworkReady", status=True),
        }

    # The runtime itself.

    async def Version(self, _request: pb.VersionRequest) -> pb.VersionResponse:
        return pb.VersionResponse(
            version=VERSION,
            runtime_name="simulated",
            runtime_version="v1.0.0",
            runtime_api_version="v1",
        )

    async def Status(self, request: pb.StatusRequest) -> pb.StatusResponse:
        answer = pb.StatusResponse()
        answer.status.conditions.extend(self.conditions.values())
        for name in self._engine.settings.handlers:
            handler = answer.runtime_handlers.add(name=name)
            handler.features.recursive_read_only_mounts = True
            handler.features.user_namespaces = False
        answer.features.supplemental_groups_policy = True
        if request.verbose:
            answer.info["config"] = '{"simulated":true}'
        return answer

    async def RuntimeConfig(self, _request: pb.RuntimeConfigRequest) -> pb.RuntimeConfigResponse:
        answer = pb.RuntimeConfigResponse()
        answer.linux.cgroup_driver = self._cgroup_driver
        return answer

    async def UpdateRuntimeConfig(
        self, _request: pb.UpdateRuntimeConfigRequest
    ) -> pb.UpdateRuntimeConfigResponse:
        return pb.UpdateRuntimeConfigResponse()

    # Sandboxes.

    async def RunPodSandbox(self, request: pb.RunPodSandboxRequest) -> pb.RunPodSandboxResponse:
        sandbox = self._engine.run_sandbox(request.config, request.runtime_handler)
        return pb.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    async def StopPodSandbox(self, request: pb.StopPodSandboxRequest) -> pb.StopPodSandboxResponse:
        sandbox = self._maybe_sandbox(request.pod_sandbox_id)
        if sandbox is not None:
            await self._engine.stop_sandbox(sandbox)
        return pb.StopPodSandboxResponse()

    async def RemovePodSandbox(
        self, request: pb.RemovePodSandboxRequest
    ) -> pb.RemovePodSandboxResponse:
        sandbox = self._maybe_sandbox(request.pod_sandbox_id)
        if sandbox is not None:
            await self._engine.remove_sandbox(sandbox)
        return pb.RemovePodSandboxResponse()

    async def PodSandboxStatus(
        self, request: pb.PodSandboxStatusRequest
    ) -> pb.PodSandboxStatusResponse:
        sandbox = self._world.sandbox(request.pod_sandbox_id)
        answer = pb.PodSandboxStatusResponse(status=messages.sandbox_status(sandbox))
        answer.timestamp = time.time_ns()
        members = self._world.in_sandbox(sandbox.id)
        answer.containers_statuses.extend(messages.container_status(c) for c in members)
        if request.verbose:
            answer.info.update(messages.sandbox_info(sandbox))
        return answer

    async def ListPodSandbox(self, request: pb.ListPodSandboxRequest) -> bytes:
        return messages.sandbox_list(self._sandboxes(request.filter))

    async def StreamPodSandboxes(
        self, request: pb.StreamPodSandboxesRequest
    ) -> AsyncIterator[bytes]:
        found = self._sandboxes(request.filter)
        for start in range(0, len(found), CHUNK):
            yield messages.sandbox_list(found[start : start + CHUNK])

    async def UpdatePodSandboxResources(
        self, request: pb.UpdatePodSandboxResourcesRequest
    ) -> pb.UpdatePodSandboxResourcesResponse:
        sandbox = self._world.sandbox(request.pod_sandbox_id)
        sandbox.config.linux.resources.MergeFrom(request.resources)
        sandbox.config.linux.overhead.MergeFrom(request.overhead)
        sandbox.touch()
        self._engine.changed()
        return pb.UpdatePodSandboxResourcesResponse()

    # Containers.

    async def CreateContainer(
        self, request: pb.CreateContainerRequest
    ) -> pb.CreateContainerResponse:
        container = self._engine.create(request.pod_sandbox_id, request.config)
        return pb.CreateContainerResponse(container_id=container.id)

    async def StartContainer(self, request: pb.StartContainerRequest) -> pb.StartContainerResponse:
        await self._engine.start(self._world.container(request.container_id))
        return pb.StartContainerResponse()

    async def StopContainer(self, request: pb.StopContainerRequest) -> pb.StopContainerResponse:
        container = self._maybe_container(request.container_id)
        if container is not None:
            await self._engine.stop(container, request.timeout)
        return pb.StopContainerResponse()

    async def RemoveContainer(
        self, request: pb.RemoveContainerRequest
    ) -> pb.RemoveContainerResponse:
        container = self._maybe_container(request.container_id)
        if container is not None:
            await self._engine.remove(container)
        return pb.RemoveContainerResponse()

    async def ListContainers(self, request: pb.ListContainersRequest) -> bytes:
        return messages.container_list(self._containers(request.filter))

    async def StreamContainers(self, request: pb.StreamContainersRequest) -> AsyncIterator[bytes]:
        found = self._containers(request.filter)
        for start in range(0, len(found), CHUNK):
            yield messages.container_list(found[start : start + CHUNK])

    async def ContainerStatus(
        self, request: pb.ContainerStatusRequest
    ) -> pb.ContainerStatusResponse:
        container = self._world.container(request.container_id)
        answer = pb.ContainerStatusResponse(status=messages.container_status(container))
        if request.verbose:
            answer.info.update(messages.container_info(container))
        return answer

    async def UpdateContainerResources(
        self, request: pb.UpdateContainerResourcesRequest
    ) -> pb.UpdateContainerResourcesResponse:
        container = self._world.container(request.container_id)
        container.config.linux.resources.MergeFrom(request.linux)
        container.config.annotations.update(request.annotations)
        container.touch()
        self._engine.changed()
        return pb.UpdateContainerResourcesResponse()

    async def ReopenContainerLog(
        self, request: pb.ReopenContainerLogRequest
    ) -> pb.ReopenContainerLogResponse:
        container = self._running(request.container_id)
        runner = self._engine.runners.get(container.id)
        if runner is not None:  # what nobody started has no log either
            runner.log.reopen()
        return pb.ReopenContainerLogResponse()

    async def CheckpointContainer(
        self, request: pb.CheckpointContainerRequest
    ) -> pb.CheckpointContainerResponse:
        container = self._running(request.container_id)
        with tarfile.open(request.location, "w") as archive:
            info = tarfile.TarInfo("container.json")
            text = container.to_json().encode()
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
        return pb.CheckpointContainerResponse()

    def GetContainerEvents(
        self, _request: pb.GetEventsRequest
    ) -> AsyncIterator[pb.ContainerEventResponse]:
        return self._events(self._engine.events.subscribe())

    async def _events(
        self, queue: asyncio.Queue[pb.ContainerEventResponse | None]
    ) -> AsyncIterator[pb.ContainerEventResponse]:
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._engine.events.unsubscribe(queue)
        raise SimError("UNAVAILABLE", "the event stream was broken on purpose")

    # Exec and streams.

    async def ExecSync(self, request: pb.ExecSyncRequest) -> pb.ExecSyncResponse:
        container = self._running(request.container_id)
        shell = self._engine.shell(container)
        result = await exec_sync(shell, tuple(request.cmd), request.timeout or None)
        if result is None:
            text = f"failed to exec in container: timeout {request.timeout}s exceeded"
            raise SimError("DEADLINE_EXCEEDED", text)
        return pb.ExecSyncResponse(
            stdout=result.stdout, stderr=result.stderr, exit_code=result.code
        )

    async def Exec(self, request: pb.ExecRequest) -> pb.ExecResponse:
        self._running(request.container_id)
        return pb.ExecResponse(url=self._streaming.url("exec", request))

    async def Attach(self, request: pb.AttachRequest) -> pb.AttachResponse:
        self._running(request.container_id)
        return pb.AttachResponse(url=self._streaming.url("attach", request))

    async def PortForward(self, request: pb.PortForwardRequest) -> pb.PortForwardResponse:
        sandbox = self._world.sandbox(request.pod_sandbox_id)
        if sandbox.state != READY:
            raise SimError("UNKNOWN", f'sandbox "{sandbox.id}" is not running')
        return pb.PortForwardResponse(url=self._streaming.url("portforward", request))

    # Finding.

    def _maybe_sandbox(self, sandbox_id: str) -> Sandbox | None:
        try:
            return self._world.sandbox(sandbox_id)
        except SimError:
            return None  # stopping or removing what is not there is no error

    def _maybe_container(self, container_id: str) -> Container | None:
        try:
            return self._world.container(container_id)
        except SimError:
            return None

    def _running(self, container_id: str) -> Container:
        container = self._world.container(container_id)
        if container.state != RUNNING:
            raise SimError("UNKNOWN", f'container "{container.id}" is not in running state')
        return container

    def _sandboxes(self, wanted: pb.PodSandboxFilter) -> list[Sandbox]:
        return [
            s
            for s in self._world.sandboxes.values()
            if (not wanted.id or s.id.startswith(wanted.id))
            and (not wanted.HasField("state") or s.state == wanted.state.state)
            and messages.matches(s.config.labels, wanted.label_selector)
        ]

    def _containers(self, wanted: pb.ContainerFilter) -> list[Container]:
        if wanted.ByteSize() == 0:
            return list(self._world.containers.values())
        return [
            c
            for c in self._world.containers.values()
            if (not wanted.id or c.id.startswith(wanted.id))
            and (not wanted.pod_sandbox_id or c.sandbox_id.startswith(wanted.pod_sandbox_id))
            and (not wanted.HasField("state") or c.state == wanted.state.state)
            and messages.matches(c.config.labels, wanted.label_selector)
        ]
