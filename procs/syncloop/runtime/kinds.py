"""The containers of a pod by name: which there are, and of which kind each is."""

from __future__ import annotations

from enum import StrEnum

from kubelet.api.container import Container
from kubelet.api.pod import Pod


class StartKind(StrEnum):
    """The kinds of containers, in the order in which they are started (P-73)."""

    EPHEMERAL = "ephemeral"
    INIT = "init"
    REGULAR = "regular"


def all_containers(pod: Pod) -> tuple[tuple[StartKind, Container], ...]:
    """Return every container of a pod with its kind, in the order of their kinds and the spec."""
    spec = pod.spec
    return (
        *((StartKind.EPHEMERAL, c) for c in spec.ephemeral_containers),
        *((StartKind.INIT, c) for c in spec.init_containers),
        *((StartKind.REGULAR, c) for c in spec.containers),
    )


def names(pod: Pod) -> frozenset[str]:
    """Return the names of all containers of a pod."""
    return frozenset(c.name for _, c in all_containers(pod))


def find_or_none(pod: Pod, name: str) -> Container | None:
    """Return the container of that name, if the pod has one."""
    return next((c for _, c in all_containers(pod) if c.name == name), None)


def find(pod: Pod, name: str) -> Container:
    """Return the container of that name; a KeyError says that there is none."""
    found = find_or_none(pod, name)
    if found is None:
        raise KeyError(f"pod {pod} has no container {name!r}")
    return found


def kind_of(pod: Pod, name: str) -> StartKind | None:
    """Return the kind of the container of that name; None: the pod has no such container."""
    return next((kind for kind, c in all_containers(pod) if c.name == name), None)
