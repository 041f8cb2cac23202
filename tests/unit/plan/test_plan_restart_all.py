"""A rule that restarts all containers of a pod (P-81)."""

from __future__ import annotations

import pytest

from procs.syncloop.runtime.plan import KillReason, plan
from tests.unit.plan.made import (
    box,
    con,
    debug,
    done,
    kills,
    pod,
    rec,
    rule,
    seen,
    side,
    starts,
)

RULES = (rule("Restart", 5), rule("RestartAllContainers", 5, 6))


def with_rules(name, policy="Never"):
    return con(name, restart_policy=policy, restart_policy_rules=RULES)


WANTED = pod(
    con("a"),
    with_rules("b"),
    policy="Never",
    init=[con("i"), side("p")],
    ephemeral=[debug("d")],
)


def test_all_are_killed_without_grace_and_removed():
    """Regular ones, then init ones, and what triggered it last; a debugger stays."""
    containers = [
        done("b", 6, attempt=1),
        done("b", 5, attempt=0),
        rec("a"),
        rec("p"),
        rec("d"),
        done("i"),
    ]
    found = plan(WANTED, seen(*containers))
    assert found.restart_all
    assert found.remove == ("a-0", "i-0", "p-0", "b-1", "b-0")
    assert kills(found) == {"a-0": KillReason.RESTART_ALL, "p-0": KillReason.RESTART_ALL}
    assert {k.grace for k in found.kill} == {0}
    assert (found.start, found.kill_pod, found.sandbox_id) == ((), False, "s")


def test_then_the_pod_begins_with_its_first_init_container():
    """Also one that runs once: that is what the rule is for."""
    found = plan(WANTED, seen(rec("d")))
    assert (starts(found), found.restart_all) == (["i/0"], False)


def test_whoever_comes_after_a_death_goes_on_with_it():
    """What triggered it is still there, as it goes last."""
    found = plan(WANTED, seen(done("b", 6)))
    assert (found.restart_all, found.remove) == (True, ("b-0",))


@pytest.mark.parametrize(
    ("code", "restart_all", "expected"),
    [(5, False, ["b/1"]), (6, True, []), (7, False, [])],
)
def test_the_first_rule_that_matches_decides(code, restart_all, expected):
    """P-80."""
    found = plan(WANTED, seen(done("b", code), rec("a"), rec("p"), rec("d")))
    assert found.restart_all is restart_all
    assert starts(found) == expected


def test_without_a_policy_of_its_own_a_container_has_no_rules():
    """P-80."""
    found = plan(pod(with_rules("b", policy="")), seen(done("b", 6)))
    assert (found.restart_all, starts(found)) == (False, ["b/1"])


def test_an_init_container_may_trigger_it_and_so_may_a_sidecar():
    """It goes last then."""
    for init in (with_rules("i"), with_rules("i", policy="Always")):
        found = plan(pod(init=[side("p"), init]), seen(done("i", 6), rec("p")))
        assert (found.restart_all, found.remove) == (True, ("p-0", "i-0"))


def test_a_dead_sandbox_comes_after_it():
    """The containers go first, then the pod begins anew, though it runs once."""
    dead = [box(ready=False)]
    assert plan(WANTED, seen(done("b", 6), done("a"), boxes=dead)).restart_all
    then = plan(WANTED, seen(done("d"), boxes=dead))
    assert (then.new_sandbox, starts(then)) == (True, ["i/0"])


def test_a_deleted_pod_restarts_nothing():
    """P-83."""
    found = plan(WANTED, seen(done("b", 6), rec("a"), deleted=True))
    assert (found.restart_all, found.nothing) == (False, True)


def test_an_older_end_triggers_nothing():
    """The newest instance counts, and one that runs counts before it."""
    assert not plan(WANTED, seen(rec("b", attempt=1), done("b", 6), rec("a"))).restart_all
    assert not plan(WANTED, seen(done("b", 0, attempt=1), done("b", 6), rec("a"))).restart_all
