"""The part of RuntimeService that counts: statistics and metrics."""
# ruff: noqa: N802 - each method has the name of its RPC

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from kubelet.cri import api_pb2 as pb

from . import messages, stats
from .engine import Engine
from .model import READY, RUNNING, Container, Sandbox

CHUNK = 500
_METRICS = (
    ("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", pb.COUNTER),
    ("container_memory_usage_bytes", "Current memory usage in bytes.", pb.GAUGE),
)


class StatsService:
    """The statistics of RuntimeService, one method for each RPC, named as the RPC."""

    def __init__(self, engine: Engine) -> None:
        self._world = engine.world
        self._mountpoint = engine.settings.mountpoint

    async def ContainerStats(self, request: pb.ContainerStatsRequest) -> pb.ContainerStatsResponse:
        container = self._world.container(request.container_id)
        return pb.ContainerStatsResponse(stats=self._of(container))

    async def ListContainerStats(
        self, request: pb.ListContainerStatsRequest
    ) -> pb.ListContainerStatsResponse:
        found = self._containers(request.filter)
        return pb.ListContainerStatsResponse(stats=[self._of(c) for c in found])

    async def StreamContainerStats(
        self, request: pb.StreamContainerStatsRequest
    ) -> AsyncIterator[pb.StreamContainerStatsResponse]:
        found = self._containers(request.filter)
        for start in range(0, len(found), CHUNK):
            part = [self._of(c) for c in found[start : start + CHUNK]]
            yield pb.StreamContainerStatsResponse(container_stats=part)

    async def PodSandboxStats(
        self, request: pb.PodSandboxStatsRequest
    ) -> pb.PodSandboxStatsResponse:
        sandbox = self._world.sandbox(request.pod_sandbox_id)
        return pb.PodSandboxStatsResponse(stats=self._of_pod(sandbox))

    async def ListPodSandboxStats(
        self, request: pb.ListPodSandboxStatsRequest
    ) -> pb.ListPodSandboxStatsResponse:
        found = self._sandboxes(request.filter)
        return pb.ListPodSandboxStatsResponse(stats=[self._of_pod(s) for s in found])

    async def StreamPodSandboxStats(
        self, request: pb.StreamPodSandboxStatsRequest
    ) -> AsyncIterator[pb.StreamPodSandboxStatsResponse]:
        found = self._sandboxes(request.filter)
        for start in range(0, len(found), CHUNK):
            part = [self._of_pod(s) for s in found[start : start + CHUNK]]
            yield pb.StreamPodSandboxStatsResponse(pod_sandbox_stats=part)

    async def ListMetricDescriptors(
        self, _request: pb.ListMetricDescriptorsRequest
    ) -> pb.ListMetricDescriptorsResponse:
        keys = ["container", "namespace", "pod"]
        rows = [pb.MetricDescriptor(name=n, help=h, label_keys=keys) for n, h, _t in _METRICS]
        return pb.ListMetricDescriptorsResponse(descriptors=rows)

    async def ListPodSandboxMetrics(
        self, _request: pb.ListPodSandboxMetricsRequest
    ) -> pb.ListPodSandboxMetricsResponse:
        return pb.ListPodSandboxMetricsResponse(pod_metrics=self._metrics())

    async def StreamPodSandboxMetrics(
        self, _request: pb.StreamPodSandboxMetricsRequest
    ) -> AsyncIterator[pb.StreamPodSandboxMetricsResponse]:
        yield pb.StreamPodSandboxMetricsResponse(pod_sandbox_metrics=self._metrics())

    def _of(self, container: Container) -> pb.ContainerStats:
        return stats.of_container(container, time.time_ns(), self._mountpoint)

    def _of_pod(self, sandbox: Sandbox) -> pb.PodSandboxStats:
        members = self._world.in_sandbox(sandbox.id)
        return stats.of_sandbox(sandbox, members, time.time_ns(), self._mountpoint)

    def _containers(self, wanted: pb.ContainerStatsFilter) -> list[Container]:
        return [
            c
            for c in self._world.containers.values()
            if c.state == RUNNING
            and (not wanted.id or c.id.startswith(wanted.id))
            and (not wanted.pod_sandbox_id or c.sandbox_id.startswith(wanted.pod_sandbox_id))
            and messages.matches(c.config.labels, wanted.label_selector)
        ]

    def _sandboxes(self, wanted: pb.PodSandboxStatsFilter) -> list[Sandbox]:
        return [
            s
            for s in self._world.sandboxes.values()
            if s.state == READY
            and (not wanted.id or s.id.startswith(wanted.id))
            and messages.matches(s.config.labels, wanted.label_selector)
        ]

    def _metrics(self) -> list[pb.PodSandboxMetrics]:
        now = time.time_ns()
        rows = []
        for sandbox in self._sandboxes(pb.PodSandboxStatsFilter()):
            meta = sandbox.config.metadata
            row = pb.PodSandboxMetrics(pod_sandbox_id=sandbox.id)
            for container in self._world.in_sandbox(sandbox.id):
                if container.state == RUNNING:
                    metrics = row.container_metrics.add(container_id=container.id)
                    labels = [container.config.metadata.name, meta.namespace, meta.name]
                    _measure(metrics, self._of(container), labels, now)
            rows.append(row)
        return rows


def _measure(
    metrics: pb.ContainerMetrics, measured: pb.ContainerStats, labels: list[str], now: int
) -> None:
    values = (
        measured.cpu.usage_core_nano_seconds.value // 1_000_000_000,
        measured.memory.usage_bytes.value,
    )
    for (name, _help, kind), value in zip(_METRICS, values, strict=True):
        metric = metrics.metrics.add(name=name, timestamp=now, metric_type=kind)
        metric.label_values.extend(labels)
        metric.value.value = value
