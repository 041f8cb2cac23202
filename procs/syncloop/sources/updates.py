"""What may change in a pod that exists, by the rules of the API server. Pure.

A pod is submitted as a whole document again. What the document leaves open and the pod has is
kept: the policy of pulling an image, which is otherwise derived from the image, and the ephemeral
containers, which no manifest lists.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar

from kubelet.api import codec
from kubelet.api.container import Container
from kubelet.api.pod import Pod, PodSpec
from kubelet.api.scheduling import Toleration

FORBIDDEN: Final = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)
_SHOWN: Final = 10  # changed fields that a refusal names

C = TypeVar("C", bound=Container)


def completed(new: Pod, old: Pod) -> Pod:
    """Return a submitted pod, before any default is set, with what it leaves to the pod's own."""
    spec = replace(
        new.spec,
        containers=_with_policies(new.spec.containers, old.spec.containers),
        init_containers=_with_policies(new.spec.init_containers, old.spec.init_containers),
        ephemeral_containers=new.spec.ephemeral_containers or old.spec.ephemeral_containers,
    )
    return replace(new, spec=spec)


def _with_policies(new: tuple[C, ...], old: tuple[C, ...]) -> tuple[C, ...]:
    policies = {c.name: c.image_pull_policy for c in old}
    return tuple(
        c if c.image_pull_policy else replace(c, image_pull_policy=policies.get(c.name, ""))
        for c in new
    )


def problems(old: PodSpec, new: PodSpec) -> list[str]:
    """Return why a pod's spec may not become another one; nothing if it may."""
    counts = [*_counts(old, new)]
    if counts:
        return counts
    found = [*_deadline(old, new), *_tolerations(old.tolerations, new.tolerations)]
    found += _ephemeral(old, new)
    allowed = _with_allowed(old, new)
    if allowed != new:
        names = list(_changed("spec", allowed, new))
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        found.append(f"{FORBIDDEN}; changed is {', '.join(names[:_SHOWN])}{more}")
    return found


def _counts(old: PodSpec, new: PodSpec) -> Iterator[str]:
    if len(old.containers) != len(new.containers):
        yield "spec.containers: Forbidden: pod updates may not add or remove containers"
    if len(old.init_containers) != len(new.init_containers):
        yield "spec.initContainers: Forbidden: pod updates may not add or remove containers"


def _with_allowed(old: PodSpec, new: PodSpec) -> PodSpec:
    """Return the old spec with all that may change as it is in the new one."""
    spec = replace(
        old,
        containers=_with_images(old.containers, new.containers),
        init_containers=_with_images(old.init_containers, new.init_containers),
        ephemeral_containers=new.ephemeral_containers,
        active_deadline_seconds=new.active_deadline_seconds,
        tolerations=new.tolerations,
    )
    before, after = old.termination_grace_period_seconds, new.termination_grace_period_seconds
    if before is not None and before < 0 and after == 1:
        spec = replace(spec, termination_grace_period_seconds=1)
    return spec


def _with_images(old: tuple[Container, ...], new: tuple[Container, ...]) -> tuple[Container, ...]:
    return tuple(replace(a, image=b.image) for a, b in zip(old, new, strict=True))


def _deadline(old: PodSpec, new: PodSpec) -> Iterator[str]:
    before, after = old.active_deadline_seconds, new.active_deadline_seconds
    if before is None:
        return
    if after is None:
        yield (
            "spec.activeDeadlineSeconds: Forbidden: must not update from a positive integer "
            "to nil value"
        )
    elif after > before:
        yield (
            f"spec.activeDeadlineSeconds: Invalid value: {after}: must be less than or equal to "
            f"previous value {before}"
        )


def _tolerations(old: tuple[Toleration, ...], new: tuple[Toleration, ...]) -> Iterator[str]:
    kept = {replace(one, toleration_seconds=None) for one in new}
    for index, one in enumerate(old):
        if replace(one, toleration_seconds=None) not in kept:
            yield (
                f"spec.tolerations: Forbidden: existing toleration can not be modified except its "
                f"tolerationSeconds: spec.tolerations[{index}] {codec.encode(one)} is missing"
            )


def _ephemeral(old: PodSpec, new: PodSpec) -> Iterator[str]:
    given = {c.name: c for c in new.ephemeral_containers}
    for one in old.ephemeral_containers:
        if one.name not in given:
            what = "may not be removed"
        elif given[one.name] != one:
            what = "may not be changed"
        else:
            continue
        yield (
            f"spec.ephemeralContainers: Forbidden: existing ephemeral containers {one.name!r} "
            f"{what}"
        )


def _changed(path: str, old: Any, new: Any) -> Iterator[str]:
    """Yield the path of each field in which two values of one type differ."""
    if old == new:
        return
    if dataclasses.is_dataclass(old) and type(old) is type(new):
        for field in dataclasses.fields(old):
            name = f"{path}.{codec.camel(field.name)}"
            yield from _changed(name, getattr(old, field.name), getattr(new, field.name))
    elif isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        for index, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _changed(f"{path}[{index}]", a, b)
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _changed(f"{path}[{key}]", old.get(key), new.get(key))
    else:
        yield path
