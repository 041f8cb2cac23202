"""Sorting and choosing: whose is what, what differs, and what is worth a call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelet.cri import api_pb2 as pb
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord, SandboxState
from procs.pleg import convert
from procs.pleg.listing import (
    INSPECTED_DEAD,
    KEPT_DEAD,
    UID_LABEL,
    is_uid,
    plan,
    plan_sandboxes,
    shape_of,
    shape_seen,
    sort_out,
)

RUNNING, EXITED = pb.CONTAINER_RUNNING, pb.CONTAINER_EXITED


def box(id_, uid="u", state=pb.SANDBOX_READY, created=1):
    labels = {UID_LABEL: uid} if uid is not None else {}
    return pb.PodSandbox(id=id_, state=state, created_at=created, labels=labels)


def con(id_, uid="u", *, state=RUNNING, created=1, name="app", sandbox="s"):
    labels = {UID_LABEL: uid} if uid is not None else {}
    made = pb.Container(id=id_, created_at=created, labels=labels, pod_sandbox_id=sandbox)
    made.state = state
    made.metadata.name = name
    return made


def test_everything_with_a_uid_is_sorted_by_pod():
    """Sandboxes and containers of one pod come together."""
    listing = sort_out([box("s"), box("t", "v")], [con("a"), con("b", "v"), con("c")])
    assert {uid: sorted(pod.shape) for uid, pod in listing.pods.items()} == {
        "u": ["a", "c", "s"],
        "v": ["b", "t"],
    }
    assert listing.foreign == []


@pytest.mark.parametrize("uid", [None, "", "runtime", "*", "x" * 257])
def test_what_cannot_be_a_pod_s_is_foreign(uid):
    """No uid, or one that is the key of another entry or no key at all: counted, left alone."""
    listing = sort_out([box("s", uid)], [con("c", uid)])
    assert listing.pods == {}
    assert listing.foreign == ["s", "c"]
    assert uid is None or not is_uid(uid)


def test_a_container_without_its_sandbox_is_its_pod_s():
    """The label decides, not the sandbox."""
    assert list(sort_out([], [con("c")]).pods) == ["u"]


def test_the_shape_differs_with_each_state():
    """A pod is looked at when anything of it changes, comes or goes."""
    shapes = [sort_out([], [con("c", state=state)]).pods["u"].shape for state in range(4)]
    shapes += [sort_out([box("c", state=state)], []).pods["u"].shape for state in range(2)]
    assert len({tuple(s.items()) for s in shapes}) == 6


@pytest.mark.parametrize("state", [4, 77, -1])
def test_a_state_that_the_cri_does_not_have_is_as_good_as_unknown(state):
    """Otherwise such a container would be inspected each second."""
    pods = sort_out([box("s", state=state)], [con("c", state=state)]).pods
    assert pods["u"].shape == {"c": 3, "s": 101}


def record_of(*containers, sandboxes=(), left_out=0):
    records = [convert.listed(c) for c in containers]
    boxes = [convert.listed_sandbox(s) for s in sandboxes]
    return convert.pod("u", sandboxes=boxes, containers=records, labels={}, left_out=left_out)


@given(st.lists(st.integers(0, 9), max_size=5), st.lists(st.integers(0, 9), max_size=3))
def test_a_record_has_the_shape_that_it_was_made_of(states, box_states):
    """After a restart the first look finds unchanged pods unchanged, by their records alone."""
    containers = [con(f"c{i}", state=s) for i, s in enumerate(states)]
    sandboxes = [box(f"s{i}", state=s) for i, s in enumerate(box_states)]
    pods = sort_out(sandboxes, containers).pods
    record = record_of(*containers, sandboxes=sandboxes)
    assert shape_of(record) == (pods["u"].shape if pods else {})


def test_a_record_that_leaves_out_some_has_no_shape():
    """Then one look after a restart tells."""
    assert shape_of(record_of(con("c"), left_out=1)) is None


def test_a_status_that_is_newer_than_the_listing_counts():
    """What ended in between is not looked at again for that; what is left out stays as listed."""
    listed = {"c": RUNNING, "old": EXITED}
    ended = record_of(con("c", state=EXITED))
    assert shape_seen(listed, ended) == {"c": EXITED}
    ended = record_of(con("c", state=EXITED), left_out=1)
    assert shape_seen(listed, ended) == {"c": EXITED, "old": EXITED}


def test_all_that_lives_is_inspected():
    """Whatever its state, but dead."""
    listed = [con(f"c{s}", state=s) for s in (0, 1, 3, 9)]
    assert plan(listed, {}).inspect == tuple(listed)


def test_a_dead_container_that_is_known_costs_no_call():
    """It does not change any more."""
    known = ContainerRecord("c", "app", state=ContainerState.EXITED, exit_code=3)
    chosen = plan([con("c", state=EXITED)], {"c": known})
    assert (chosen.inspect, chosen.reuse) == ((), (known,))


def test_a_container_known_as_running_is_inspected_when_it_is_dead():
    """That is the news."""
    known = ContainerRecord("c", "app", state=ContainerState.RUNNING)
    assert len(plan([con("c", state=EXITED)], {"c": known}).inspect) == 1


def test_of_thousands_of_dead_containers_the_newest_are_inspected():
    """20,000 of two names: six calls, a bounded record, and the rest is counted."""
    dead = [con(f"{i}", state=EXITED, created=i, name="ab"[i % 2]) for i in range(20_000)]
    chosen = plan([*dead, con("alive")], {})
    assert len(chosen.inspect) == 2 * INSPECTED_DEAD + 1
    assert {c.id for c in chosen.inspect} == {"alive", *(str(i) for i in range(19_994, 20_000))}
    assert len(chosen.inspect) - 1 + len(chosen.listed) == KEPT_DEAD
    assert chosen.left_out == 20_000 - KEPT_DEAD


def test_the_newest_of_each_name_is_kept_however_old_it_is():
    """A container that was started once stands beside one that crashed a thousand times since."""
    dead = [con(f"{i}", state=EXITED, created=100 + i, name="loop") for i in range(1000)]
    chosen = plan([*dead, con("once", state=EXITED, name="init", created=1)], {})
    assert "once" in {c.id for c in chosen.inspect}
    assert chosen.left_out == 1001 - KEPT_DEAD


def test_what_has_just_died_is_inspected_among_any_number_of_dead():
    """Left out it would look removed."""
    dead = [con(f"{i}", state=EXITED, created=100 + i) for i in range(1000)]
    known = {"old": ContainerRecord("old", "app", state=ContainerState.RUNNING)}
    chosen = plan([*dead, con("old", state=EXITED, created=1)], known)
    assert "old" in {c.id for c in chosen.inspect}


def test_of_many_dead_sandboxes_the_newest_are_inspected():
    """And the ready ones, of course."""
    dead = [box(f"{i}", state=pb.SANDBOX_NOTREADY, created=i) for i in range(500)]
    chosen = plan_sandboxes([box("r"), *dead], ())
    assert [s.id for s in chosen.inspect] == ["r", "499", "498", "497"]
    assert len(chosen.listed) == KEPT_DEAD - INSPECTED_DEAD
    assert chosen.left_out == 500 - KEPT_DEAD
    again = plan_sandboxes(dead, map(convert.listed_sandbox, dead))
    assert again.listed == ()
    assert all(s.state is SandboxState.NOT_READY for s in again.reuse)


def test_a_record_without_anything_has_an_empty_shape():
    """So the look after a pod's end finds nothing to do."""
    assert shape_of(PodRecord("u")) == {}
