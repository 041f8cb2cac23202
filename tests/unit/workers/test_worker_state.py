"""The state machine of a pod worker (P-30..P-41)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kubelet.api.container import Container
from kubelet.api.meta import ObjectMeta
from kubelet.api.pod import Pod, PodSpec
from kubelet.api.status import PodStatus
from kubelet.pods.rows import PodRow, WorkerState
from procs.syncloop.workers import state
from procs.syncloop.workers.state import (
    Admitted,
    Cleaned,
    Desired,
    Ended,
    Kill,
    Rejected,
    Removed,
    Stopped,
    apply,
)

NOW = 1_700_000_000 * 10**9
SYNC, TERMINATING = WorkerState.SYNC, WorkerState.TERMINATING
TERMINATED, FINISHED = WorkerState.TERMINATED, WorkerState.FINISHED


def pod(grace: int | None = 30, image: str = "a", **meta: object) -> Pod:
    """A pod as its source has it."""
    spec = PodSpec(containers=(Container(name="c", image=image),))
    spec = replace(spec, termination_grace_period_seconds=grace)
    return Pod(metadata=ObjectMeta(uid="u1", name="p", namespace="n", **meta), spec=spec)  # type: ignore[arg-type]


def born(which: Pod | None = None) -> PodRow:
    return state.born(which or pod(), "file", NOW)


def deleted(grace: int) -> Pod:
    return pod(deletion_timestamp="2026-01-01T00:00:00Z", deletion_grace_period_seconds=grace)


def test_new_pod_begins_in_sync():
    """A pod that nobody has ended yet is synced, with its document and its first version."""
    row = born()
    assert (row.state, row.version, row.pod, row.ending) == (SYNC, 1, pod(), None)


@pytest.mark.parametrize(
    ("event", "removed", "failed"),
    [
        (Removed(), True, False),  # removed from its source
        (Kill("Evicted", "low on memory"), False, True),  # killed for a reason
        (Ended(), False, False),  # came to its own end (P-32)
        (Rejected("OutOfcpu", "no room"), False, True),
        (Desired(deleted(5), "local"), True, False),
    ],
)
def test_what_ends_a_pod_makes_it_terminating_and_cancels_its_sync(event, removed, failed):
    """P-31: each reason to end moves to terminating, and what is under way is out of date."""
    outcome = apply(born(), event, NOW)
    ending = outcome.row.ending
    assert outcome.row.state is TERMINATING
    assert outcome.cancel
    assert outcome.wake
    assert ending is not None
    assert (ending.removed, ending.failed) == (removed, failed)
    assert ending.began_ns == NOW


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_arrives_ended_is_never_synced(phase):
    """P-31, P-40: a pod whose status is terminal goes to its end at once."""
    assert born(replace(pod(), status=PodStatus(phase=phase))).state is TERMINATING


@pytest.mark.parametrize(
    ("own", "deletion", "override", "expected"),
    [
        (30, None, None, 30),
        (None, None, None, 30),
        (0, None, None, 1),  # never below one second
        (30, 5, None, 5),
        (30, 5, 10, 5),  # the smallest wins
        (30, 60, 10, 10),
        (30, 60, None, 60),  # a deletion may give more than the spec
    ],
)
def test_grace(own, deletion, override, expected):
    """P-37: the smallest of deletion grace and override, else the spec's, at least a second."""
    row = born(pod(own, deletion_grace_period_seconds=deletion))
    assert state.effective_grace(row, override) == expected


def test_grace_only_shrinks():
    """P-30, P-37: a shorter grace cancels the stop under way, a longer one changes nothing."""
    row = apply(born(), Kill("Evicted", "x", grace=20), NOW).row
    longer = apply(row, Kill("Evicted", "x", grace=40), NOW + 1)
    assert longer.row.ending == row.ending
    assert not longer.cancel
    shorter = apply(row, Kill("Evicted", "x", grace=3), NOW + 1)
    assert shorter.row.ending is not None
    assert shorter.row.ending.grace == 3
    assert shorter.row.ending.began_ns == NOW
    assert shorter.cancel


def test_update_raises_the_version_and_wakes():
    """A changed pod is a new version; the same pod again is nothing."""
    row = born()
    same = apply(row, Desired(pod(), "file"), NOW)
    assert same.row == row
    assert not same.wake
    changed = apply(row, Desired(pod(image="b"), "file"), NOW)
    assert (changed.row.version, changed.wake, changed.cancel) == (2, True, False)


def test_removed_and_written_again_lives_once_more():
    """P-39: the same UID again, while it ends, starts anew after its end and only then."""
    row = apply(born(), Removed(), NOW).row
    row = apply(row, Desired(pod(), "file"), NOW).row
    assert (row.state, row.again) == (TERMINATING, True)
    row = apply(apply(row, Stopped(), NOW).row, Cleaned(), NOW).row
    assert (row.state, row.again) == (FINISHED, True)
    fresh = state.reborn(row, NOW)
    assert (fresh.state, fresh.again, fresh.ending, fresh.pod) == (SYNC, False, None, pod())


def test_removed_again_after_being_wanted_again_stays_away():
    """P-39: whoever removes it a second time does not get it back."""
    row = apply(born(), Removed(), NOW).row
    row = apply(row, Desired(pod(), "file"), NOW).row
    assert not apply(row, Removed(), NOW).row.again


def test_ended_pod_is_kept_until_it_is_removed():
    """A pod that ended by itself stays known; its removal is what lets the rest of it go."""
    row = apply(apply(born(), Ended(), NOW).row, Stopped(), NOW).row
    assert row.ending is not None
    assert not row.ending.removed
    outcome = apply(row, Removed(), NOW)
    assert outcome.wake
    assert outcome.row.ending is not None
    assert outcome.row.ending.removed


def test_first_reason_to_fail_stays():
    """A pod that is being evicted is not renamed by what happens to it afterwards."""
    row = apply(born(), Kill("Evicted", "low on memory"), NOW).row
    row = apply(row, Kill("DeadlineExceeded", "late"), NOW).row
    assert row.ending is not None
    assert row.ending.reason == "Evicted"


@pytest.mark.parametrize(
    ("row_state", "event"), [(SYNC, Stopped()), (SYNC, Cleaned()), (TERMINATING, Cleaned())]
)
def test_no_stage_is_skipped(row_state, event):
    """A worker that says that it is done with a stage it is not in has a bug."""
    with pytest.raises(ValueError, match="cannot become"):
        apply(replace(born(), state=row_state), event, NOW)


def test_orphan_has_one_second_and_nothing_stays():
    """P-35: what nobody wants ends with a grace of one second."""
    row = state.orphan("u9", "x", "n", NOW)
    assert row.state is TERMINATING
    assert row.ending is not None
    assert (row.ending.grace, row.ending.orphan, row.ending.removed) == (1, True, True)


ORDER = [SYNC, TERMINATING, TERMINATED, FINISHED]


class WorkerMachine(RuleBasedStateMachine):
    """Any events in any order: a life only goes forward, and grace only shrinks."""

    @initialize()
    def begin(self):
        self.row = born()
        self.before = self.row

    def deliver(self, event):
        self.before = self.row
        outcome = apply(self.row, event, NOW)
        if outcome.cancel:
            assert outcome.wake
        self.row = outcome.row

    @rule(image=st.sampled_from("abc"))
    def desired(self, image):
        self.deliver(Desired(pod(image=image), "file"))

    @rule(grace=st.integers(0, 60))
    def deletion(self, grace):
        self.deliver(Desired(deleted(grace), "local"))

    @rule(event=st.sampled_from([Removed(), Ended(), Rejected("r", "m"), Admitted()]))
    def simple(self, event):
        self.deliver(event)

    @rule(grace=st.one_of(st.none(), st.integers(0, 60)))
    def kill(self, grace):
        self.deliver(Kill("Evicted", "m", grace))

    @rule()
    def stage_ends(self):
        if self.row.state is TERMINATING:
            self.deliver(Stopped())
        elif self.row.state is TERMINATED and self.row.ending.removed:
            self.deliver(Cleaned())

    @invariant()
    def forward_only(self):
        assert ORDER.index(self.row.state) >= ORDER.index(self.before.state)
        assert (self.row.ending is None) == (self.row.state is SYNC)
        assert self.row.version >= self.before.version

    @invariant()
    def grace_shrinks(self):
        old, new = self.before.ending, self.row.ending
        if old is not None and new is not None:
            assert new.grace <= old.grace
            assert new.began_ns == old.began_ns
            assert new.removed or not old.removed

    @invariant()
    def survives_a_restart(self):
        assert PodRow.from_wire(_through_msgpack(self.row)) == self.row


def _through_msgpack(row: PodRow) -> object:
    from shm.codec import pack, unpack

    return unpack(pack(row.to_wire()))


WorkerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestWorkerMachine = WorkerMachine.TestCase
