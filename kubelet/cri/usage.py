"""Calls about what pods and containers use."""

from __future__ import annotations

from kubelet.cri import api_pb2 as pb
from kubelet.cri.service import Service, present


class UsageCalls(Service):
    """Statistics and metrics, of one or of all."""

    async def container_stats(self, container_id: str) -> pb.ContainerStats:
        """What one container uses."""
        request = pb.ContainerStatsRequest(container_id=container_id)
        name = "ContainerStats"
        answer = await self._call(name, request, pb.ContainerStatsResponse, container_id)
        return present(answer, "stats", name, container_id).stats

    async def list_container_stats(
        self,
        filter: pb.ContainerStatsFilter | None = None,  # noqa: A002 - the field's name
    ) -> list[pb.ContainerStats]:
        """What every container uses, or those that the filter lets through."""
        request = pb.ListContainerStatsRequest(filter=filter)
        answer = await self._call("ListContainerStats", request, pb.ListContainerStatsResponse)
        return list(answer.stats)

    async def stream_container_stats(
        self,
        filter: pb.ContainerStatsFilter | None = None,  # noqa: A002 - as above
    ) -> list[pb.ContainerStats]:
        """The same in parts, or else in one."""
        request = pb.StreamContainerStatsRequest(filter=filter)
        answer = pb.StreamContainerStatsResponse
        parts = await self._streamed("StreamContainerStats", request, answer)
        if parts is None:
            return await self.list_container_stats(filter)
        return [stats for part in parts for stats in part.container_stats]

    async def pod_sandbox_stats(self, sandbox_id: str) -> pb.PodSandboxStats:
        """What one pod uses."""
        request = pb.PodSandboxStatsRequest(pod_sandbox_id=sandbox_id)
        name = "PodSandboxStats"
        answer = await self._call(name, request, pb.PodSandboxStatsResponse, sandbox_id)
        return present(answer, "stats", name, sandbox_id).stats

    async def list_pod_sandbox_stats(
        self,
        filter: pb.PodSandboxStatsFilter | None = None,  # noqa: A002 - as above
    ) -> list[pb.PodSandboxStats]:
        """What every pod uses, or those that the filter lets through."""
        request = pb.ListPodSandboxStatsRequest(filter=filter)
        answer = await self._call("ListPodSandboxStats", request, pb.ListPodSandboxStatsResponse)
        return list(answer.stats)

    async def stream_pod_sandbox_stats(
        self,
        filter: pb.PodSandboxStatsFilter | None = None,  # noqa: A002 - as above
    ) -> list[pb.PodSandboxStats]:
        """The same in parts, or else in one."""
        request = pb.StreamPodSandboxStatsRequest(filter=filter)
        answer = pb.StreamPodSandboxStatsResponse
        parts = await self._streamed("StreamPodSandboxStats", request, answer)
        if parts is None:
            return await self.list_pod_sandbox_stats(filter)
        return [stats for part in parts for stats in part.pod_sandbox_stats]

    async def list_metric_descriptors(self) -> list[pb.MetricDescriptor]:
        """What the runtime's own metrics are called and mean."""
        request = pb.ListMetricDescriptorsRequest()
        answer = pb.ListMetricDescriptorsResponse
        return list((await self._call("ListMetricDescriptors", request, answer)).descriptors)

    async def list_pod_sandbox_metrics(self) -> list[pb.PodSandboxMetrics]:
        """The runtime's own metrics of every pod."""
        request = pb.ListPodSandboxMetricsRequest()
        answer = pb.ListPodSandboxMetricsResponse
        return list((await self._call("ListPodSandboxMetrics", request, answer)).pod_metrics)

    async def stream_pod_sandbox_metrics(self) -> list[pb.PodSandboxMetrics]:
        """The same in parts, or else in one."""
        request = pb.StreamPodSandboxMetricsRequest()
        answer = pb.StreamPodSandboxMetricsResponse
        parts = await self._streamed("StreamPodSandboxMetrics", request, answer)
        if parts is None:
            return await self.list_pod_sandbox_metrics()
        return [metrics for part in parts for metrics in part.pod_sandbox_metrics]
