"""What of the cluster must be known before a step of a pod's start. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kubelet.api.container import Container
from kubelet.api.pod import Pod
from kubelet.cluster.names import noted
from kubelet.cluster.rows import (
    CLUSTER,
    CONFIG_MAP,
    LISTED_KEY,
    OBJECTS,
    SECRET,
    class_key,
    object_key,
)


@dataclass(frozen=True, slots=True)
class Need:
    """A row that must be there; or, with ``listed``, all of its kind must have been read once."""

    table: str
    key: str
    listed: str = ""  # a field of ListedRow
    what: str = ""  # in words


Needs = tuple[Need, ...]


def for_variables(pod: Pod, container: Container) -> Needs:
    """Return what the variables of a container are made of (P-170, P-172)."""
    services = Need(CLUSTER, LISTED_KEY, "services", "the services of the cluster")
    named = dict.fromkeys(_named(container))
    objects = tuple(_object(kind, pod.namespace, name) for kind, name in named if noted(name))
    return (services, *objects)


def for_pull(pod: Pod) -> Needs:
    """Return what the images of a pod may have to be pulled with (P-57)."""
    names = dict.fromkeys(ref.name for ref in pod.spec.image_pull_secrets if noted(ref.name))
    return tuple(_object(SECRET, pod.namespace, name) for name in names)


def for_sandbox(pod: Pod) -> Needs:
    """Return what the sandbox of a pod depends on (P-164)."""
    name = pod.spec.runtime_class_name
    if not name:
        return ()
    return (Need(CLUSTER, class_key(name), "runtime_classes", f"runtime class {name}"),)


def _named(container: Container) -> Iterator[tuple[str, str]]:
    for source in container.env_from:
        if source.config_map_ref is not None:
            yield CONFIG_MAP, source.config_map_ref.name
        elif source.secret_ref is not None:
            yield SECRET, source.secret_ref.name
    for variable in container.env:
        value = variable.value_from
        if value is not None and value.config_map_key_ref is not None:
            yield CONFIG_MAP, value.config_map_key_ref.name
        elif value is not None and value.secret_key_ref is not None:
            yield SECRET, value.secret_key_ref.name


def _object(kind: str, namespace: str, name: str) -> Need:
    return Need(OBJECTS, object_key(kind, namespace, name), what=f"{kind} {namespace}/{name}")
