"""Events from two looks (G-3): the table of the facts, and what must hold for any two looks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelet.pods.lifecycle import EventType, PlegState, PodEvent, events, states
from kubelet.pods.runtime import (
    ContainerRecord,
    ContainerState,
    PodRecord,
    SandboxRecord,
    SandboxState,
)

STARTED, DIED, REMOVED, CHANGED = (
    EventType.CONTAINER_STARTED,
    EventType.CONTAINER_DIED,
    EventType.CONTAINER_REMOVED,
    EventType.CONTAINER_CHANGED,
)
CREATED, RUNNING, EXITED, UNKNOWN = ContainerState
READY, NOT_READY = SandboxState


def pod(containers=None, sandboxes=None, **more):
    """A pod with containers and sandboxes by id and state."""
    return PodRecord(
        "u",
        sandboxes=tuple(SandboxRecord(i, state=s) for i, s in (sandboxes or {}).items()),
        containers=tuple(ContainerRecord(i, "app", state=s) for i, s in (containers or {}).items()),
        **more,
    )


def types(old, new):
    """The types of the events of one container."""
    before = pod({"c": old}) if old else None
    after = pod({"c": new}) if new else None
    return [event.type for event in events(before, after)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, CREATED, [CHANGED]),
        (None, RUNNING, [STARTED]),
        (None, EXITED, [DIED]),
        (None, UNKNOWN, [CHANGED]),
        (CREATED, RUNNING, [STARTED]),
        (CREATED, EXITED, [DIED]),
        (CREATED, None, [DIED, REMOVED]),
        (RUNNING, EXITED, [DIED]),
        (RUNNING, UNKNOWN, [CHANGED]),
        (RUNNING, None, [DIED, REMOVED]),
        (EXITED, RUNNING, [STARTED]),
        (EXITED, None, [REMOVED]),
        (UNKNOWN, RUNNING, [STARTED]),
        (UNKNOWN, EXITED, [DIED]),
        (UNKNOWN, None, [DIED, REMOVED]),
        (RUNNING, RUNNING, []),
        (EXITED, EXITED, []),
    ],
)
def test_g3_events_of_a_container(old, new, expected):
    """G-3: gone after exited is removed; gone while not exited died first."""
    assert types(old, new) == expected


def test_g3_created_counts_as_unknown():
    """G-3: from created to unknown nothing happens to the states; the pod is synced for it."""
    assert types(CREATED, UNKNOWN) == [EventType.POD_SYNC]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, READY, [STARTED]),
        (READY, NOT_READY, [DIED]),
        (NOT_READY, None, [REMOVED]),
        (READY, None, [DIED, REMOVED]),
    ],
)
def test_g3_sandboxes_are_treated_as_containers(old, new, expected):
    """G-3: a sandbox runs while it is ready, and has exited when it is not."""
    before = pod(sandboxes={"s": old}) if old else None
    after = pod(sandboxes={"s": new}) if new else None
    assert [e.type for e in events(before, after)] == expected


def test_g3_a_change_without_a_change_of_state_syncs_the_pod():
    """G-3: inspected again, states the same, something else not."""
    old, new = pod({"c": RUNNING}), pod({"c": RUNNING}, problems=("odd",))
    assert events(old, new) == (PodEvent("u", EventType.POD_SYNC),)


def test_nothing_from_nothing():
    """Two equal looks, or two at a pod that was never there, are not news."""
    assert events(None, None) == ()
    assert events(pod({"c": RUNNING}), pod({"c": RUNNING})) == ()


def test_a_dead_container_that_is_only_left_out_was_not_removed():
    """With thousands of dead ones the oldest are no longer in the record, but are there."""
    old = pod({"a": EXITED, "b": EXITED})
    assert events(old, pod({"b": EXITED, "c": EXITED}, left_out=1)) == (PodEvent("u", DIED, "c"),)


looks = st.none() | st.builds(
    pod,
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from(ContainerState)),
    st.dictionaries(st.sampled_from("xyz"), st.sampled_from(SandboxState)),
)
EFFECT = {STARTED: PlegState.RUNNING, DIED: PlegState.EXITED, CHANGED: PlegState.UNKNOWN}


def replay(before, happened):
    """The states that events lead to."""
    now = dict(before)
    for event in happened:
        if event.type is REMOVED:
            now.pop(event.id)
        elif event.id:
            now[event.id] = EFFECT[event.type]
    return now


@given(looks, looks)
def test_replaying_the_events_gives_the_new_states(old, new):
    """No change of state is missed, none is made up, and the order is right."""
    assert replay(states(old), events(old, new)) == states(new)


@given(looks, looks)
def test_there_are_events_exactly_when_something_changed(old, new):
    """An unchanged pod is silent; a changed one that is still there is not."""
    happened = events(old, new)
    if old == new:
        assert happened == ()
    elif old is not None and new is not None:
        assert happened
    assert all(event.pod == "u" for event in happened)
