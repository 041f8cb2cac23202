"""Who makes room for a critical pod (A-5): few pods, and those that matter least."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubelet.api.pod import Pod
from kubelet.pods.priority import is_critical
from kubelet.pods.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from kubelet.pods.resources import CPU, MEMORY
from procs.syncloop.admission.room import Lack, request, taken

Needs = Mapping[str, int]  # what must be freed of each resource


class CannotPreemptError(Exception):
    """Not all pods together that may be ended for it would make enough room."""

    def __init__(self, needs: Needs) -> None:
        listed = "".join(f"(res: {name}, q: {number}), " for name, number in needs.items())
        super().__init__(f"no set of running pods found to reclaim resources: [{listed}]")


def victims(pod: Pod, others: Iterable[Pod], lacks: Iterable[Lack]) -> tuple[Pod, ...]:
    """Return the pods to end; CannotPreemptError when even all of them would not do.

    As few Guaranteed pods as possible, if all others went; then as few Burstable ones beside
    those; then as few BestEffort ones.
    """
    needs = {lack.resource: lack.missing for lack in lacks}
    classes: dict[str, list[Pod]] = {BEST_EFFORT: [], BURSTABLE: [], GUARANTEED: []}
    for other in others:
        if preemptable(pod, other):
            classes[qos_class(other)].append(other)
    least, middle, most = classes[BEST_EFFORT], classes[BURSTABLE], classes[GUARANTEED]
    left = _left(needs, [*least, *middle, *most])
    if left:
        raise CannotPreemptError(left)
    guaranteed = _nearest(most, _left(needs, [*least, *middle]))
    burstable = _nearest(middle, _left(needs, [*least, *guaranteed]))
    best_effort = _nearest(least, _left(needs, [*burstable, *guaranteed]))
    return (*best_effort, *burstable, *guaranteed)


def preemptable(pod: Pod, other: Pod) -> bool:
    """Whether a pod may be ended for another one's sake."""
    if is_critical(pod) and not is_critical(other):
        return True
    mine, its = pod.spec.priority, other.spec.priority
    return mine is not None and its is not None and mine > its


def _left(needs: Needs, pods: list[Pod]) -> dict[str, int]:
    """Return what is still needed when pods have gone."""
    left = {name: number - taken(pods, name) for name, number in needs.items()}
    return {name: number for name, number in left.items() if number > 0}


def _nearest(pods: list[Pod], needs: Needs) -> list[Pod]:
    """Choose pods one by one, each the one that comes nearest to what is still needed."""
    remaining, chosen = list(pods), []
    while needs:
        if not remaining:
            raise CannotPreemptError(needs)
        best = min(remaining, key=lambda pod: (_distance(pod, needs), _size(pod)))
        remaining.remove(best)
        chosen.append(best)
        needs = _left(needs, [best])
    return chosen


def _distance(pod: Pod, needs: Needs) -> float:
    """Return how far a pod is from covering all needs, each weighing the same."""
    return sum(
        (max(0, number - request(pod, name)) / number) ** 2 for name, number in needs.items()
    )


def _size(pod: Pod) -> tuple[int, int]:
    return request(pod, MEMORY), request(pod, CPU)
