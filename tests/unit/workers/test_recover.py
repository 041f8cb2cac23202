"""What a dead predecessor had under way, settled by what the runtime shows."""

from __future__ import annotations

import pytest

from kubelet.pods.rows import Call, CallStep
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord
from procs.syncloop.workers import recover

CREATED, RUNNING, EXITED = (
    ContainerState.CREATED,
    ContainerState.RUNNING,
    ContainerState.EXITED,
)


def record(state: ContainerState | None, exit_code: int = 0, reason: str = "") -> PodRecord:
    if state is None:
        return PodRecord("u")
    found = ContainerRecord("id1", "c", state=state, exit_code=exit_code, reason=reason)
    return PodRecord("u", containers=(found,))


@pytest.mark.parametrize(
    ("step", "seen", "exit_code", "expected"),
    [
        (CallStep.SANDBOX, None, 0, None),  # there or not: the plan sees it
        (CallStep.CREATE, None, 0, CallStep.CREATE),  # the image's reference is kept
        (CallStep.CREATED, CREATED, 0, CallStep.CREATED),
        (CallStep.START, RUNNING, 0, CallStep.STARTED),  # its hook is not known to be over
        (CallStep.START, CREATED, 0, CallStep.BROKEN_OFF),
        (CallStep.START, EXITED, 128, CallStep.BROKEN_OFF),  # given up by the runtime
        (CallStep.START, EXITED, 1, None),  # it ran, and ended by itself
        (CallStep.START, None, 0, None),
        (CallStep.BROKEN_OFF, RUNNING, 0, CallStep.STARTED),
        (CallStep.BROKEN_OFF, EXITED, 0, None),
        (CallStep.STARTED, RUNNING, 0, CallStep.STARTED),
        (CallStep.STARTED, EXITED, 0, None),
        (CallStep.PRE_STOP, RUNNING, 0, CallStep.PRE_STOP),
        (CallStep.STOP, RUNNING, 0, CallStep.STOP),
        (CallStep.STOP, EXITED, 137, None),
    ],
)
def test_settled(step, seen, exit_code, expected):
    """Each call is kept, renamed or dropped by what became of it."""
    calls = {"c": Call(step, container_id="id1", image_ref="ref")}
    reason = "StartError" if exit_code == 128 else "Error"
    found = recover.settled(calls, record(seen, exit_code, reason))
    assert (found["c"].step if found else None) == expected
    assert all(call.image_ref == "ref" for call in found.values())


def test_broken_off_and_unhooked_name_their_containers():
    """The plan gets the ids of starts that were cut off; hooks run again for what runs."""
    calls = {
        "a": Call(CallStep.BROKEN_OFF, container_id="1"),
        "b": Call(CallStep.STARTED, container_id="2"),
        "c": Call(CallStep.STOP, container_id="3"),
    }
    assert recover.broken_off(calls) == {"1"}
    assert recover.unhooked(calls) == {"b": "2"}


@pytest.mark.parametrize("step", [CallStep.START, CallStep.BROKEN_OFF])
def test_a_container_that_itself_ends_with_128_has_run(step):
    """Only what the runtime calls a failed start never ran: any other end counts as one."""
    calls = {"c": Call(step, container_id="id1")}
    assert recover.settled(calls, record(EXITED, 128, "Error")) == {}


@pytest.mark.parametrize(
    ("step", "seen", "exit_code", "silent"),
    [
        (CallStep.START, EXITED, 128, True),  # nobody has judged yet what became of it
        (CallStep.START, EXITED, 1, False),
        (CallStep.START, CREATED, 0, False),
        (CallStep.START, RUNNING, 0, False),
        (CallStep.START, None, 0, False),
        (CallStep.STARTED, EXITED, 128, False),
        (CallStep.BROKEN_OFF, EXITED, 128, True),
        (CallStep.BROKEN_OFF, CREATED, 0, True),
    ],
)
def test_a_status_is_silent_about_starts_that_are_not_judged_yet(step, seen, exit_code, silent):
    """A start that was cut off by a death is never shown as an end of the container."""
    calls = {"c": Call(step, container_id="id1")}
    reason = "StartError" if exit_code == 128 else "Error"
    found = recover.unspoken(calls, record(seen, exit_code, reason))
    assert found == ({"id1"} if silent else set())
