"""Calls about sandboxes, the shells of pods."""

from __future__ import annotations

from kubelet.cri import api_pb2 as pb
from kubelet.cri.service import Service, present, required


class PodCalls(Service):
    """Sandboxes: run, stop, remove, look."""

    async def run_pod_sandbox(self, config: pb.PodSandboxConfig, runtime_handler: str = "") -> str:
        """Create and start a sandbox; its ID. May take twice as long as other calls."""
        request = pb.RunPodSandboxRequest(config=config, runtime_handler=runtime_handler)
        about = _pod(config)
        answer = await self._call("RunPodSandbox", request, pb.RunPodSandboxResponse, about)
        return required(answer.pod_sandbox_id, "pod_sandbox_id", "RunPodSandbox", about)

    async def stop_pod_sandbox(self, sandbox_id: str) -> bool:
        """Stop a sandbox, its containers and its network; False when there is none."""
        request = pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        return await self._gone("StopPodSandbox", request, pb.StopPodSandboxResponse, sandbox_id)

    async def remove_pod_sandbox(self, sandbox_id: str) -> bool:
        """Remove a sandbox and all in it, running or not; False when there is none."""
        request = pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        return await self._gone(
            "RemovePodSandbox", request, pb.RemovePodSandboxResponse, sandbox_id
        )

    async def pod_sandbox_status(
        self, sandbox_id: str, *, verbose: bool = False
    ) -> pb.PodSandboxStatusResponse:
        """Look at one sandbox; NotFound when there is none."""
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=verbose)
        name = "PodSandboxStatus"
        answer = await self._call(name, request, pb.PodSandboxStatusResponse, sandbox_id)
        return present(answer, "status", name, sandbox_id)

    async def list_pod_sandbox(
        self,
        filter: pb.PodSandboxFilter | None = None,  # noqa: A002 - the field's name
    ) -> list[pb.PodSandbox]:
        """Every sandbox in any state, or those that the filter lets through."""
        request = pb.ListPodSandboxRequest(filter=filter)
        answer = await self._call("ListPodSandbox", request, pb.ListPodSandboxResponse)
        return list(answer.items)

    async def stream_pod_sandboxes(
        self,
        filter: pb.PodSandboxFilter | None = None,  # noqa: A002 - as above
    ) -> list[pb.PodSandbox]:
        """The same in parts, so that no list is too long for a message; or else in one."""
        request = pb.StreamPodSandboxesRequest(filter=filter)
        parts = await self._streamed("StreamPodSandboxes", request, pb.StreamPodSandboxesResponse)
        if parts is None:
            return await self.list_pod_sandbox(filter)
        return [sandbox for part in parts for sandbox in part.pod_sandboxes]

    async def update_pod_sandbox_resources(
        self,
        sandbox_id: str,
        overhead: pb.LinuxContainerResources | None = None,
        resources: pb.LinuxContainerResources | None = None,
    ) -> None:
        """Tell the runtime that the pod's cgroup has other limits now."""
        request = pb.UpdatePodSandboxResourcesRequest(
            pod_sandbox_id=sandbox_id, overhead=overhead, resources=resources
        )
        await self._call(
            "UpdatePodSandboxResources", request, pb.UpdatePodSandboxResourcesResponse, sandbox_id
        )

    async def port_forward(self, sandbox_id: str, ports: list[int]) -> str:
        """Prepare a stream to ports of a pod; the address to open it at."""
        request = pb.PortForwardRequest(pod_sandbox_id=sandbox_id, port=ports)
        answer = await self._call("PortForward", request, pb.PortForwardResponse, sandbox_id)
        return required(answer.url, "url", "PortForward", sandbox_id)

    async def checkpoint_pod(self, request: pb.CheckpointPodRequest, seconds: float = 0.0) -> None:
        """Write the state of a whole pod to a file, within the time given or else the usual one."""
        about = request.pod_sandbox_id
        await self._call("CheckpointPod", request, pb.CheckpointPodResponse, about, seconds)

    async def restore_pod(
        self, request: pb.RestorePodRequest, seconds: float = 0.0
    ) -> pb.RestorePodResponse:
        """Bring a pod back from such a file."""
        about = request.checkpoint_path
        return await self._call("RestorePod", request, pb.RestorePodResponse, about, seconds)


def _pod(config: pb.PodSandboxConfig) -> str:
    return f"{config.metadata.namespace}/{config.metadata.name}"
