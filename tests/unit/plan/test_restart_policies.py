"""Policies, rules and kinds of containers (P-75..P-77, P-80)."""

from __future__ import annotations

import pytest

from procs.syncloop.runtime import kinds, restart
from procs.syncloop.runtime.kinds import StartKind
from procs.syncloop.runtime.restart import Verdict
from tests.unit.plan.made import CREATED, RUNNING, UNKNOWN, con, debug, done, pod, rec, rule, side


@pytest.mark.parametrize(
    ("own", "pods", "expected"),
    [
        ("", "Never", "Never"),
        ("Always", "Never", "Always"),
        ("Never", "Always", "Never"),
        ("OnFailure", "Never", "OnFailure"),
        ("", "", "Always"),
    ],
)
def test_a_container_s_own_policy_comes_first(own, pods, expected):
    """P-80; a pod that says nothing means Always."""
    assert restart.policy(pod(policy=pods), con("app", restart_policy=own)) == expected


def test_an_ephemeral_container_has_no_policy():
    """P-74."""
    assert restart.policy(pod(policy="Always"), debug("d")) == "Never"


@pytest.mark.parametrize(
    ("rules", "code", "expected"),
    [
        ((), 1, Verdict.STAY),
        ((rule("Restart", 1, 2),), 2, Verdict.RESTART),
        ((rule("Restart", 1, 2),), 3, Verdict.STAY),
        ((rule("Restart", 1, 2, operator="NotIn"),), 3, Verdict.RESTART),
        ((rule("Restart", 1, 2, operator="NotIn"),), 1, Verdict.STAY),
        ((rule("RestartAllContainers", 1), rule("Restart", 1)), 1, Verdict.RESTART_ALL),
        ((rule("Restart", 1), rule("RestartAllContainers", 1)), 1, Verdict.RESTART),
        ((rule("Dance", 1), rule("Restart", 1)), 1, Verdict.RESTART),
        ((rule("Restart", 1, operator="Near"),), 1, Verdict.STAY),
        ((rule("Restart"),), 0, Verdict.STAY),
    ],
)
def test_the_first_rule_that_matches_decides_before_the_policy(rules, code, expected):
    """P-80, for a container that says Never."""
    made = con("app", restart_policy="Never", restart_policy_rules=rules)
    assert restart.verdict(pod(), made, code) is expected


@pytest.mark.parametrize(
    ("policy", "state", "expected"),
    [
        ("Never", CREATED, True),
        ("Always", RUNNING, False),
        ("Never", UNKNOWN, False),
        ("OnFailure", UNKNOWN, True),
    ],
)
def test_what_has_not_ended_is_judged_by_its_state(policy, state, expected):
    """One that was only created never ran; one that runs needs no start."""
    assert restart.should_restart(pod(policy=policy), con("app"), rec("app", state)) is expected


def test_a_deleted_pod_restarts_nothing_whatever_the_policy():
    """P-83."""
    wanted = pod(meta={"deletion_timestamp": "2026-01-02T03:04:05Z"})
    assert not restart.should_restart(wanted, con("app"), done("app", 1))


@pytest.mark.parametrize(
    ("last", "failed"),
    [
        (done("i"), False),
        (done("i", 1), True),
        (done("i", 0, reason="OOMKilled"), True),
        (done("i", 0, reason="Completed"), False),
    ],
)
def test_an_init_container_has_failed_by_code_or_for_lack_of_memory(last, failed):
    """P-77."""
    assert restart.init_failed(last) is failed


def test_every_container_is_found_by_name_with_its_kind():
    """And what is not there is said so."""
    wanted = pod(con("a"), init=[side("p")], ephemeral=[debug("d")])
    assert [(k, c.name) for k, c in kinds.all_containers(wanted)] == [
        (StartKind.EPHEMERAL, "d"),
        (StartKind.INIT, "p"),
        (StartKind.REGULAR, "a"),
    ]
    assert [kinds.kind_of(wanted, n) for n in ("p", "x")] == [StartKind.INIT, None]
    assert kinds.find(wanted, "a").name == "a"
    assert kinds.find_or_none(wanted, "x") is None
    with pytest.raises(KeyError, match="pod default/web has no container 'x'"):
        kinds.find(wanted, "x")
