"""Whether a pod needs a new sandbox, and whether it is worth one (P-70..P-72)."""

from __future__ import annotations

from kubelet.api.container import Container, is_sidecar
from kubelet.api.pod import Pod
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord, SandboxState
from procs.syncloop.runtime import restart
from procs.syncloop.runtime.actions import Plan, Start
from procs.syncloop.runtime.judging import Outcome, judge_ephemeral
from procs.syncloop.runtime.kinds import StartKind
from procs.syncloop.runtime.view import LIVE, View


def why_new(pod: Pod, record: PodRecord | None) -> str:
    """Say why a pod needs a new sandbox (P-70); "": it does not."""
    if record is None or not record.sandboxes:
        return "it has no sandbox"
    ready = sum(s.state is SandboxState.READY for s in record.sandboxes)
    if ready > 1:
        return f"it has {ready} ready sandboxes"
    newest = record.sandboxes[0]
    if newest.state is not SandboxState.READY:
        return "its sandbox is not ready"
    if newest.host_network != bool(pod.spec.host_network):
        return "its sandbox has another network mode than the pod"
    if not newest.host_network and not newest.ips:
        return "its sandbox has no IP address"
    return ""


def plan_new(view: View, why: str) -> Plan:
    """Return the plan for a pod without a sandbox that it can use.

    A new one is made only if there is something to start in it (P-71). Everything that still runs
    is killed first, and every init container runs again (P-72).
    """
    newest = view.record.sandboxes[0] if view.record.sandboxes else None
    if _undecided(view):
        cause = f"{why}, and what runs must have ended to know whether it is started again"
        return Plan(kill_pod=True, sandbox_id=newest.id if newest else "", cause=cause)
    worth_it = any(_starts(view, c) for c in view.pod.spec.containers)
    failed = _failed_init(view)
    if failed or not worth_it:
        left = f"init container {failed} has failed" if failed else "no container is left to start"
        return Plan(
            kill_pod=view.alive,
            sandbox_id=newest.id if newest else "",
            finished=True,
            cause=f"{why}, and {left}",
        )
    return Plan(
        kill_pod=view.live or newest is not None,
        new_sandbox=True,
        sandbox_attempt=max((s.attempt + 1 for s in view.record.sandboxes), default=0),
        remove=_removed(view),
        start=_first_starts(view),
        cause=why,
    )


def _undecided(view: View) -> bool:
    """Tell whether it takes the exit code of something that runs to know how it goes on."""
    inits = [c for c in view.pod.spec.init_containers if not is_sidecar(c)]
    asked = [*inits, *(c for c in view.pod.spec.containers if restart.has_rules(c))]
    return any(
        restart.policy(view.pod, container) == restart.NEVER and found.state in LIVE
        for container in asked
        for found in view.of(container.name)[:1]
    )


def _starts(view: View, container: Container) -> bool:
    """Tell whether a regular container is worth a new sandbox."""
    last = view.last(container.name)
    if last is None or view.never_ran(last):
        own = restart.policy(view.pod, container)
        return own != restart.NEVER or not view.ran  # P-71: a Never pod runs once
    if last.state is ContainerState.EXITED:
        return restart.should_restart(view.pod, container, last)
    return restart.restarts_when_killed(view.pod, container)


def _failed_init(view: View) -> str:
    """Return the init container that failed and is not started again; "": there is none."""
    for container in view.pod.spec.init_containers:
        last = _last_that_ran(view, container.name)
        if last is None or is_sidecar(container) or last.state is not ContainerState.EXITED:
            continue
        if restart.init_failed(last) and not restart.init_restarts(view.pod, container, last):
            return container.name
    return ""


def _last_that_ran(view: View, name: str) -> ContainerRecord | None:
    return next((c for c in view.of(name) if not view.never_ran(c)), None)


def _removed(view: View) -> tuple[str, ...]:
    """Return all init containers (P-72), and what was created in a sandbox that is over."""
    inits = {c.name for c in view.pod.spec.init_containers}
    return tuple(c.id for c in view.record.containers if c.name in inits or view.never_ran(c))


def _first_starts(view: View) -> tuple[Start, ...]:
    """Return what can be started in a sandbox that is new, with all that never ran before."""
    ephemeral = (judge_ephemeral(view, c) for c in view.pod.spec.ephemeral_containers)
    starts = [j.start for j in ephemeral if j.outcome is Outcome.START and j.start is not None]
    first_init = view.pod.spec.init_containers[:1]
    kind = StartKind.INIT if first_init else StartKind.REGULAR
    starts += [
        Start(kind, c.name, view.attempt(c.name))
        for c in first_init or view.pod.spec.containers
        if first_init or _last_that_ran(view, c.name) is None or _starts(view, c)
    ]
    return tuple(starts)
