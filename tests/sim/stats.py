"""Statistics: numbers that grow as a container's would, the same for one container and time."""

from __future__ import annotations

import zlib

from kubelet.cri import api_pb2 as pb

from .model import RUNNING, Container, Sandbox

MIB = 1 << 20


def nano_cores(container_id: str) -> int:
    """The steady use of a container: 1 to 64 millicores."""
    return (1 + zlib.crc32(container_id.encode()) % 64) * 1_000_000


def memory_bytes(container_id: str) -> int:
    """The steady memory of a container: 4 to 67 MiB."""
    return (4 + zlib.crc32(container_id.encode()) // 64 % 64) * MIB


def of_container(container: Container, now: int, mountpoint: str) -> pb.ContainerStats:
    """What a container uses now."""
    stats = pb.ContainerStats()
    stats.attributes.id = container.id
    stats.attributes.metadata.CopyFrom(container.config.metadata)
    stats.attributes.labels.update(container.config.labels)
    stats.attributes.annotations.update(container.config.annotations)
    stats.writable_layer.timestamp = now
    stats.writable_layer.fs_id.mountpoint = mountpoint
    stats.writable_layer.used_bytes.value = 4096 * 8
    stats.writable_layer.inodes_used.value = 8
    if container.state == RUNNING:
        _cpu(stats.cpu, now, nano_cores(container.id), now - container.started_at)
        limit = container.config.linux.resources.memory_limit_in_bytes
        _memory(stats.memory, now, memory_bytes(container.id), limit)
        stats.swap.timestamp = now
        stats.swap.swap_usage_bytes.value = 0
        stats.swap.swap_available_bytes.value = 0
    return stats


def _cpu(cpu: pb.CpuUsage, now: int, cores: int, age: int) -> None:
    cpu.timestamp = now
    cpu.usage_nano_cores.value = cores
    cpu.usage_core_nano_seconds.value = max(0, age) * cores // 1_000_000_000


def _memory(memory: pb.MemoryUsage, now: int, used: int, limit: int) -> None:
    if limit:
        used = min(used, limit * 9 // 10)
        memory.available_bytes.value = limit - used
    memory.timestamp = now
    memory.usage_bytes.value = used
    memory.working_set_bytes.value = used * 9 // 10
    memory.rss_bytes.value = used * 8 // 10
    memory.page_faults.value = used // 4096
    memory.major_page_faults.value = 0


def of_sandbox(
    sandbox: Sandbox, containers: list[Container], now: int, mountpoint: str
) -> pb.PodSandboxStats:
    """What a pod uses now: the sum of its containers, and a network."""
    stats = pb.PodSandboxStats()
    stats.attributes.id = sandbox.id
    stats.attributes.metadata.CopyFrom(sandbox.config.metadata)
    stats.attributes.labels.update(sandbox.config.labels)
    stats.attributes.annotations.update(sandbox.config.annotations)
    running = [c for c in containers if c.state == RUNNING]
    linux = stats.linux
    linux.containers.extend(of_container(c, now, mountpoint) for c in running)
    cores = sum(nano_cores(c.id) for c in running)
    _cpu(linux.cpu, now, cores, now - sandbox.created_at)
    _memory(linux.memory, now, sum(memory_bytes(c.id) for c in running), 0)
    linux.process.timestamp = now
    linux.process.process_count.value = 1 + len(running)
    seconds = max(0, now - sandbox.created_at) // 1_000_000_000
    linux.network.timestamp = now
    network = linux.network.default_interface
    network.name = "eth0"
    network.rx_bytes.value, network.tx_bytes.value = seconds * 1000, seconds * 600
    network.rx_errors.value = network.tx_errors.value = 0
    linux.network.interfaces.append(network)
    return stats
