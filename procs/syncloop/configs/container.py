"""The configuration of a container (P-151, P-152, P-155, P-163)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from kubelet.api import codec
from kubelet.api.container import Container
from kubelet.api.pod import Pod
from kubelet.cri import api_pb2 as pb
from procs.syncloop.configs import env as environments
from procs.syncloop.configs import mounts
from procs.syncloop.configs.context import ContainerContext, ImageInfo, image_info
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.configs.expand import expand
from procs.syncloop.configs.files import log_name
from procs.syncloop.configs.linux import container_resources
from procs.syncloop.configs.message import PATH, POLICY
from procs.syncloop.configs.mounts import SubPath
from procs.syncloop.configs.policy import Policy
from procs.syncloop.configs.sandbox import identity
from procs.syncloop.configs.security_context import container_security
from procs.syncloop.runtime.hashing import container_hash
from procs.syncloop.site import Site

__all__ = [
    "ContainerContext",
    "ImageInfo",
    "container_annotations",
    "container_config",
    "image_info",
    "wanted_subpaths",
]

CONTAINER: Final = "io.kubernetes.container.name"
HASH: Final = "io.kubernetes.container.hash"
RESTARTS: Final = "io.kubernetes.container.restartCount"
PRE_STOP: Final = "io.kubernetes.container.preStopHandler"
PORTS: Final = "io.kubernetes.container.ports"
DELETION_GRACE: Final = "io.kubernetes.pod.deletionGracePeriod"
TERMINATION_GRACE: Final = "io.kubernetes.pod.terminationGracePeriod"


def container_config(  # noqa: PLR0913, PLR0917 - the contract of this module
    pod: Pod,
    container: Container,
    attempt: int,
    image: ImageInfo,
    context: ContainerContext,
    site: Site,
) -> pb.ContainerConfig:
    """Return the configuration of a container; ConfigError says what stands against one."""
    env = environments.environment(pod, container, context, site)
    policy = context.policy
    return pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=container.name, attempt=attempt),
        image=pb.ImageSpec(image=image.ref, user_specified_image=image.spec),
        command=_expanded(container.command, env),
        args=_expanded(container.args, env),
        working_dir=container.working_dir,
        envs=[pb.KeyValue(key=key, value=environments.encoded(env[key])) for key in env],
        mounts=[
            *mounts.container_mounts(pod, container, env, context),
            *mounts.own_mounts(pod, container, attempt, context, site),
        ],
        devices=mounts.container_devices(container, context.volumes),
        labels=identity(pod) | {CONTAINER: container.name},
        annotations=container_annotations(pod, container, attempt),
        log_path=log_name(container.name, attempt),
        stdin=bool(container.stdin),
        stdin_once=bool(container.stdin_once),
        tty=bool(container.tty),
        linux=pb.LinuxContainerConfig(
            resources=container_resources(pod, container, site, policy),
            security_context=container_security(pod, container, image, context, site),
        ),
        stop_signal=_stop_signal(container, policy),
    )


def wanted_subpaths(
    pod: Pod, container: Container, context: ContainerContext, site: Site
) -> tuple[SubPath, ...]:
    """Return the parts of volumes that are to be prepared before a container is configured."""
    if not any(mount.sub_path or mount.sub_path_expr for mount in container.volume_mounts):
        return ()
    env = environments.environment(pod, container, context, site)
    return mounts.subpaths(pod, container, env, context.volumes)


def container_annotations(pod: Pod, container: Container, attempt: int) -> dict[str, str]:
    """Return what a container carries for whoever meets it without its pod's spec (P-152)."""
    found = {
        HASH: container_hash(container),
        RESTARTS: str(attempt),
        PATH: container.termination_message_path,
        POLICY: container.termination_message_policy,
    }
    if pod.metadata.deletion_grace_period_seconds is not None:
        found[DELETION_GRACE] = str(pod.metadata.deletion_grace_period_seconds)
    if pod.spec.termination_grace_period_seconds is not None:
        found[TERMINATION_GRACE] = str(pod.spec.termination_grace_period_seconds)
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        found[PRE_STOP] = _json(container.lifecycle.pre_stop)
    if container.ports:
        found[PORTS] = _json(container.ports)
    return found


def _json(value: object) -> str:
    return json.dumps(codec.encode(value), separators=(",", ":"))


def _expanded(words: tuple[str, ...], env: Mapping[str, str]) -> list[str]:
    found = [expand(word, env) for word in words]
    for word in found:
        try:
            word.encode()
        except UnicodeEncodeError:
            # Only a secret's value can be so, and a command line has no way to carry it.
            raise ConfigError("command or args refer to a variable that is not UTF-8") from None
    return found


def _stop_signal(container: Container, policy: Policy) -> str:
    """Return the name of the signal that ends a container (P-147)."""
    name = container.lifecycle.stop_signal if container.lifecycle is not None else ""
    if not name or not policy.stop_signals:
        return "SIGNAL_RUNTIME_DEFAULT"
    if f"SIGNAL_{name}" not in pb.Signal.keys():  # noqa: SIM118 - not a map
        raise ConfigError(f"lifecycle.stopSignal: {name!r} is not a signal")
    return f"SIGNAL_{name}"
