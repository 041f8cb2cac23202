"""What stands in a pod's spec itself, and the order in which its parts are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubelet.api.pod import Pod, PodSpec
from kubelet.api.validation import dns, scheduling
from kubelet.api.validation.containers import (
    RESTART_POLICIES,
    containers,
    host_network_ports,
    needed,
)
from kubelet.api.validation.names import (
    MAX_INT32,
    dns_subdomain,
    each,
    label_map,
    one_of,
    qualified_name,
    ranged,
)
from kubelet.api.validation.resources import amounts, pod_claims, pod_resources
from kubelet.api.validation.security import host_users, pod_security
from kubelet.api.validation.systems import operating_system
from kubelet.api.validation.texts import forbidden, required
from kubelet.api.validation.volumes import volumes

_PREEMPTION: Final = ("Never", "PreemptLowerPriority")


def pod_spec(pod: Pod) -> Iterator[str]:
    """Check the spec of a pod."""
    spec = pod.spec
    if spec.termination_grace_period_seconds is None:
        yield required("spec.terminationGracePeriodSeconds")
    yield from volumes("spec.volumes", spec.volumes, pod.metadata.name)
    yield from pod_claims("spec.resourceClaims", spec.resource_claims)
    yield from containers(spec)
    claims = frozenset(claim.name for claim in spec.resource_claims)
    yield from pod_resources(spec, claims)
    yield from host_network_ports(spec)
    yield from needed("spec.restartPolicy", spec.restart_policy, RESTART_POLICIES)
    yield from needed("spec.dnsPolicy", spec.dns_policy, dns.POLICIES)
    yield from label_map("spec.nodeSelector", spec.node_selector)
    yield from pod_security(spec)
    yield from _pull_secrets(spec)
    yield from _scheduling(spec)
    yield from host_users(spec)
    yield from _names(spec)
    yield from _numbers(spec)
    yield from dns.host_names(spec)
    yield from scheduling.tolerations("spec.tolerations", spec.tolerations)
    yield from dns.host_aliases(spec)
    yield from amounts("spec.overhead", spec.overhead)
    yield from operating_system(spec)
    yield from _tokens(spec)


def _pull_secrets(spec: PodSpec) -> Iterator[str]:
    for i, secret in enumerate(spec.image_pull_secrets):
        path = f"spec.imagePullSecrets[{i}].name"
        if secret.name:
            yield from each(path, secret.name, dns_subdomain)
        else:
            yield required(path)


def _scheduling(spec: PodSpec) -> Iterator[str]:
    yield from scheduling.affinity("spec.affinity", spec.affinity)
    yield from dns.dns_config(spec)
    for i, gate in enumerate(spec.readiness_gates):
        path = f"spec.readinessGates[{i}].conditionType"
        yield from each(path, gate.condition_type, qualified_name)
    yield from scheduling.gates("spec.schedulingGates", spec.scheduling_gates)
    constraints = spec.topology_spread_constraints
    yield from scheduling.spreading("spec.topologySpreadConstraints", constraints)


def _names(spec: PodSpec) -> Iterator[str]:
    for key, name in (
        ("serviceAccountName", spec.service_account_name),
        ("nodeName", spec.node_name),
        ("priorityClassName", spec.priority_class_name),
        ("runtimeClassName", spec.runtime_class_name),
    ):
        if name:
            yield from each(f"spec.{key}", name, dns_subdomain)
    if spec.node_name and spec.scheduling_gates:
        detail = "cannot be set until all schedulingGates have been cleared"
        yield forbidden("spec.nodeName", detail)
    if spec.preemption_policy:
        yield from one_of("spec.preemptionPolicy", spec.preemption_policy, _PREEMPTION)


def _numbers(spec: PodSpec) -> Iterator[str]:
    yield from ranged("spec.activeDeadlineSeconds", spec.active_deadline_seconds, 1, MAX_INT32)
    yield from ranged("spec.priority", spec.priority, -MAX_INT32 - 1, MAX_INT32)


def _tokens(spec: PodSpec) -> Iterator[str]:
    if spec.service_account_name:
        return
    for i, volume in enumerate(spec.volumes):
        for j, source in enumerate(volume.projected.sources if volume.projected else ()):
            if source.service_account_token is not None:
                path = f"spec.volumes[{i}].projected.sources[{j}].serviceAccountToken"
                yield forbidden(path, "must not be specified when serviceAccountName is not set")
