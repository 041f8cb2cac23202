"""Which instance of a container a log is asked of (H-63), and which container by default. Pure."""

from __future__ import annotations

from typing import Final

from kubelet.api.pod import Pod
from kubelet.api.status import ContainerState, ContainerStateWaiting, ContainerStatus, PodStatus
from kubelet.logs.errors import LogError

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_PULL_FAILURES: Final = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


def container_names(pod: Pod) -> list[str]:
    """Return the names of all containers of a pod in the order in which they begin."""
    spec = pod.spec
    among = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    return [container.name for container in among]


def choose_container(pod: Pod, name: str = "") -> str:
    """Return the container that is meant; LogError lists them if none is, or no such one."""
    names = container_names(pod)
    if name:
        if name in names:
            return name
        known = ", ".join(names)
        raise LogError(f"container {name} is not valid for pod {pod.name}; it has: {known}")
    annotated = pod.metadata.annotations.get(DEFAULT_CONTAINER, "")
    if annotated in names:
        return annotated
    regular = [container.name for container in pod.spec.containers]
    if len(regular) == 1:
        return regular[0]
    raise LogError(_which(pod, regular))


def _which(pod: Pod, regular: list[str]) -> str:
    init = [container.name for container in pod.spec.init_containers]
    more = f" or one of the init containers: [{' '.join(init)}]" if init else ""
    words = f"a container name must be specified for pod {pod.name}"
    return f"{words}, choose one of: [{' '.join(regular)}]{more}"


def instance(status: PodStatus, pod: str, name: str, *, previous: bool = False) -> str:
    """Return the id of the container whose log is meant; LogError says why there is none."""
    found = _status(status, name)
    if found is None:
        raise LogError(f'container "{name}" in pod "{pod}" is not available')
    last = _ended_id(found.last_state)
    if previous:
        if last:
            return last
        raise LogError(f'previous terminated container "{name}" in pod "{pod}" not found')
    state = found.state or ContainerState()
    if state.running is not None:
        return _bare(found.container_id)
    if state.terminated is not None or (found.last_state and found.last_state.terminated):
        # One that never began has no id: then its predecessor is what there is to see.
        id_ = _ended_id(state) or last
        if id_:
            return id_
        raise LogError(f'container "{name}" in pod "{pod}" is terminated')
    raise LogError(f'container "{name}" in pod "{pod}" is {_waits(state.waiting)}')


def _waits(waiting: ContainerStateWaiting | None) -> str:
    if waiting is None or not waiting.reason:
        return "waiting to start - no logs yet"
    return f"waiting to start: {_PULL_FAILURES.get(waiting.reason, waiting.reason)}"


def _status(status: PodStatus, name: str) -> ContainerStatus | None:
    among = (
        *status.container_statuses,
        *status.init_container_statuses,
        *status.ephemeral_container_statuses,
    )
    return next((one for one in among if one.name == name), None)


def _ended_id(state: ContainerState | None) -> str:
    ended = state.terminated if state is not None else None
    return _bare(ended.container_id) if ended is not None else ""


def _bare(container_id: str) -> str:
    """Return an id without the runtime's name before it."""
    return container_id.rpartition("://")[2]
