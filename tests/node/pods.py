"""Pods made by CRI calls alone, as a kubelet would make them; no kubelet takes part."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import RuntimeClient
from kubelet.cri.info import init_pid
from tests.node.images import BUSYBOX

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"
# It obeys SIGTERM at once; a plain sleep as a container's first process ignores it.
SLEEP = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 86400 & wait; done")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod in a runtime."""

    name: str
    namespace: str
    uid: str
    sandbox_id: str
    containers: Mapping[str, str]  # container name -> ID
    config: pb.PodSandboxConfig

    @property
    def container_ids(self) -> tuple[str, ...]:
        """The containers in the order in which they were started."""
        return tuple(self.containers.values())

    @property
    def container_id(self) -> str:
        """The one container of a pod that has one."""
        (only,) = self.containers.values()
        return only


async def make_pod(
    client: RuntimeClient,
    name: str,
    uid: str = "",
    command: Sequence[str] = SLEEP,
    *,
    containers: Mapping[str, Sequence[str]] | None = None,
    image: str = BUSYBOX,
    namespace: str = "default",
    attempt: int = 0,
    cgroup_parent: str = "",
    log_directory: str = "",
    port_mappings: Sequence[pb.PortMapping] = (),
    labels: Mapping[str, str] | None = None,
) -> Pod:
    """Run a sandbox and start its containers: those given by name, or one called "main".

    cgroup_parent is that of all pods (an instance's `cgroup_parent`); the pod gets its own below.
    labels, when given, stand in place of the kubelet's: a pod that no kubelet made has {}.
    """
    uid = uid or str(uuid.uuid4())
    if labels is None:
        labels = {POD_NAME: name, POD_NAMESPACE: namespace, POD_UID: uid}
    config = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=name, namespace=namespace, uid=uid, attempt=attempt),
        hostname=name,
        log_directory=log_directory,
        labels=labels,
        port_mappings=port_mappings,
        linux=pb.LinuxPodSandboxConfig(
            cgroup_parent=f"{cgroup_parent}/pod{uid}" if cgroup_parent else "",
            security_context=pb.LinuxSandboxSecurityContext(namespace_options=_namespaces()),
        ),
    )
    sandbox = await client.run_pod_sandbox(config)
    ids: dict[str, str] = {}
    pod = Pod(name, namespace, uid, sandbox, ids, config)
    for container, words in (containers or {"main": command}).items():
        ids[container] = await add_container(client, pod, container, words, image=image)
    return pod


async def add_container(
    client: RuntimeClient,
    pod: Pod,
    name: str,
    command: Sequence[str] = SLEEP,
    *,
    attempt: int = 0,
    image: str = BUSYBOX,
    start: bool = True,
) -> str:
    """Create a container in a pod, started or not; its ID. A restart is the next attempt."""
    labels = dict(pod.config.labels)
    if labels:
        labels[CONTAINER_NAME] = name
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=name, attempt=attempt),
        image=pb.ImageSpec(image=image),
        command=command,
        log_path=f"{name}/{attempt}.log" if pod.config.log_directory else "",
        labels=labels,
        annotations={"io.kubernetes.container.restartCount": str(attempt)} if labels else {},
        linux=pb.LinuxContainerConfig(
            security_context=pb.LinuxContainerSecurityContext(namespace_options=_namespaces())
        ),
    )
    container = await client.create_container(pod.sandbox_id, config, pod.config)
    if start:
        await client.start_container(container)
    return container


async def pid_of(client: RuntimeClient, container_id: str) -> int:
    """The first process of a running container."""
    pid = init_pid(await client.container_status(container_id, verbose=True))
    assert pid is not None, f"container {container_id} has no process"
    return pid


async def kill_container(
    client: RuntimeClient, container_id: str, number: signal.Signals = signal.SIGKILL
) -> float:
    """Kill a container's process behind the runtime's back; when, on the monotonic clock."""
    pid = await pid_of(client, container_id)
    at = time.monotonic()
    os.kill(pid, number)
    return at


async def wait_exited(
    client: RuntimeClient, container_id: str, seconds: float = 10.0
) -> pb.ContainerStatus:
    """Return when the runtime reports the exit; a poll, for 1.6 has no events to wait for."""
    async with asyncio.timeout(seconds):
        while True:
            status = (await client.container_status(container_id)).status
            if status.state == pb.CONTAINER_EXITED:
                return status
            await asyncio.sleep(0.002)


async def remove_pod(client: RuntimeClient, pod: Pod) -> None:
    """Stop and remove a pod with everything in it; one that is gone is no error."""
    await client.stop_pod_sandbox(pod.sandbox_id)
    await client.remove_pod_sandbox(pod.sandbox_id)


def _namespaces() -> pb.NamespaceOption:
    # The kubelet's default: one network and IPC namespace for the pod, processes apart.
    return pb.NamespaceOption(network=pb.POD, ipc=pb.POD, pid=pb.CONTAINER)
