"""What is to be done about one container of a pod: keep, kill, remove, start (P-74, P-78, P-83)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from kubelet.api.container import Container, is_sidecar
from kubelet.pods.runtime import ContainerRecord, ContainerState
from procs.syncloop.runtime import restart
from procs.syncloop.runtime.actions import Kill, KillReason, Start
from procs.syncloop.runtime.hashing import matches
from procs.syncloop.runtime.killing import probe_grace
from procs.syncloop.runtime.kinds import StartKind
from procs.syncloop.runtime.view import LIVE, View


class Outcome(StrEnum):
    """How a container stands."""

    KEEP = "keep"  # it runs as it should
    START = "start"
    ENDED = "ended"  # and is not started again
    KILLED = "killed"  # and not started again, unless a rule says so once its exit code is known


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is to be done about one container."""

    outcome: Outcome
    last: ContainerRecord | None = None  # the instance that was judged
    kill: tuple[Kill, ...] = ()
    remove: tuple[str, ...] = ()
    start: Start | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a container is started again."""

    kind: StartKind
    ended: Callable[[ContainerRecord], bool]  # whether it is after this end
    killed: bool  # whether it is after we killed it
    only_here: bool = False  # what happened in an older sandbox does not count (P-72)


def regular_terms(view: View, container: Container) -> Terms:
    """Return the terms of a regular container (P-80)."""
    return Terms(
        StartKind.REGULAR,
        lambda last: restart.should_restart(view.pod, container, last),
        restart.restarts_when_killed(view.pod, container),
    )


def init_terms(view: View, container: Container) -> Terms:
    """Return the terms of an init container: a sidecar always is, another if it failed (P-76)."""
    if is_sidecar(container):
        return Terms(StartKind.INIT, lambda _: True, killed=True, only_here=True)
    return Terms(
        StartKind.INIT,
        lambda last: restart.init_restarts(view.pod, container, last),
        restart.restarts_when_killed(view.pod, container),
        only_here=True,
    )


def judge(view: View, container: Container, terms: Terms) -> Judgement:
    """Judge one container that is to run in the sandbox that counts."""
    running = view.running(container.name)
    if running is not None:
        return _judge_running(view, container, terms, running)
    last = view.last(container.name, only_here=terms.only_here)
    if last is None or view.never_ran(last):
        return _start(view, container, terms, last)
    if last.state is ContainerState.EXITED:
        again, otherwise = terms.ended(last), Outcome.ENDED
    else:  # it may be running, and is killed for that
        again, otherwise = terms.killed, Outcome.KILLED
    if again:
        return _start(view, container, terms, last)
    kill = stale_kills(view, container.name, restarts=False)
    return Judgement(otherwise, last, kill, _leftovers(view, container.name))


def judge_ephemeral(view: View, container: Container) -> Judgement:
    """Judge an ephemeral container: it is started once and never again (P-74)."""
    found = view.of(container.name)
    if all(view.never_ran(c) for c in found):
        terms = Terms(StartKind.EPHEMERAL, lambda _: False, killed=False)
        return _start(view, container, terms, found[0] if found else None)
    kills = stale_kills(view, container.name, restarts=False)
    kill = tuple(k for k in kills if k.reason is not KillReason.UNKNOWN)  # nothing replaces it
    return Judgement(Outcome.ENDED, found[0], kill, _leftovers(view, container.name))


def stale_kills(view: View, name: str, *, restarts: bool) -> tuple[Kill, ...]:
    """Return the kills of instances that are not the one that is to run (P-83)."""
    kept = view.running(name)
    kills = []
    for found in view.of(name):
        if found.state not in LIVE or found is kept:
            continue
        if not view.is_here(found):
            kills.append(_kill_old(found, restarts=restarts))
        elif found.state is ContainerState.UNKNOWN:
            what = f"Container {name} is in unknown state"
            kills.append(_kill(found, KillReason.UNKNOWN, what, restarts=restarts))
        else:
            what = f"Container {name} runs more than once"
            kills.append(_kill(found, KillReason.DUPLICATE, what))
    return tuple(kills)


def _judge_running(
    view: View, container: Container, terms: Terms, running: ContainerRecord
) -> Judgement:
    again = terms.killed or matches(container, running) is False  # P-78: a change always restarts
    cause = _cause(view, container, terms.kind, running, restarts=again)
    stale = stale_kills(view, container.name, restarts=False)
    if cause is None:
        leftovers = _leftovers(view, container.name)
        return Judgement(Outcome.KEEP, running, stale, leftovers)
    kill = (*stale, cause)
    if not again:
        return Judgement(Outcome.KILLED, running, kill, _leftovers(view, container.name))
    start = Start(terms.kind, container.name, view.attempt(container.name))
    return Judgement(Outcome.START, running, kill, _leftovers(view, container.name), start)


def _cause(
    view: View, container: Container, kind: StartKind, running: ContainerRecord, *, restarts: bool
) -> Kill | None:
    """Return why a running container is killed; None: it is not (P-78)."""
    observed, what = view.observed, f"Container {container.name}"
    if kind is StartKind.INIT:  # in the Go kubelet's words, which leave the restart unsaid
        what, restarts = f"Init container {container.name}", False
    if matches(container, running) is False:
        text = f"{what} definition changed"
        return _kill(running, KillReason.CHANGED, text, restarts=restarts)
    if running.id in observed.liveness_failed:
        text = f"{what} failed liveness probe"
        grace = probe_grace(view.pod, container.liveness_probe)
        return _kill(running, KillReason.LIVENESS, text, grace, restarts=restarts)
    if running.id in observed.startup_failed:
        text = f"{what} failed startup probe"
        grace = probe_grace(view.pod, container.startup_probe)
        return _kill(running, KillReason.STARTUP, text, grace, restarts=restarts)
    return None


def _start(
    view: View, container: Container, terms: Terms, last: ContainerRecord | None
) -> Judgement:
    """Start a container: the one that was created for that already, or else a new one."""
    name = container.name
    kill = stale_kills(view, name, restarts=True)
    if last is not None and view.adoptable(container, last):
        start = Start(terms.kind, name, last.attempt, last.id)
        return Judgement(Outcome.START, last, kill, _leftovers(view, name, last.id), start)
    start = Start(terms.kind, name, view.attempt(name))
    return Judgement(Outcome.START, last, kill, _leftovers(view, name), start)


def _leftovers(view: View, name: str, adopted: str = "") -> tuple[str, ...]:
    """Return the instances that never ran and never will: their number is given anew."""
    return tuple(c.id for c in view.of(name) if view.never_ran(c) and c.id != adopted)


def _kill_old(found: ContainerRecord, *, restarts: bool) -> Kill:
    what = f"Container {found.name} is in a sandbox that is not the pod's any more"
    return _kill(found, KillReason.OLD_SANDBOX, what, restarts=restarts)


def _kill(
    found: ContainerRecord,
    reason: KillReason,
    what: str,
    grace: int | None = None,
    *,
    restarts: bool = False,
) -> Kill:
    message = f"{what}, will be restarted" if restarts else what
    return Kill(found.id, found.name, reason, message, grace)
