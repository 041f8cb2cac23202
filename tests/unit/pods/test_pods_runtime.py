"""The records of table ``runtime``: what is written is what is read, and nonsense is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelet.pods.runtime import (
    BadRecordError,
    Condition,
    ContainerRecord,
    ContainerState,
    Handler,
    PodRecord,
    Resources,
    RuntimeRecord,
    SandboxRecord,
    SandboxState,
    User,
    problem,
)
from shm.codec import pack, unpack

SECOND = 10**9
text = st.text(max_size=20)
number = st.integers(min_value=-(2**62), max_value=2**62)
texts = st.dictionaries(text, text, max_size=3)
sandboxes = st.builds(
    SandboxRecord,
    id=text,
    attempt=number,
    state=st.sampled_from(SandboxState),
    created_at_ns=number,
    ips=st.tuples(text),
    host_network=st.booleans(),
    labels=texts,
    annotations=texts,
)
containers = st.builds(
    ContainerRecord,
    id=text,
    name=text,
    state=st.sampled_from(ContainerState),
    exit_code=number,
    annotations=texts,
    mounts=st.tuples(text, text),
    resources=st.none() | st.builds(Resources, cpu_quota=number, unified=texts),
    user=st.none() | st.builds(User, uid=number, groups=st.tuples(number)),
    inspected=st.booleans(),
)
pods = st.builds(
    PodRecord,
    uid=text,
    name=text,
    sandboxes=st.lists(sandboxes, max_size=3).map(tuple),
    containers=st.lists(containers, max_size=3).map(tuple),
    left_out=number,
    problems=st.tuples(text),
)
runtimes = st.builds(
    RuntimeRecord,
    name=text,
    handlers=st.tuples(st.builds(Handler, name=text, user_namespaces=st.booleans())),
    conditions=st.tuples(st.builds(Condition, type=text, status=st.booleans())),
    healthy=st.booleans(),
    unseen=st.tuples(text),
)


@given(pods)
def test_a_pod_comes_back_as_it_was_written(record):
    """Through MessagePack and back, every field is the same."""
    assert PodRecord.from_wire(unpack(pack(record.to_wire()))) == record


@given(runtimes)
def test_the_runtime_comes_back_as_it_was_written(record):
    """The same for the runtime's own record."""
    assert RuntimeRecord.from_wire(unpack(pack(record.to_wire()))) == record


def test_what_has_its_default_is_not_written():
    """A small pod is a small entry: 2,500 of them are read often."""
    record = PodRecord("u", containers=(ContainerRecord("c", "app"),))
    assert record.to_wire() == {"uid": "u", "containers": [{"id": "c", "name": "app"}]}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "PodRecord is None, not a map"),
        ([], "not a map"),
        ({}, "PodRecord.uid is missing"),
        ({"uid": 3}, "PodRecord.uid is 3, not str"),
        ({"uid": "u", "color": "red"}, "has no field 'color'"),
        ({"uid": "u", "sandboxes": {}}, "PodRecord.sandboxes is a dict, not a list"),
        ({"uid": "u", "containers": [{"id": "c"}]}, r"containers\[0\].name is missing"),
        (
            {"uid": "u", "containers": [{"id": "c", "name": "n", "state": "asleep"}]},
            r"containers\[0\].state is 'asleep', not one of 'created'",
        ),
    ],
)
def test_nonsense_is_refused_by_name(value, says):
    """The error names the field, what it holds and what is allowed."""
    with pytest.raises(BadRecordError, match=says):
        PodRecord.from_wire(value)


def test_all_that_is_wrong_is_said_at_once():
    """Two misfits, two sentences."""
    with pytest.raises(BadRecordError) as caught:
        PodRecord.from_wire({"uid": 1, "name": 2})
    assert "PodRecord.uid" in str(caught.value)
    assert "PodRecord.name" in str(caught.value)


def test_a_pod_without_anything_is_gone():
    """Such a record stands for a pod that a look did not find."""
    assert PodRecord("u").gone
    assert not PodRecord("u", sandboxes=(SandboxRecord("s"),)).gone


def test_a_healthy_runtime_has_no_problem():
    """Nothing is said where nothing is wrong."""
    assert problem(RuntimeRecord(healthy=True), 0) is None


def test_the_stuck_call_is_named_with_its_age():
    """G-1: the reason names the call and how long it has not answered."""
    record = RuntimeRecord(healthy=True, waiting_for="ListContainers", waiting_since_ns=SECOND)
    says = problem(record, 43 * SECOND)
    assert says == "container runtime: ListContainers has not answered for 42s"


def test_reason_and_stuck_call_are_said_together():
    """N-12: down, since when, and what it owes an answer to."""
    record = RuntimeRecord(
        reason="container runtime is down",
        since_ns=SECOND,
        waiting_for="Status",
        waiting_since_ns=SECOND,
    )
    says = problem(record, 91 * SECOND)
    assert says == (
        "container runtime: not healthy for 1m30s: container runtime is down; "
        "Status has not answered for 1m30s"
    )


def test_trouble_is_said_before_it_counts_as_unhealthy_and_only_once():
    """The first failed look is worth a word; a reason that holds it already is enough."""
    says = problem(RuntimeRecord(healthy=True, trouble="nobody listens"), 0)
    assert says == "container runtime: nobody listens"
    says = problem(RuntimeRecord(reason="down: nobody listens", trouble="nobody listens"), 0)
    assert says == "container runtime: not healthy: down: nobody listens"


def test_other_problems_are_said_too():
    """A pod that cannot be inspected is a problem of a healthy runtime."""
    record = RuntimeRecord(healthy=True, problems=("pod u could not be inspected: no",))
    assert problem(record, 0) == "container runtime: pod u could not be inspected: no"
