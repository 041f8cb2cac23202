"""The configuration of a pod's sandbox (P-150, P-153, P-156, P-157, P-160..P-162, P-176..P-178)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kubelet.api.container import Container, ContainerPort, is_sidecar
from kubelet.api.pod import Pod
from kubelet.api.security import PodSecurityContext
from kubelet.cri import api_pb2 as pb
from kubelet.pods import cgroups
from kubelet.pods.rows import VolumeRow
from procs.syncloop.configs import linux, resolver, security_context
from procs.syncloop.configs.dns import dns_config
from procs.syncloop.configs.errors import SANDBOX, ConfigError
from procs.syncloop.configs.hostname import kernel_name
from procs.syncloop.configs.policy import DEFAULT, Policy
from procs.syncloop.configs.resolver import Resolver
from procs.syncloop.site import Site

NAME: Final = "io.kubernetes.pod.name"
NAMESPACE: Final = "io.kubernetes.pod.namespace"
UID: Final = "io.kubernetes.pod.uid"
_PROTOCOLS: Final = {"": pb.TCP, "TCP": pb.TCP, "UDP": pb.UDP, "SCTP": pb.SCTP}


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """A sandbox to be, and the warnings (reason, message) that its pod gets as events."""

    config: pb.PodSandboxConfig
    warnings: tuple[tuple[str, str], ...] = ()


def sandbox_config(  # noqa: PLR0913 - the last four have their defaults
    pod: Pod,
    attempt: int,
    site: Site,
    *,
    host: Resolver | None = None,
    users: pb.UserNamespace | None = None,
    volumes: Iterable[VolumeRow] = (),
    policy: Policy = DEFAULT,
) -> SandboxConfig:
    """Return the configuration of a pod's sandbox; ConfigError says what stands against one.

    ``host`` is the node's resolver file, which is read if it is not given.
    """
    dns = dns_config(pod, host or resolver.HOST.read(site.resolv_conf), site)
    config = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(
            name=pod.name, namespace=pod.namespace, uid=pod.uid, attempt=attempt
        ),
        hostname=kernel_name(pod, site.cluster_domain),
        log_directory=site.pod_logs_dir(pod.namespace, pod.name, pod.uid),
        dns_config=dns.config,
        port_mappings=port_mappings(pod),
        labels=pod.metadata.labels | identity(pod),
        annotations=pod.metadata.annotations,
        linux=pb.LinuxPodSandboxConfig(
            cgroup_parent=cgroups.pod_path(pod, site),
            security_context=_security(pod, users, volumes),
            sysctls=sysctls(pod, policy),
            overhead=linux.overhead(pod, site),
            resources=linux.sandbox_resources(pod, site),
        ),
    )
    return SandboxConfig(config, dns.warnings)


def identity(pod: Pod) -> dict[str, str]:
    """Return the labels by which everything in the runtime is known to be a pod's."""
    return {NAME: pod.name, NAMESPACE: pod.namespace, UID: pod.uid}


def port_mappings(pod: Pod) -> list[pb.PortMapping]:
    """Return the ports of all that runs for good in a pod (P-161)."""
    sidecars = [c for c in pod.spec.init_containers if is_sidecar(c)]
    return [found for c in (*sidecars, *pod.spec.containers) for found in _ports(c)]


def sysctls(pod: Pod, policy: Policy = DEFAULT) -> dict[str, str]:
    """Return a pod's kernel settings: the node's defaults, then its own (P-162)."""
    own = pod.spec.security_context.sysctls if pod.spec.security_context is not None else ()
    found = {dotted(name): value for name, value in policy.default_sysctls.items()}
    return found | {dotted(setting.name): setting.value for setting in own}


def dotted(name: str) -> str:
    """Return a setting's name with dots between its parts.

    Where slashes separate the parts, a dot belongs to a part; it becomes a slash then.
    """
    first = next((letter for letter in name if letter in "./"), ".")
    return name.translate(str.maketrans("./", "/.")) if first == "/" else name


def _ports(container: Container) -> Iterator[pb.PortMapping]:
    seen: set[object] = set()
    for port in container.ports:
        key = port.name or _endpoint(port)
        if key in seen:
            continue
        seen.add(key)
        protocol = _PROTOCOLS.get(port.protocol)
        if protocol is None:
            raise ConfigError(f"ports.protocol: {port.protocol!r} is not supported", SANDBOX)
        yield pb.PortMapping(
            protocol=protocol,
            container_port=port.container_port or 0,
            host_port=port.host_port or 0,
            host_ip=port.host_ip,
        )


def _endpoint(port: ContainerPort) -> tuple[object, ...]:
    family = "" if not port.host_ip else "v6" if ":" in port.host_ip else "v4"
    return (family, port.protocol, port.host_ip, port.container_port, port.host_port)


def _security(
    pod: Pod, users: pb.UserNamespace | None, volumes: Iterable[VolumeRow]
) -> pb.LinuxSandboxSecurityContext:
    whole = pod.spec.security_context or PodSecurityContext()
    found = pb.LinuxSandboxSecurityContext(
        namespace_options=security_context.namespaces(pod),
        privileged=security_context.any_privileged(pod),
        seccomp=pb.SecurityProfile(profile_type=pb.SecurityProfile.RuntimeDefault),
        supplemental_groups=security_context.groups(whole, volumes),
        supplemental_groups_policy=security_context.groups_policy(whole),
    )
    if users is not None:
        found.namespace_options.userns_options.CopyFrom(users)
    if whole.run_as_user is not None:
        found.run_as_user.value = whole.run_as_user
    if whole.run_as_group is not None:
        found.run_as_group.value = whole.run_as_group
    if whole.se_linux_options is not None:
        found.selinux_options.CopyFrom(security_context.selinux(whole.se_linux_options))
    return found
