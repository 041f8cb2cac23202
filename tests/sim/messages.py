"""Answers, prepared so that a list of thousands costs a join and no more."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from kubelet.cri import api_pb2 as pb

from .model import READY, Container, Sandbox

_SIGTERM = 23  # of the Signal enumeration
_FIRST_FIELD = b"\x0a"  # field 1, length-delimited: where every list answer has its items


def _frame(message: pb.Container | pb.PodSandbox) -> bytes:
    data: bytes = message.SerializeToString()
    length = len(data)
    head = bytearray(_FIRST_FIELD)
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + data


def listed_container(container: Container) -> pb.Container:
    """A container in a list."""
    config = container.config
    message = pb.Container(
        id=container.id,
        pod_sandbox_id=container.sandbox_id,
        metadata=config.metadata,
        image=config.image,
        image_ref=container.image_ref,
        image_id=container.image_id,
        created_at=container.created_at,
        labels=config.labels,
        annotations=config.annotations,
    )
    message.state = container.state
    return message


def listed_sandbox(sandbox: Sandbox) -> pb.PodSandbox:
    """A sandbox in a list."""
    message = pb.PodSandbox(
        id=sandbox.id,
        metadata=sandbox.config.metadata,
        created_at=sandbox.created_at,
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
        runtime_handler=sandbox.runtime_handler,
    )
    message.state = sandbox.state
    return message


def container_list(containers: Iterable[Container]) -> bytes:
    """A ListContainersResponse, serialised."""
    return b"".join(c.frame or _keep(c, _frame(listed_container(c))) for c in containers)


def sandbox_list(sandboxes: Iterable[Sandbox]) -> bytes:
    """A ListPodSandboxResponse, serialised."""
    return b"".join(s.frame or _keep(s, _frame(listed_sandbox(s))) for s in sandboxes)


def _keep(thing: Container | Sandbox, frame: bytes) -> bytes:
    thing.frame = frame
    return frame


def matches(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether every label that is asked for is there."""
    return all(labels.get(key) == value for key, value in selector.items())


def container_status(container: Container) -> pb.ContainerStatus:
    """All that CRI says of a container."""
    config = container.config
    status = pb.ContainerStatus(
        id=container.id,
        metadata=config.metadata,
        created_at=container.created_at,
        started_at=container.started_at,
        finished_at=container.finished_at,
        exit_code=container.exit_code,
        image=pb.ImageSpec(image=config.image.user_specified_image or config.image.image),
        image_ref=container.image_ref,
        image_id=container.image_id,
        reason=container.reason,
        message=container.message,
        labels=config.labels,
        annotations=config.annotations,
        mounts=config.mounts,
        log_path=container.log_path,
    )
    status.state = container.state
    if config.linux.HasField("resources"):
        status.resources.linux.CopyFrom(config.linux.resources)
    context = config.linux.security_context
    status.user.linux.uid = context.run_as_user.value
    status.user.linux.gid = context.run_as_group.value
    status.user.linux.supplemental_groups.extend(context.supplemental_groups)
    status.stop_signal = config.stop_signal or _SIGTERM
    return status


def container_info(container: Container) -> dict[str, str]:
    """What a verbose status adds, in containerd's form."""
    info = {
        "sandboxID": container.sandbox_id,
        "pid": container.pid,
        "removing": False,
        "snapshotKey": container.id,
        "snapshotter": "simulated",
        "runtimeType": "io.containerd.runc.v2",
        "config": {"metadata": {"name": container.config.metadata.name}},
    }
    return {"info": json.dumps(info)}


def sandbox_status(sandbox: Sandbox) -> pb.PodSandboxStatus:
    """All that CRI says of a sandbox."""
    status = pb.PodSandboxStatus(
        id=sandbox.id,
        metadata=sandbox.config.metadata,
        created_at=sandbox.created_at,
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
        runtime_handler=sandbox.runtime_handler,
    )
    status.state = sandbox.state
    status.network.ip = sandbox.ip
    options = sandbox.config.linux.security_context.namespace_options
    status.linux.namespaces.options.CopyFrom(options)
    return status


def sandbox_info(sandbox: Sandbox) -> dict[str, str]:
    """What a verbose status adds, in containerd's form."""
    info = {
        "pid": sandbox.pid,
        "processStatus": "running" if sandbox.state == READY else "deleted",
        "netNamespaceClosed": sandbox.state != READY,
        "runtimeHandler": sandbox.runtime_handler,
        "runtimeType": "io.containerd.runc.v2",
    }
    return {"info": json.dumps(info)}
