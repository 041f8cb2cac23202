"""Calls about containers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kubelet.cri import api_pb2 as pb
from kubelet.cri.service import Service, present, required


class ContainerCalls(Service):
    """Containers: create, start, stop, remove, look, and run commands in them."""

    async def create_container(
        self, sandbox_id: str, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig
    ) -> str:
        """Create a container in a sandbox, not started yet; its ID."""
        request = pb.CreateContainerRequest(
            pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox_config
        )
        about = f"{config.metadata.name} in {sandbox_id}"
        answer = await self._call("CreateContainer", request, pb.CreateContainerResponse, about)
        return required(answer.container_id, "container_id", "CreateContainer", about)

    async def start_container(self, container_id: str) -> None:
        """Start a container that was created."""
        request = pb.StartContainerRequest(container_id=container_id)
        await self._call("StartContainer", request, pb.StartContainerResponse, container_id)

    async def stop_container(self, container_id: str, grace: int) -> bool:
        """Stop a container, by force after ``grace`` seconds; False when there is none."""
        request = pb.StopContainerRequest(container_id=container_id, timeout=grace)
        answer = pb.StopContainerResponse
        return await self._gone("StopContainer", request, answer, container_id, grace)

    async def remove_container(self, container_id: str) -> bool:
        """Remove a container, running or not; False when there is none."""
        request = pb.RemoveContainerRequest(container_id=container_id)
        answer = pb.RemoveContainerResponse
        return await self._gone("RemoveContainer", request, answer, container_id)

    async def list_containers(
        self,
        filter: pb.ContainerFilter | None = None,  # noqa: A002 - the field's name
    ) -> list[pb.Container]:
        """Every container in any state, or those that the filter lets through."""
        request = pb.ListContainersRequest(filter=filter)
        answer = await self._call("ListContainers", request, pb.ListContainersResponse)
        return list(answer.containers)

    async def stream_containers(
        self,
        filter: pb.ContainerFilter | None = None,  # noqa: A002 - as above
    ) -> list[pb.Container]:
        """The same in parts, so that no list is too long for a message; or else in one."""
        request = pb.StreamContainersRequest(filter=filter)
        parts = await self._streamed("StreamContainers", request, pb.StreamContainersResponse)
        if parts is None:
            return await self.list_containers(filter)
        return [container for part in parts for container in part.containers]

    async def container_status(
        self, container_id: str, *, verbose: bool = False
    ) -> pb.ContainerStatusResponse:
        """Look at one container; NotFound when there is none. ``info.init_pid`` reads the pid."""
        request = pb.ContainerStatusRequest(container_id=container_id, verbose=verbose)
        name = "ContainerStatus"
        answer = await self._call(name, request, pb.ContainerStatusResponse, container_id)
        return present(answer, "status", name, container_id)

    async def update_container_resources(
        self,
        container_id: str,
        linux: pb.LinuxContainerResources,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Change the limits of a container while it runs."""
        request = pb.UpdateContainerResourcesRequest(
            container_id=container_id, linux=linux, annotations=annotations
        )
        answer = pb.UpdateContainerResourcesResponse
        await self._call("UpdateContainerResources", request, answer, container_id)

    async def reopen_container_log(self, container_id: str) -> None:
        """Have the log file opened anew after it was moved away."""
        request = pb.ReopenContainerLogRequest(container_id=container_id)
        await self._call("ReopenContainerLog", request, pb.ReopenContainerLogResponse, container_id)

    async def checkpoint_container(
        self, container_id: str, location: str, seconds: int = 0
    ) -> None:
        """Write the state of a container to a file."""
        request = pb.CheckpointContainerRequest(
            container_id=container_id, location=location, timeout=seconds
        )
        answer = pb.CheckpointContainerResponse
        await self._call("CheckpointContainer", request, answer, container_id, seconds)

    async def exec_sync(
        self, container_id: str, command: Sequence[str], seconds: float = 0.0
    ) -> pb.ExecSyncResponse:
        """Run a command and wait for its output and exit code; TimedOut after ``seconds``.

        Zero is no limit. The interface counts whole seconds, and a fraction must not become none.
        """
        request = pb.ExecSyncRequest(
            container_id=container_id, cmd=command, timeout=math.ceil(seconds)
        )
        answer = pb.ExecSyncResponse
        return await self._call("ExecSync", request, answer, container_id, seconds)

    async def exec(self, request: pb.ExecRequest) -> str:
        """Prepare a command with streams; the address to open them at."""
        about = request.container_id
        answer = await self._call("Exec", request, pb.ExecResponse, about)
        return required(answer.url, "url", "Exec", about)

    async def attach(self, request: pb.AttachRequest) -> str:
        """Prepare streams to the container's own process; the address to open them at."""
        about = request.container_id
        answer = await self._call("Attach", request, pb.AttachResponse, about)
        return required(answer.url, "url", "Attach", about)
