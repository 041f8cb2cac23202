"""One form for statuses, so that equal ones are equal (P-131, P-132)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kubelet import times
from kubelet.api.pod import Pod
from kubelet.api.status import ContainerState, ContainerStatus, PodCondition, PodStatus
from procs.syncloop.configs.message import capped


def normalised(pod: Pod, status: PodStatus) -> PodStatus:
    """Return a status with times to the second, messages of their length, containers in order."""
    number = len(pod.spec.containers) + len(pod.spec.init_containers)
    place = {c.name: index for index, c in enumerate(pod.spec.init_containers)}

    def all_of(found: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
        return tuple(_container(one, number) for one in sorted(found, key=lambda one: one.name))

    init = all_of(status.init_container_statuses)
    return replace(
        status,
        start_time=_time(status.start_time),
        conditions=tuple(map(_condition, status.conditions)),
        init_container_statuses=tuple(sorted(init, key=lambda one: place.get(one.name, number))),
        container_statuses=all_of(status.container_statuses),
        ephemeral_container_statuses=all_of(status.ephemeral_container_statuses),
    )


def _container(status: ContainerStatus, number: int) -> ContainerStatus:
    return replace(
        status,
        state=_state(status.state, number),
        last_state=_state(status.last_state, number),
    )


def _state(state: ContainerState | None, number: int) -> ContainerState | None:
    if state is None:
        return None
    running, ended = state.running, state.terminated
    if running is not None:
        running = replace(running, started_at=_time(running.started_at))
    if ended is not None:
        ended = replace(
            ended,
            message=capped(ended.message, number),
            started_at=_time(ended.started_at),
            finished_at=_time(ended.finished_at),
        )
    return replace(state, running=running, terminated=ended)


def _condition(condition: PodCondition) -> PodCondition:
    return replace(
        condition,
        last_probe_time=_time(condition.last_probe_time),
        last_transition_time=_time(condition.last_transition_time),
    )


def _time(text: str) -> str:
    """Return a moment to the second; what others wrote and is no time stays as it is."""
    if "." not in text and text.endswith("Z"):
        return text
    try:
        return times.to_text(times.to_ns(text))
    except ValueError:
        return text
