"""What the API server fills in where a pod says nothing.

Doing it twice changes nothing. Input that validation will refuse passes through unharmed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from kubelet.api.container import (
    Container,
    ContainerPort,
    EnvVar,
    ObjectFieldSelector,
    ResourceFieldSelector,
    ResourceRequirements,
)
from kubelet.api.handlers import HTTPGetAction, Lifecycle, LifecycleHandler, Probe
from kubelet.api.pod import Pod, PodSpec
from kubelet.api.security import PodSecurityContext
from kubelet.api.validation import totals
from kubelet.api.volumes import (
    DownwardAPIVolumeFile,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    ImageVolumeSource,
    PersistentVolumeClaimTemplate,
    ProjectedVolumeSource,
    Volume,
    VolumeProjection,
)
from kubelet.quantities import Quantity, parse

GRACE_SECONDS: Final = 30
FILE_MODE: Final = 0o644
TOKEN_SECONDS: Final = 3600
CERTIFICATE_SECONDS: Final = 86400
TERMINATION_MESSAGE_PATH: Final = "/dev/termination-log"

_MILLI: Final = 10**6  # in billionths: amounts of resources are kept in thousandths
_LEGACY: Final[dict[str, dict[str, Any]]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scale_io": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "azure_disk": {
        "cachingMode": "ReadWrite",
        "kind": "Shared",
        "fsType": "ext4",
        "readOnly": False,
    },
}

C = TypeVar("C", bound=Container)
T = TypeVar("T")


def with_defaults(pod: Pod) -> Pod:
    """Return a pod as the API server would store it."""
    spec = pod.spec
    account = spec.service_account_name or spec.service_account
    enable = spec.enable_service_links
    spec = replace(
        spec,
        restart_policy=spec.restart_policy or "Always",
        dns_policy=spec.dns_policy or "ClusterFirst",
        scheduler_name=spec.scheduler_name or "default-scheduler",
        security_context=spec.security_context or PodSecurityContext(),
        termination_grace_period_seconds=_or(spec.termination_grace_period_seconds, GRACE_SECONDS),
        enable_service_links=True if enable is None else enable,
        service_account_name=account,
        service_account=account,
        overhead=_rounded(spec.overhead),
        containers=_containers(spec.containers, spec),
        init_containers=_containers(spec.init_containers, spec),
        ephemeral_containers=tuple(_container(one) for one in spec.ephemeral_containers),
        volumes=tuple(_volume(volume) for volume in spec.volumes),
    )
    return replace(pod, spec=_pod_resources(spec))


def _or(value: int | None, default: int) -> int:
    """Return a number, or its default if it is not set."""
    return default if value is None else value


def _map(change: Callable[[T], T], value: T | None) -> T | None:
    return None if value is None else change(value)


def _containers(containers: tuple[Container, ...], spec: PodSpec) -> tuple[Container, ...]:
    return tuple(
        replace(
            _container(one),
            resources=_map(_requests_from_limits, one.resources),
            ports=tuple(_port(port, spec.host_network is True) for port in one.ports),
        )
        for one in containers
    )


def _container(container: C) -> C:
    return replace(
        container,
        image_pull_policy=container.image_pull_policy or pull_policy(container.image),
        termination_message_path=container.termination_message_path or TERMINATION_MESSAGE_PATH,
        termination_message_policy=container.termination_message_policy or "File",
        ports=tuple(_port(port, on_host=False) for port in container.ports),
        env=tuple(_variable(variable) for variable in container.env),
        resources=_map(_rounded_resources, container.resources),
        liveness_probe=_map(_probe, container.liveness_probe),
        readiness_probe=_map(_probe, container.readiness_probe),
        startup_probe=_map(_probe, container.startup_probe),
        lifecycle=_map(_lifecycle, container.lifecycle),
    )


def pull_policy(image: str) -> str:
    """Return how an image is pulled if nothing is said: always if its tag may move on its own."""
    if not image:
        return "IfNotPresent"
    name, digest, _ = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    latest = tag == "latest" if colon else not digest
    return "Always" if latest else "IfNotPresent"


def _port(port: ContainerPort, on_host: bool) -> ContainerPort:
    host_port = port.container_port if on_host and not port.host_port else port.host_port
    return replace(port, protocol=port.protocol or "TCP", host_port=host_port)


def _variable(variable: EnvVar) -> EnvVar:
    source = variable.value_from
    if source is None:
        return variable
    source = replace(
        source,
        field_ref=_map(_field_ref, source.field_ref),
        resource_field_ref=_map(_resource_ref, source.resource_field_ref),
    )
    return replace(variable, value_from=source)


def _field_ref(ref: ObjectFieldSelector) -> ObjectFieldSelector:
    return replace(ref, api_version=ref.api_version or "v1")


def _resource_ref(ref: ResourceFieldSelector) -> ResourceFieldSelector:
    return replace(ref, divisor=ref.divisor or "0")  # 0 stands for 1 to whoever divides


def _probe(probe: Probe) -> Probe:
    # A zero is no number that a probe could have: it is the same as nothing (B-15).
    return replace(
        probe,
        timeout_seconds=probe.timeout_seconds or 1,
        period_seconds=probe.period_seconds or 10,
        success_threshold=probe.success_threshold or 1,
        failure_threshold=probe.failure_threshold or 3,
        http_get=_map(_http, probe.http_get),
    )


def _http(action: HTTPGetAction) -> HTTPGetAction:
    return replace(action, path=action.path or "/", scheme=action.scheme or "HTTP")


def _lifecycle(lifecycle: Lifecycle) -> Lifecycle:
    return replace(
        lifecycle,
        post_start=_map(_hook, lifecycle.post_start),
        pre_stop=_map(_hook, lifecycle.pre_stop),
    )


def _hook(hook: LifecycleHandler) -> LifecycleHandler:
    return replace(hook, http_get=_map(_http, hook.http_get))


def _rounded(amounts: dict[str, str]) -> dict[str, str]:
    """Return amounts of resources with nothing below a thousandth, rounded up."""
    return {name: _round(text) for name, text in amounts.items()}


def _round(text: str) -> str:
    try:
        amount = parse(text)
    except ValueError:
        return text
    below = amount.nano % _MILLI
    return str(Quantity(amount.nano - below + _MILLI, amount.format)) if below else text


def _rounded_resources(found: ResourceRequirements) -> ResourceRequirements:
    return replace(found, limits=_rounded(found.limits), requests=_rounded(found.requests))


def _requests_from_limits(found: ResourceRequirements) -> ResourceRequirements:
    rounded = _rounded_resources(found)
    return replace(rounded, requests={**rounded.limits, **rounded.requests})


def _pod_resources(spec: PodSpec) -> PodSpec:
    """Return a spec whose own resources are complete if it has any (M-60)."""
    found = spec.resources
    if found is None or not (found.limits or found.requests):
        return spec
    found = _rounded_resources(found)
    together = totals.together(spec, totals.limits)
    hugepages = {
        name: str(amount)
        for name, amount in together.items()
        if name.startswith(totals.HUGEPAGES) and name not in found.requests
    }
    had_limits = any(totals.is_pod_level(name) for name in found.limits)
    found = replace(found, limits={**hugepages, **found.limits})
    # Limits before requests: requests follow limits, and a second time must change nothing.
    if not had_limits and not hugepages:
        found = replace(found, limits={**_pod_limits(spec, together), **found.limits})
    if found.limits:
        found = replace(found, requests=_pod_requests(spec, found))
    return replace(spec, resources=found)


def _pod_requests(spec: PodSpec, found: ResourceRequirements) -> dict[str, str]:
    """Return the pod's requests: its own, what its containers ask for, or else its limits."""
    asked = {
        name: str(amount)
        for name, amount in totals.together(spec, totals.requests).items()
        if totals.is_pod_level(name) and totals.may_overcommit(name)
    }
    limits = {name: text for name, text in found.limits.items() if totals.is_pod_level(name)}
    return {**limits, **asked, **found.requests}


def _pod_limits(spec: PodSpec, together: totals.Amounts) -> dict[str, str]:
    """Return limits of the pod for what all of its containers have a limit for."""
    containers = (*spec.containers, *spec.init_containers)
    return {
        name: str(amount)
        for name, amount in together.items()
        if totals.is_pod_level(name)
        and totals.may_overcommit(name)
        and all(name in totals.limits(one) for one in containers)
    }


def _volume(volume: Volume) -> Volume:
    changes: dict[str, Any] = {
        "config_map": _map(_moded, volume.config_map),
        "secret": _map(_moded, volume.secret),
        "image": _map(_image, volume.image),
        "ephemeral": _map(_ephemeral, volume.ephemeral),
        "projected": _map(_projected, volume.projected),
    }
    downward = volume.downward_api
    if downward is not None:
        files = tuple(_file(file) for file in downward.items)
        changes["downward_api"] = replace(_moded(downward), items=files)
    for name, values in _LEGACY.items():
        source = getattr(volume, name)
        changes[name] = None if source is None else {**values, **source}
    volume = replace(volume, **changes)
    if volume == Volume(name=volume.name):
        return replace(volume, empty_dir=EmptyDirVolumeSource())
    return volume


def _moded(source: Any) -> Any:
    """Return a source of files with its permissions."""
    return replace(source, default_mode=_or(source.default_mode, FILE_MODE))


def _image(source: ImageVolumeSource) -> ImageVolumeSource:
    return replace(source, pull_policy=source.pull_policy or pull_policy(source.reference))


def _ephemeral(source: EphemeralVolumeSource) -> EphemeralVolumeSource:
    template = _map(_claim_template, source.volume_claim_template)
    return replace(source, volume_claim_template=template)


def _claim_template(template: PersistentVolumeClaimTemplate) -> PersistentVolumeClaimTemplate:
    return replace(template, spec={"volumeMode": "Filesystem", **(template.spec or {})})


def _projected(source: ProjectedVolumeSource) -> ProjectedVolumeSource:
    moded: ProjectedVolumeSource = _moded(source)
    return replace(moded, sources=tuple(_projection(part) for part in source.sources))


def _projection(part: VolumeProjection) -> VolumeProjection:
    token, downward, certificate = (
        part.service_account_token,
        part.downward_api,
        part.pod_certificate,
    )
    if token is not None:
        seconds = _or(token.expiration_seconds, TOKEN_SECONDS)
        part = replace(part, service_account_token=replace(token, expiration_seconds=seconds))
    if downward is not None:
        files = tuple(_file(file) for file in downward.items)
        part = replace(part, downward_api=replace(downward, items=files))
    if certificate is not None:
        seconds = _or(certificate.max_expiration_seconds, CERTIFICATE_SECONDS)
        part = replace(part, pod_certificate=replace(certificate, max_expiration_seconds=seconds))
    return part


def _file(file: DownwardAPIVolumeFile) -> DownwardAPIVolumeFile:
    return replace(
        file,
        field_ref=_map(_field_ref, file.field_ref),
        resource_field_ref=_map(_resource_ref, file.resource_field_ref),
    )
