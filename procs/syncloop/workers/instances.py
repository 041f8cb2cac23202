"""What the runtime's containers of a pod say to one that is about to be started. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kubelet.api.container import Container, EphemeralContainer
from kubelet.pods.runtime import ContainerRecord, ContainerState


def last_ended(containers: Iterable[ContainerRecord], name: str) -> ContainerRecord | None:
    """Return the newest instance of a container that has ended; None: it never ran."""
    return next((c for c in containers if c.name == name and c.finished_at_ns), None)


def target_of(container: Container, containers: Iterable[ContainerRecord]) -> str:
    """Return the id of the container whose processes an ephemeral one is to see (P-74), or ""."""
    if not isinstance(container, EphemeralContainer) or not container.target_container_name:
        return ""
    for found in containers:
        wanted = found.name == container.target_container_name
        if wanted and found.state is ContainerState.RUNNING:
            return found.id
    return ""
