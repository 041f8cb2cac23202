"""What is to be done about a pod's containers now: a pure function of the pod and what is observed.

The plan takes the pod one step further. It is made anew after each step, so it never relies on
what an earlier one wanted: whoever comes after a death goes on from what is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kubelet.api.container import Container, is_sidecar
from kubelet.api.pod import Pod
from kubelet.pods.runtime import ContainerRecord, ContainerState
from procs.syncloop.runtime import restart
from procs.syncloop.runtime.actions import Kill, KillReason, Observed, Plan, Start
from procs.syncloop.runtime.inits import judge_inits
from procs.syncloop.runtime.judging import (
    Judgement,
    Outcome,
    judge,
    judge_ephemeral,
    regular_terms,
)
from procs.syncloop.runtime.kinds import StartKind, names
from procs.syncloop.runtime.sandboxes import plan_new, why_new
from procs.syncloop.runtime.view import LIVE, View

__all__ = ["Kill", "KillReason", "Observed", "Plan", "Start", "StartKind", "plan"]


def plan(pod: Pod, observed: Observed) -> Plan:
    """Return what is to be done about a pod (P-70..P-83)."""
    why = why_new(pod, observed.record)
    sandbox = observed.record.sandboxes[0] if observed.record and not why else None
    view = View(pod, observed, sandbox)
    if observed.deleted or pod.metadata.deletion_timestamp:
        return _plan_deleted(view)
    triggers = _triggers(view)
    if triggers:
        return _plan_restart_all(view, triggers)
    if sandbox is None:
        return plan_new(view, why)
    found = _plan_here(view)
    return replace(found, sandbox_id=sandbox.id, sandbox_attempt=sandbox.attempt)


def _plan_deleted(view: View) -> Plan:
    """Start nothing any more (P-83). What still runs is left to the pod's termination (P-33)."""
    sandboxes = view.record.sandboxes
    return Plan(
        kill_pod=view.alive and not view.live,
        sandbox_id=sandboxes[0].id if sandboxes else "",
        sandbox_attempt=sandboxes[0].attempt if sandboxes else 0,
        finished=not view.live,
        cause="it is being deleted",
    )


def _plan_here(view: View) -> Plan:
    """Plan for a pod whose sandbox is as it should be."""
    spec = view.pod.spec
    regular = [(c, judge(view, c, regular_terms(view, c))) for c in spec.containers]
    judged = [j for _, j in regular]
    if not any(_goes_on(c, j) for c, j in regular):
        return _plan_end(judged)
    inits = judge_inits(view)
    if inits.failed:
        cause = f"init container {inits.failed} has failed and is not started again"
        return Plan(kill_pod=True, finished=True, cause=cause)
    ephemeral = [judge_ephemeral(view, c) for c in spec.ephemeral_containers]
    later = judged if inits.initialised else []
    return Plan(
        kill=(*_kills(ephemeral), *inits.kill, *_kills(judged), *_not_in_spec(view)),
        remove=tuple(dict.fromkeys((*_removes(ephemeral), *inits.remove, *_removes(judged)))),
        start=(*_starts(ephemeral), *inits.start, *_starts(later)),
    )


def _goes_on(container: Container, judged: Judgement) -> bool:
    """Tell whether a container keeps its pod going: it runs, will run, or its rules may say so."""
    if judged.outcome is Outcome.KILLED:
        return restart.has_rules(container)
    return judged.outcome in (Outcome.KEEP, Outcome.START)


def _plan_end(judged: list[Judgement]) -> Plan:
    """Plan for a pod of which no regular container runs on: sidecars do not hold it (P-76, P-79).

    What has a reason of its own to be killed is killed for that reason first, with its grace.
    """
    kills = _kills(judged)
    if kills:
        return Plan(kill=kills)
    return Plan(kill_pod=True, finished=True, cause="none of its containers is to run any more")


def _not_in_spec(view: View) -> tuple[Kill, ...]:
    known = names(view.pod)
    return tuple(
        Kill(
            found.id,
            found.name,
            KillReason.NOT_IN_SPEC,
            f"Container {found.name} is not in the pod's spec any more",
        )
        for found in view.record.containers
        if found.name not in known and found.state in LIVE
    )


# Restarting all containers (P-81).


def _triggers(view: View) -> frozenset[str]:
    """Return the containers whose end restarts all others."""
    spec = view.pod.spec
    return frozenset(
        container.name
        for among, only_here in ((spec.init_containers, True), (spec.containers, False))
        for container in among
        if _triggered(view, container, only_here=only_here)
    )


def _triggered(view: View, container: Container, *, only_here: bool) -> bool:
    last = view.last(container.name, only_here=only_here)
    if view.running(container.name) is not None or last is None or view.never_ran(last):
        return False
    if last.state is not ContainerState.EXITED or not restart.restarts_all(container, last):
        return False
    is_init = only_here and not is_sidecar(container)
    return not is_init or restart.init_failed(last)  # one that did its work is done


def _plan_restart_all(view: View, triggers: frozenset[str]) -> Plan:
    """Kill and remove all containers; what triggered it goes last.

    So whoever comes after a death in the middle of it still sees why. Ephemeral containers stay:
    they have their one run, and would get another if they were forgotten.
    """
    spec = view.pod.spec
    ordered = [c for among in (spec.containers, spec.init_containers) for c in among]
    ordered.sort(key=lambda c: c.name in triggers)  # stable: regular ones before init ones
    found = [record for c in ordered for record in view.of(c.name)]
    because = " and ".join(sorted(triggers))
    return Plan(
        kill=tuple(_kill_for_restart(c, because) for c in found if c.state in LIVE),
        remove=tuple(c.id for c in found),
        sandbox_id=view.sandbox.id if view.sandbox else "",
        sandbox_attempt=view.sandbox.attempt if view.sandbox else 0,
        restart_all=True,
        cause=f"the end of {because} restarts all containers",
    )


def _kill_for_restart(found: ContainerRecord, because: str) -> Kill:
    text = f"Container {found.name} is restarted because of the end of {because}"
    return Kill(found.id, found.name, KillReason.RESTART_ALL, text, grace=0)


# What several judgements come to.


def _kills(judged: Iterable[Judgement]) -> tuple[Kill, ...]:
    return tuple(kill for j in judged for kill in j.kill)


def _removes(judged: Iterable[Judgement]) -> tuple[str, ...]:
    return tuple(id_ for j in judged for id_ in j.remove)


def _starts(judged: Iterable[Judgement]) -> tuple[Start, ...]:
    return tuple(j.start for j in judged if j.start is not None)
