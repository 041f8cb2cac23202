"""A plain synchronous CRI client for the simulator's own tests, and makers of ordinary requests."""

from __future__ import annotations

import grpc

from kubelet.cri import api_pb2 as pb
from kubelet.cri import api_pb2_grpc as stubs

from .seeds import pod_labels

BUSYBOX = "docker.io/library/busybox:1"


class Client:
    """Both services on one channel."""

    def __init__(self, endpoint: str) -> None:
        options = (("grpc.max_receive_message_length", -1),)
        self._channel = grpc.insecure_channel(endpoint.replace("unix://", "unix:"), options)
        self.runtime = stubs.RuntimeServiceStub(self._channel)
        self.images = stubs.ImageServiceStub(self._channel)

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    def pull(self, image: str = BUSYBOX) -> str:
        """Pull an image; its ID."""
        spec = pb.ImageSpec(image=image)
        return self.images.PullImage(pb.PullImageRequest(image=spec)).image_ref

    def run_pod(self, name: str = "pod", attempt: int = 0, **config) -> str:
        """A sandbox as a kubelet makes it; its ID."""
        made = pb.PodSandboxConfig(labels=pod_labels(name, "default", f"uid-{name}"), **config)
        made.metadata.name, made.metadata.uid = name, f"uid-{name}"
        made.metadata.namespace, made.metadata.attempt = "default", attempt
        request = pb.RunPodSandboxRequest(config=made)
        return self.runtime.RunPodSandbox(request).pod_sandbox_id

    def create(
        self, sandbox: str, *command: str, name: str = "c", image: str = BUSYBOX, **config
    ) -> str:
        """A container; its ID. Its image is pulled."""
        self.pull(image)
        made = pb.ContainerConfig(command=command, **config)
        made.metadata.name, made.image.image = name, image
        made.labels["io.kubernetes.container.name"] = name
        request = pb.CreateContainerRequest(pod_sandbox_id=sandbox, config=made)
        return self.runtime.CreateContainer(request).container_id

    def start(self, container: str) -> str:
        """Start a container; its ID again."""
        self.runtime.StartContainer(pb.StartContainerRequest(container_id=container))
        return container

    def run(self, sandbox: str, *command: str, **config) -> str:
        """A container that was started; its ID."""
        return self.start(self.create(sandbox, *command, **config))

    def stop(self, container: str, timeout: int = 10) -> None:
        """Stop a container."""
        request = pb.StopContainerRequest(container_id=container, timeout=timeout)
        self.runtime.StopContainer(request)

    def status(self, container: str) -> pb.ContainerStatus:
        """What a container is."""
        request = pb.ContainerStatusRequest(container_id=container)
        return self.runtime.ContainerStatus(request).status

    def info(self, container: str) -> pb.ContainerStatusResponse:
        """What a container is, at length."""
        request = pb.ContainerStatusRequest(container_id=container, verbose=True)
        return self.runtime.ContainerStatus(request)

    def containers(self, **wanted) -> list[pb.Container]:
        """The containers that a filter lets through."""
        request = pb.ListContainersRequest(filter=pb.ContainerFilter(**wanted))
        return list(self.runtime.ListContainers(request).containers)

    def sandboxes(self) -> list[pb.PodSandbox]:
        """Every sandbox."""
        return list(self.runtime.ListPodSandbox(pb.ListPodSandboxRequest()).items)

    def exec_sync(self, container: str, *command: str, timeout: int = 5) -> pb.ExecSyncResponse:
        """Run a command in a container."""
        request = pb.ExecSyncRequest(container_id=container, cmd=command, timeout=timeout)
        return self.runtime.ExecSync(request)

    def events(self, seconds: float = 30) -> grpc.Call:
        """The stream of events, when it is established: what happens from now on is in it."""
        stream = self.runtime.GetContainerEvents(pb.GetEventsRequest(), timeout=seconds)
        stream.initial_metadata()
        return stream
