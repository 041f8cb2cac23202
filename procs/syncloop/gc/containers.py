"""Which dead containers go (I-1, I-2, I-5). Pure.

One dead container is never taken for a limit's sake: the last instance of a container that does
not run, in a pod that is still there. It is the only memory that the container ran; without it, a
container that has done its work would be started again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord
from procs.syncloop.gc.policy import GcPolicy, Owners

_DEAD = (ContainerState.EXITED, ContainerState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class DeadContainer:
    """A container that may go, and whose it is."""

    pod: PodRecord
    container: ContainerRecord


def select_containers(
    pods: Iterable[PodRecord], owners: Owners, policy: GcPolicy, now_ns: int
) -> tuple[DeadContainer, ...]:
    """Return the containers that are to be removed now (I-1, I-2)."""
    gone: list[DeadContainer] = []
    groups: list[_Group] = []
    for pod in pods:
        if owners.removable(pod.uid):
            gone += [
                DeadContainer(pod, c)
                for c in pod.containers
                if c.state is not ContainerState.RUNNING and _is_old(c, policy, now_ns)
            ]
        else:
            groups += _groups(pod, policy, now_ns)
    if policy.per_container >= 0:
        for group in groups:
            gone += group.shrink(policy.per_container)
    return (*gone, *_over_total(groups, policy.total))


def select_extra(
    pod: PodRecord, policy: GcPolicy, name: str | None = None
) -> tuple[DeadContainer, ...]:
    """Return the dead instances beyond the limit, of one container or of all, at a death (I-5)."""
    if policy.per_container < 0:
        return ()
    kept = max(1, policy.per_container)
    names = dict.fromkeys(c.name for c in pod.containers) if name is None else [name]
    return tuple(
        DeadContainer(pod, dead)
        for each in names
        for dead in [c for c in pod.containers if c.name == each and c.state in _DEAD][kept:]
    )


class _Group:
    """The dead instances of one container that are old enough to go."""

    def __init__(self, pod: PodRecord, dead: list[ContainerRecord], keep_newest: bool) -> None:
        self.pod = pod
        self.dead = dead  # newest first
        self.floor = 1 if keep_newest else 0

    def shrink(self, limit: int) -> list[DeadContainer]:
        """Take out and return what is over a limit, and may go."""
        kept = max(limit, self.floor)
        out, self.dead = self.dead[kept:], self.dead[:kept]
        return [DeadContainer(self.pod, c) for c in out]


def _groups(pod: PodRecord, policy: GcPolicy, now_ns: int) -> list[_Group]:
    """Return the dead of a pod by container.

    One that was created and not started is no garbage: it is about to be started.
    """
    found = []
    for name in dict.fromkeys(c.name for c in pod.containers):
        instances = [c for c in pod.containers if c.name == name]
        newest = instances[0]
        dead = [c for c in instances if c.state in _DEAD and _is_old(c, policy, now_ns)]
        runs = any(c.state is ContainerState.RUNNING for c in instances)
        if dead:
            found.append(_Group(pod, dead, keep_newest=not runs and _is_last(dead[0], newest)))
    return found


def _is_last(dead: ContainerRecord, newest: ContainerRecord) -> bool:
    """Tell whether a dead instance is the last that ran; one that is only created did not."""
    return dead is newest or newest.state is ContainerState.CREATED


def _over_total(groups: list[_Group], total: int) -> list[DeadContainer]:
    """Return what is over the limit for all: an even share for each, then the oldest go (I-1)."""
    number = sum(len(group.dead) for group in groups)
    if total < 0 or number <= total:
        return []
    share = max(1, total // len(groups))
    out = [dead for group in groups for dead in group.shrink(share)]
    over = number - len(out) - total
    if over <= 0:
        return out
    spare = [(c.created_at_ns, c.id, group) for group in groups for c in group.dead[group.floor :]]
    for _, id_, group in sorted(spare, key=lambda found: found[:2])[:over]:
        out += [DeadContainer(group.pod, c) for c in group.dead if c.id == id_]
        group.dead = [c for c in group.dead if c.id != id_]
    return out


def _is_old(container: ContainerRecord, policy: GcPolicy, now_ns: int) -> bool:
    """Tell whether a container is dead for long enough; its end counts where it is known."""
    since_ns = container.finished_at_ns or container.created_at_ns
    return now_ns - since_ns >= policy.min_age_ns
