"""Containers: regular ones, init containers and ephemeral ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kubelet.api.container import (
    Container,
    ContainerPort,
    ContainerResizePolicy,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EphemeralContainer,
    is_sidecar,
)
from kubelet.api.pod import PodSpec
from kubelet.api.validation import env
from kubelet.api.validation.mounts import mounts
from kubelet.api.validation.names import (
    dns_label,
    each,
    ip_address,
    one_of,
    port_name,
    port_number,
    ranged,
)
from kubelet.api.validation.probes import lifecycle, probes
from kubelet.api.validation.resources import requirements
from kubelet.api.validation.security import container_security
from kubelet.api.validation.texts import (
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    too_many,
)
from kubelet.api.volumes import Volume

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_RULE_LIMIT: Final = 20
_CODE_LIMIT: Final = 255
_ACTIONS: Final = ("Restart", "RestartAllContainers")
_NO_INIT: Final = "may not be set for init containers without restartPolicy=Always"
_NO_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"


@dataclass(frozen=True, slots=True)
class Scope:
    """What of a pod its containers refer to."""

    spec: PodSpec
    volumes: dict[str, Volume]
    claims: frozenset[str]  # names of the pod's resource claims

    @classmethod
    def of(cls, spec: PodSpec) -> Scope:
        """Make the scope of a pod's containers."""
        volumes = {volume.name: volume for volume in spec.volumes if volume.name}
        claims = frozenset(claim.name for claim in spec.resource_claims if claim.name)
        return cls(spec, volumes, claims)

    @property
    def system(self) -> str:
        """The operating system that the pod names."""
        return self.spec.os.name if self.spec.os else ""


def containers(spec: PodSpec) -> Iterator[str]:
    """Check all containers of a pod."""
    scope = Scope.of(spec)
    yield from _regular(scope)
    yield from _init(scope)
    yield from _ephemeral(scope)


def _regular(scope: Scope) -> Iterator[str]:
    if not scope.spec.containers:
        yield required("spec.containers")
    names: set[str] = set()
    for i, container in enumerate(scope.spec.containers):
        path = f"spec.containers[{i}]"
        yield from _common(path, container, scope)
        yield from _unique(path, container, names)
        yield from _hooks_and_probes(path, container, scope)
        yield from _restart(path, container)
    yield from _host_ports("spec.containers", scope.spec.containers)


def _init(scope: Scope) -> Iterator[str]:
    names = {container.name for container in scope.spec.containers if container.name}
    for i, container in enumerate(scope.spec.init_containers):
        path = f"spec.initContainers[{i}]"
        yield from _common(path, container, scope)
        yield from _restart(path, container)
        yield from _unique(path, container, names)
        # One after another they may use the same port; each for itself may not use it twice.
        yield from _host_ports("spec.initContainers", (container,), i)
        if is_sidecar(container):
            yield from _hooks_and_probes(path, container, scope)
            continue
        for key, value in _handlers(container):
            if value is not None:
                yield forbidden(f"{path}.{key}", _NO_INIT)


def _ephemeral(scope: Scope) -> Iterator[str]:
    spec = scope.spec
    targets = {one.name for one in (*spec.containers, *spec.init_containers) if one.name}
    names = set(targets)
    for i, container in enumerate(spec.ephemeral_containers):
        path = f"spec.ephemeralContainers[{i}]"
        yield from _common(path, container, scope)
        yield from _unique(path, container, names)
        target = container.target_container_name
        if target and target not in targets:
            yield not_found(f"{path}.targetContainerName", target)
        yield from _not_for_ephemeral(path, container)


def _not_for_ephemeral(path: str, container: EphemeralContainer) -> Iterator[str]:
    resources = container.resources
    for key, given in (
        ("ports", container.ports),
        ("resources", resources and (resources.limits or resources.requests or resources.claims)),
        ("resizePolicy", container.resize_policy),
        ("restartPolicy", container.restart_policy),
        ("restartPolicyRules", container.restart_policy_rules),
        *((key, value is not None) for key, value in _handlers(container)),
    ):
        if given:
            yield forbidden(f"{path}.{key}", _NO_EPHEMERAL)
    for i, mount in enumerate(container.volume_mounts):
        if mount.sub_path:
            yield forbidden(f"{path}.volumeMounts[{i}].subPath", _NO_EPHEMERAL)
        if mount.sub_path_expr:
            yield forbidden(f"{path}.volumeMounts[{i}].subPathExpr", _NO_EPHEMERAL)


def _handlers(container: Container) -> tuple[tuple[str, object], ...]:
    return (
        ("lifecycle", container.lifecycle),
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    )


def _unique(path: str, container: Container, names: set[str]) -> Iterator[str]:
    if container.name and container.name in names:
        yield duplicate(f"{path}.name", container.name)
    names.add(container.name)


def _hooks_and_probes(path: str, container: Container, scope: Scope) -> Iterator[str]:
    if container.lifecycle is not None:
        grace = scope.spec.termination_grace_period_seconds
        yield from lifecycle(f"{path}.lifecycle", container.lifecycle, grace, scope.system)
    yield from probes(path, container)


def _common(path: str, container: Container, scope: Scope) -> Iterator[str]:
    if container.name:
        yield from each(f"{path}.name", container.name, dns_label)
    else:
        yield required(f"{path}.name")
    yield from _image(path, container)
    yield from needed(
        f"{path}.terminationMessagePolicy",
        container.termination_message_policy,
        _MESSAGE_POLICIES,
    )
    yield from _ports(f"{path}.ports", container.ports)
    yield from env.variables(f"{path}.env", container.env, scope.volumes)
    yield from env.sources(f"{path}.envFrom", container.env_from)
    yield from mounts(path, container, scope.volumes)
    yield from needed(f"{path}.imagePullPolicy", container.image_pull_policy, PULL_POLICIES)
    if container.resources is not None:
        yield from requirements(f"{path}.resources", container.resources, scope.claims)
    yield from _resize(f"{path}.resizePolicy", container.resize_policy, scope.spec.restart_policy)
    if container.security_context is not None:
        host_users = scope.spec.host_users is not False
        where = f"{path}.securityContext"
        yield from container_security(where, container.security_context, host_users)


def needed(path: str, value: str, supported: tuple[str, ...]) -> Iterator[str]:
    """Check a value that must be set and must be one of those that exist."""
    if value:
        yield from one_of(path, value, supported)
    else:
        yield required(path)


def _image(path: str, container: Container) -> Iterator[str]:
    if not container.image:
        yield required(f"{path}.image")
    elif container.image != container.image.strip():
        detail = "must not have leading or trailing whitespace"
        yield invalid(f"{path}.image", container.image, detail)


def _ports(path: str, ports: tuple[ContainerPort, ...]) -> Iterator[str]:
    names: set[str] = set()
    for i, port in enumerate(ports):
        where = f"{path}[{i}]"
        if port.name:
            yield from each(f"{where}.name", port.name, port_name)
            if port.name in names:
                yield duplicate(f"{where}.name", port.name)
            names.add(port.name)
        if port.container_port:
            yield from port_number(f"{where}.containerPort", port.container_port)
        else:
            yield required(f"{where}.containerPort")
        if port.host_port:
            yield from port_number(f"{where}.hostPort", port.host_port)
        if port.host_ip:
            yield from each(f"{where}.hostIP", port.host_ip, ip_address)
        yield from needed(f"{where}.protocol", port.protocol, _PROTOCOLS)


def _host_ports(path: str, found: tuple[Container, ...], first: int = 0) -> Iterator[str]:
    seen: set[str] = set()
    for i, container in enumerate(found, first):
        for j, port in enumerate(container.ports):
            key = f"{port.protocol}/{port.host_ip}/{port.host_port}"
            if port.host_port and key in seen:
                yield duplicate(f"{path}[{i}].ports[{j}].hostPort", key)
            seen.add(key)


def host_network_ports(spec: PodSpec) -> Iterator[str]:
    """Check that on the host's network a port is the same outside as inside."""
    if not spec.host_network:
        return
    for i, container in enumerate(spec.containers):
        for j, port in enumerate(container.ports):
            if (port.host_port or 0) != (port.container_port or 0):
                yield invalid(
                    f"spec.containers[{i}].ports[{j}].hostPort",
                    port.host_port or 0,
                    "must match `containerPort` when `hostNetwork` is true",
                )


def _resize(
    path: str, policies: tuple[ContainerResizePolicy, ...], restart_policy: str
) -> Iterator[str]:
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        where = f"{path}[{i}]"
        if policy.resource_name in seen:
            yield duplicate(where, policy.resource_name)
        seen.add(policy.resource_name)
        yield from needed(f"{where}.resourceName", policy.resource_name, ("cpu", "memory"))
        allowed = ("NotRequired", "RestartContainer")
        yield from needed(f"{where}.restartPolicy", policy.restart_policy, allowed)
        if restart_policy == "Never" and policy.restart_policy == "RestartContainer":
            yield invalid(
                f"{where}.restartPolicy",
                policy.restart_policy,
                "must be 'NotRequired' when `restartPolicy` is 'Never'",
            )


def _restart(path: str, container: Container) -> Iterator[str]:
    """Check a container's own restart policy and its rules (P-80)."""
    rules = container.restart_policy_rules
    if container.restart_policy:
        yield from one_of(f"{path}.restartPolicy", container.restart_policy, RESTART_POLICIES)
    elif rules:
        detail = "must specify restartPolicy when restart rules are used"
        yield required(f"{path}.restartPolicy", detail)
    if len(rules) > _RULE_LIMIT:
        yield too_many(f"{path}.restartPolicyRules", len(rules), _RULE_LIMIT)
    for i, rule in enumerate(rules):
        yield from _rule(f"{path}.restartPolicyRules[{i}]", rule)


def _rule(path: str, rule: ContainerRestartRule) -> Iterator[str]:
    yield from needed(f"{path}.action", rule.action, _ACTIONS)
    if rule.exit_codes is None:
        yield required(f"{path}.exitCodes", "must be specified")
    else:
        yield from _exit_codes(f"{path}.exitCodes", rule.exit_codes)


def _exit_codes(path: str, codes: ContainerRestartRuleOnExitCodes) -> Iterator[str]:
    yield from one_of(f"{path}.operator", codes.operator, ("In", "NotIn"))
    if not codes.values:
        yield required(f"{path}.values", "must have at least one value")
    if len(codes.values) > _CODE_LIMIT:
        yield too_many(f"{path}.values", len(codes.values), _CODE_LIMIT)
    seen: set[int] = set()
    for i, code in enumerate(codes.values):
        yield from ranged(f"{path}.values[{i}]", code, 0, 255)
        if code in seen:
            yield duplicate(f"{path}.values[{i}]", code)
        seen.add(code)
