"""The order in which containers end, and their graces (P-35, P-37, P-140..P-142, T-19)."""

from __future__ import annotations

import pytest

from kubelet.api.handlers import Lifecycle, LifecycleHandler
from procs.syncloop.runtime import killing
from tests.unit.plan.made import CREATED, PROBE, UNKNOWN, con, debug, done, pod, rec, record, side


def ids(stages):
    return [[c.id for c in stage] for stage in stages]


def test_sidecars_end_last_and_in_reverse_order():
    """Everything else ends at once (P-140)."""
    wanted = pod(con("a"), con("b"), init=[side("p"), con("i"), side("q")], ephemeral=[debug("d")])
    found = record(rec("a"), rec("b"), rec("d"), rec("q"), rec("i"), rec("p"), rec("odd"))
    assert ids(killing.stages(wanted, found)) == [
        ["a-0", "b-0", "d-0", "i-0", "odd-0"],
        ["q-0"],
        ["p-0"],
    ]


def test_only_what_may_run_is_in_a_stage():
    """An unknown state may be; there are no empty stages."""
    wanted = pod(con("a"), init=[side("p"), side("q")])
    found = record(done("a"), rec("q", CREATED), rec("p", UNKNOWN))
    assert ids(killing.stages(wanted, found)) == [["p-0"]]
    assert killing.stages(wanted, record(done("a"))) == ()


def test_two_instances_of_a_sidecar_end_together():
    """It is the name that has a turn."""
    found = record(rec("p", attempt=1), rec("p"))
    assert ids(killing.stages(pod(init=[side("p")]), found)) == [["p-1", "p-0"]]


def test_without_a_pod_everything_ends_at_once():
    """Nobody knows which were sidecars (P-35)."""
    assert ids(killing.stages(None, record(rec("a"), rec("p")))) == [["a-0", "p-0"]]


@pytest.mark.parametrize(
    ("spec", "deletion", "override", "before", "expected"),
    [
        (30, None, None, None, 30),
        (None, None, None, None, 30),
        (30, 10, None, None, 10),
        (30, 60, None, None, 60),
        (30, 10, 5, None, 5),
        (30, 10, 15, None, 10),
        (30, None, 5, None, 5),
        (30, 0, None, None, 1),
        (0, None, None, None, 1),
        (30, None, 0, None, 1),
        (30, 20, None, 5, 5),
        (30, 20, None, 25, 20),
    ],
)
def test_the_grace_of_a_pod_is_the_least_that_was_said(spec, deletion, override, before, expected):
    """Else what its spec says; at least a second, and it only shrinks (P-37)."""
    wanted = pod(grace=spec, meta={"deletion_grace_period_seconds": deletion})
    assert killing.effective_grace(wanted, override, before) == expected


@pytest.mark.parametrize(
    ("probe", "deletion", "override", "expected"),
    [
        (None, None, None, 30),
        (PROBE, None, None, 7),
        (PROBE, 3, None, 3),
        (None, 3, None, 3),
        (PROBE, 3, 1, 1),
        (PROBE, None, 0, 0),
    ],
)
def test_the_grace_of_a_container_is_the_probe_s_unless_the_pod_is_deleted(
    probe, deletion, override, expected
):
    """P-142."""
    wanted = pod(meta={"deletion_grace_period_seconds": deletion})
    assert killing.container_grace(wanted, probe, override) == expected


@pytest.mark.parametrize(
    ("grace", "elapsed", "left", "at_runtime"),
    [
        (30, 0.0, 30, 30),
        (30, 9.9, 21, 21),
        (30, 29.0, 1, 2),
        (30, 45.0, 0, 2),
        (1, 0.0, 1, 2),
        (0, 0.0, 0, 2),
        (30, -5.0, 30, 30),
    ],
)
def test_hook_and_turn_are_taken_from_the_grace(grace, elapsed, left, at_runtime):
    """The runtime is given two seconds at least, by force too (P-141, T-19)."""
    assert killing.remaining(grace, elapsed) == left
    assert killing.runtime_grace(grace, elapsed) == at_runtime


def test_without_grace_there_is_no_hook():
    """P-141."""
    hooked = con("app", lifecycle=Lifecycle(pre_stop=LifecycleHandler()))
    assert killing.runs_pre_stop(hooked, 1)
    assert not killing.runs_pre_stop(hooked, 0)
    assert not killing.runs_pre_stop(con("app", lifecycle=Lifecycle()), 1)
    assert not killing.runs_pre_stop(con("app"), 1)
