"""Init containers: one after the other, and sidecars beside what follows them (P-75..P-77)."""

from __future__ import annotations

from dataclasses import dataclass

from kubelet.api.container import Container, is_sidecar
from kubelet.pods.runtime import ContainerState
from procs.syncloop.runtime import restart
from procs.syncloop.runtime.actions import Kill, Start
from procs.syncloop.runtime.judging import Judgement, Outcome, init_terms, judge, stale_kills
from procs.syncloop.runtime.view import View


@dataclass(frozen=True, slots=True)
class Inits:
    """What is to be done about the init containers."""

    initialised: bool  # the regular containers may be started
    failed: str = ""  # the one that failed and is not started again
    kill: tuple[Kill, ...] = ()
    remove: tuple[str, ...] = ()
    start: tuple[Start, ...] = ()


def judge_inits(view: View) -> Inits:
    """Judge the init containers of a pod in the sandbox that counts.

    Those before the furthest one that was ever begun are through: the sidecars among them are
    kept running, the others may have been removed since and are not missed.
    """
    inits = view.pod.spec.init_containers
    furthest = _furthest(view)
    passed = [_keep(view, c) for c in inits[:furthest]]
    if furthest == len(inits):
        return _sum(view, passed, initialised=True)
    judged = judge(view, inits[furthest], init_terms(view, inits[furthest]))
    passed.append(judged)
    if _failed(inits[furthest], judged):
        return Inits(initialised=False, failed=inits[furthest].name)
    if not _is_through(view, inits[furthest], judged):
        return _sum(view, passed, initialised=False)
    if furthest + 1 == len(inits):
        return _sum(view, passed, initialised=True)
    following = inits[furthest + 1]
    passed.append(judge(view, following, init_terms(view, following)))
    return _sum(view, passed, initialised=False)


def prunable(view: View) -> tuple[str, ...]:
    """Return the ended instances of init containers that a newer one has replaced (P-73)."""
    found = []
    for container in view.pod.spec.init_containers:
        newest = view.last(container.name, only_here=True) or view.last(container.name)
        found += [
            c.id
            for c in view.of(container.name)
            if c is not newest and c.state is ContainerState.EXITED
        ]
    return tuple(found)


def _furthest(view: View) -> int:
    """Return the index of the furthest init container that was begun; past the end: all are."""
    inits = view.pod.spec.init_containers
    if view.initialised:
        return len(inits)
    begun = (index for index, c in enumerate(inits) if view.here(c.name))
    return max(begun, default=0)


def _keep(view: View, container: Container) -> Judgement:
    """Judge one that is through: a sidecar is to run on, of another nothing is to run."""
    if is_sidecar(container):
        return judge(view, container, init_terms(view, container))
    return _not_now(view, container)


def _not_now(view: View, container: Container) -> Judgement:
    """Judge one that is not to run now: what runs of it elsewhere is killed all the same."""
    return Judgement(Outcome.ENDED, kill=stale_kills(view, container.name, restarts=False))


def _failed(container: Container, judged: Judgement) -> bool:
    if is_sidecar(container) or judged.outcome is not Outcome.ENDED:
        return False
    return judged.last is not None and restart.init_failed(judged.last)


def _is_through(view: View, container: Container, judged: Judgement) -> bool:
    """Tell whether the next may begin: this one ended well, or is a sidecar that has started."""
    if not is_sidecar(container):
        return judged.outcome is Outcome.ENDED
    if judged.outcome is not Outcome.KEEP or judged.last is None:
        return False
    return view.started(container, judged.last)


def _sum(view: View, judged: list[Judgement], *, initialised: bool) -> Inits:
    later = view.pod.spec.init_containers[len(judged) :]
    judged = [*judged, *(_not_now(view, c) for c in later)]
    removed = dict.fromkeys(id_ for j in judged for id_ in j.remove)
    removed |= dict.fromkeys(prunable(view))
    return Inits(
        initialised=initialised,
        kill=tuple(kill for j in judged for kill in j.kill),
        remove=tuple(removed),
        start=tuple(j.start for j in judged if j.start is not None),
    )
