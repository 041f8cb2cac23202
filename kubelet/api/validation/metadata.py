"""The metadata of a pod, and the annotations that mean something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kubelet.api.container import Container
from kubelet.api.meta import ObjectMeta, OwnerReference
from kubelet.api.pod import Pod, PodSpec
from kubelet.api.security import AppArmorProfile, SeccompProfile
from kubelet.api.validation.names import (
    MAX_INT32,
    descending_path,
    dns_label,
    dns_subdomain,
    each,
    generate_name,
    label_map,
    qualified_name,
)
from kubelet.api.validation.texts import NOT_NEGATIVE, forbidden, invalid, required, size, too_long

ANNOTATIONS_LIMIT: Final = 256 * 1024
MIRROR: Final = "kubernetes.io/config.mirror"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST: Final = "localhost/"
_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
_INTEGER: Final = re.compile("0|-?[1-9][0-9]{0,9}")


def metadata(pod: Pod) -> Iterator[str]:
    """Check a pod's metadata with its annotations."""
    yield from _object(pod.metadata)
    yield from annotation_map("metadata.annotations", pod.metadata.annotations)
    yield from _meaningful(pod)


def annotation_map(path: str, found: dict[str, str]) -> Iterator[str]:
    """Check the keys of annotations and their size together."""
    for key in found:
        yield from (invalid(path, key, detail) for detail in qualified_name(key.lower()))
    if sum(size(key) + size(value) for key, value in found.items()) > ANNOTATIONS_LIMIT:
        yield too_long(path, ANNOTATIONS_LIMIT)


def _object(meta: ObjectMeta) -> Iterator[str]:
    if meta.generate_name:
        yield from each("metadata.generateName", meta.generate_name, generate_name)
    if meta.name:
        yield from each("metadata.name", meta.name, dns_subdomain)
    else:
        yield required("metadata.name", "name or generateName is required")
    if meta.namespace:
        yield from each("metadata.namespace", meta.namespace, dns_label)
    else:
        yield required("metadata.namespace")
    if meta.generation is not None and meta.generation < 0:
        yield invalid("metadata.generation", meta.generation, NOT_NEGATIVE)
    yield from label_map("metadata.labels", meta.labels)
    yield from _owners(meta.owner_references)
    for i, name in enumerate(meta.finalizers):
        yield from _finalizer(f"metadata.finalizers[{i}]", name)


def _owners(owners: tuple[OwnerReference, ...]) -> Iterator[str]:
    controller: OwnerReference | None = None
    for i, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{i}]"
        for key, value in (
            ("apiVersion", owner.api_version),
            ("kind", owner.kind),
            ("name", owner.name),
            ("uid", owner.uid),
        ):
            if not value:
                yield invalid(f"{path}.{key}", value, "must not be empty")
        if owner.controller and controller is not None:
            yield invalid(
                "metadata.ownerReferences",
                owner,
                "only one reference can have controller set to true, "
                f"{controller.kind} {controller.name} has it already",
            )
        elif owner.controller:
            controller = owner


def _finalizer(path: str, name: str) -> Iterator[str]:
    yield from each(path, name, qualified_name)
    if "/" not in name and name not in _FINALIZERS:
        yield invalid(
            path, name, "name is neither a standard finalizer name nor is it fully qualified"
        )


def _meaningful(pod: Pod) -> Iterator[str]:
    found, path = pod.metadata.annotations, "metadata.annotations"
    if MIRROR in found and not pod.spec.node_name:
        yield invalid(f"{path}[{MIRROR}]", found[MIRROR], "must set spec.nodeName on a mirror pod")
    cost = found.get(DELETION_COST)
    if cost is not None and not (_INTEGER.fullmatch(cost) and abs(int(cost)) <= MAX_INT32):
        yield invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer")
    yield from _seccomp_annotations(path, found)
    yield from _apparmor_annotations(path, pod)


def _seccomp_annotations(path: str, found: dict[str, str]) -> Iterator[str]:
    for key, value in found.items():
        if key != SECCOMP_POD and not key.startswith(SECCOMP_CONTAINER):
            continue
        if value.startswith(_LOCALHOST):
            yield from each(f"{path}[{key}]", value.removeprefix(_LOCALHOST), descending_path)
        elif value not in {"runtime/default", "docker/default", "unconfined"}:
            yield invalid(f"{path}[{key}]", value, "must be a valid seccomp profile")


def _apparmor_annotations(path: str, pod: Pod) -> Iterator[str]:
    names = {container.name for _, container in every_container(pod.spec)}
    for key, value in pod.metadata.annotations.items():
        if not key.startswith(APPARMOR):
            continue
        name = key.removeprefix(APPARMOR)
        if name not in names:
            yield invalid(f"{path}[{key}]", name, "container not found")
        if value not in {"", "runtime/default", "unconfined"} and not value.startswith(_LOCALHOST):
            yield invalid(f"{path}[{key}]", value, f'invalid AppArmor profile name: "{value}"')


def every_container(spec: PodSpec) -> Iterator[tuple[str, Container]]:
    """Yield all containers of a pod with their paths: init, regular, ephemeral."""
    for key, containers in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for i, container in enumerate(containers):
            yield f"spec.{key}[{i}]", container


def profiles_agree(pod: Pod) -> Iterator[str]:
    """Check that profiles given both as an annotation and as a field are the same."""
    found, context = pod.metadata.annotations, pod.spec.security_context
    pod_seccomp = context.seccomp_profile if context else None
    pod_apparmor = context.app_armor_profile if context else None
    if SECCOMP_POD in found:
        path = "spec.securityContext.seccompProfile"
        yield from _same(path, "seccomp", found[SECCOMP_POD], pod_seccomp)
    for path, container in every_container(pod.spec):
        own = container.security_context
        seccomp = own.seccomp_profile if own else None
        apparmor = (own.app_armor_profile if own else None) or pod_apparmor
        where = f"{path}.securityContext"
        if (key := SECCOMP_CONTAINER + container.name) in found:
            yield from _same(f"{where}.seccompProfile", "seccomp", found[key], seccomp)
        if (key := APPARMOR + container.name) in found:
            yield from _same(f"{where}.appArmorProfile", "apparmor", found[key], apparmor)


def _same(
    path: str, what: str, annotation: str, profile: SeccompProfile | AppArmorProfile | None
) -> Iterator[str]:
    if profile is None:
        return
    words = {
        "Unconfined": ("unconfined",),
        "RuntimeDefault": ("runtime/default", "docker/default"),
        "Localhost": (_LOCALHOST + profile.localhost_profile,),
    }
    if profile.type == "Localhost" and annotation.startswith(_LOCALHOST):
        if annotation not in words["Localhost"]:
            yield forbidden(
                f"{path}.localhostProfile", f"{what} profile in annotation and field must match"
            )
    elif annotation not in words.get(profile.type, (annotation,)):
        yield forbidden(f"{path}.type", f"{what} type in annotation and field must match")
