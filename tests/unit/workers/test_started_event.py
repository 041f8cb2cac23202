"""The event that a container started, over a death between the start and the event."""

from __future__ import annotations

import pytest

from kubelet.api import codec
from kubelet.api.pod import Pod
from kubelet.pods.rows import Call, CallStep
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord
from procs.syncloop.events import Events
from procs.syncloop.workers.recover import begun

RUNNING, EXITED, CREATED = ContainerState.RUNNING, ContainerState.EXITED, ContainerState.CREATED


def record(state, **more):
    """A pod with one container."""
    container = ContainerRecord(id="id", name="c", state=state, **more)
    return PodRecord(uid="u", containers=(container,))


@pytest.mark.parametrize(
    ("step", "found", "expected"),
    [
        (CallStep.START, record(RUNNING), True),
        (CallStep.START, record(EXITED, exit_code=1), True),
        (CallStep.BROKEN_OFF, record(RUNNING), True),
        (CallStep.START, record(CREATED), False),
        (CallStep.START, record(EXITED, exit_code=128, reason="StartError"), False),
        (CallStep.STARTED, record(RUNNING), False),
        (CallStep.CREATED, record(RUNNING), False),
        (CallStep.START, None, False),
    ],
)
def test_a_start_that_was_carried_out_is_known_by_the_runtime(step, found, expected):
    """Only what was under way counts, and only if the container ran."""
    calls = {"c": Call(step, container_id="id")}
    assert begun(calls, found) == (calls if expected else {})


class Tables:
    """A process that writes nowhere but here."""

    def __init__(self):
        self.rows = {}

    def put(self, _table, key, value):
        self.rows[key] = value

    def record(self, *_what):
        """Note nothing."""


def test_an_event_that_was_said_since_the_call_is_not_said_again():
    """A death after the event and before the journal: the moment of the call tells."""
    now = [100]
    events = Events(Tables(), lambda: now[0])
    pod = codec.read(Pod, {"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "c"}]}})
    assert not events.said(pod, "Started", "c", 50)
    events.emit(pod, "Normal", "Started", "Container started", "c")
    assert events.said(pod, "Started", "c", 50)
    assert not events.said(pod, "Started", "c", 101)
    assert not events.said(pod, "Started", "other", 50)
    assert not events.said(pod, "Created", "c", 50)
