"""What a predecessor had under way when it died, settled by what the runtime shows now.

Pure but for the journal: after it, ``WorkRow.calls`` holds only what still has a meaning.
"""

from __future__ import annotations

from dataclasses import replace

from kubelet.pods.rows import Call, CallStep
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord

_RAN = (ContainerState.RUNNING, ContainerState.EXITED)
_NEVER_RAN = (128, "StartError")  # exit code and reason of a start that the runtime gave up


def settled(calls: dict[str, Call], record: PodRecord | None) -> dict[str, Call]:
    """Return the journal after a death, or after a newer look.

    - A sandbox that was asked for is there or not: the plan sees which.
    - A start that was sent may still be given up by the runtime: until it is known to run, or to
      have ended by itself, it is *broken off*, and its end is no crash of the container.
    - A hook that had not ended runs again: hooks run at least once.
    """
    containers = {c.id: c for c in record.containers} if record else {}
    found = {}
    for name, call in calls.items():
        kept = _settle(call, containers.get(call.container_id))
        if kept is not None:
            found[name] = kept
    return found


def _settle(call: Call, container: ContainerRecord | None) -> Call | None:
    if call.step is CallStep.SANDBOX:
        return None
    if call.step in (CallStep.PULLED, CallStep.CREATE, CallStep.CREATED):
        return call  # the reference of its image: it is not pulled again
    if call.step in (CallStep.START, CallStep.BROKEN_OFF):
        return _settle_start(call, container)
    if container is None or container.state is ContainerState.EXITED:
        return None
    return call


def _settle_start(call: Call, container: ContainerRecord | None) -> Call | None:
    if container is None:
        return None
    if container.state is ContainerState.RUNNING:
        return replace(call, step=CallStep.STARTED)
    if container.state is ContainerState.EXITED and not _never_ran(container):
        return None
    return replace(call, step=CallStep.BROKEN_OFF)


def _never_ran(container: ContainerRecord) -> bool:
    ended = (container.exit_code, container.reason)
    return container.state is ContainerState.EXITED and ended == _NEVER_RAN


def begun(calls: dict[str, Call], record: PodRecord | None) -> dict[str, Call]:
    """Return the starts under way that the runtime has carried out, whatever became of them."""
    known = {c.id: c for c in record.containers} if record else {}
    found = {}
    for name, call in calls.items():
        container = known.get(call.container_id)
        if call.step not in (CallStep.START, CallStep.BROKEN_OFF) or container is None:
            continue
        if container.state in _RAN and not _never_ran(container):
            found[name] = call
    return found


def broken_off(calls: dict[str, Call]) -> frozenset[str]:
    """Return the containers whose start was cut off and is not settled yet."""
    return frozenset(c.container_id for c in calls.values() if c.step is CallStep.BROKEN_OFF)


def unspoken(calls: dict[str, Call], record: PodRecord | None) -> frozenset[str]:
    """Return the containers that a status is silent about.

    Those whose start was cut off, and those that the runtime gave up while whoever has the call
    under way, or has taken it over from a predecessor, has not judged that yet.
    """
    gave_up = {c.id for c in record.containers if _never_ran(c)} if record else set()
    under_way = {c.container_id for c in calls.values() if c.step is CallStep.START}
    return broken_off(calls) | (gave_up & under_way)


def unhooked(calls: dict[str, Call]) -> dict[str, str]:
    """Return the running containers (name -> id) whose postStart hook is not known to be over."""
    return {n: c.container_id for n, c in calls.items() if c.step is CallStep.STARTED}
