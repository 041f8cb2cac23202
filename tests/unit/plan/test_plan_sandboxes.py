"""When a pod gets a new sandbox, and when it is not worth one (P-70..P-72)."""

from __future__ import annotations

import pytest

from procs.syncloop.runtime.plan import Observed, StartKind, plan
from tests.unit.plan.made import (
    CREATED,
    RUNNING,
    UNKNOWN,
    box,
    broken,
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


def test_a_new_pod_gets_a_sandbox_and_its_containers():
    """Nothing is there: nothing is killed, everything is started (P-70)."""
    found = plan(pod(con("a"), con("b")), Observed(None))
    assert (found.new_sandbox, found.sandbox_attempt, found.kill_pod) == (True, 0, False)
    assert starts(found) == ["a/0", "b/0"]
    assert {s.kind for s in found.start} == {StartKind.REGULAR}


def test_a_new_pod_begins_with_its_first_init_container():
    """The others wait for it (P-75); what debugs it does not wait (P-74)."""
    wanted = pod(init=[con("i"), con("j")], ephemeral=[debug("d")])
    found = plan(wanted, Observed(None))
    assert [(s.kind, s.name) for s in found.start] == [
        (StartKind.EPHEMERAL, "d"),
        (StartKind.INIT, "i"),
    ]


@pytest.mark.parametrize(
    ("boxes", "wanted", "why"),
    [
        ((), pod(), "no sandbox"),
        ((box("t", 1), box("s", 0)), pod(), "2 ready sandboxes"),
        ((box(ready=False),), pod(), "not ready"),
        ((box("t", 1, ready=False), box("s")), pod(), "not ready"),
        ((box(),), pod(host_network=True), "network mode"),
        ((box(host_network=True, ips=()),), pod(), "network mode"),
        ((box(ips=()),), pod(), "no IP"),
    ],
)
def test_a_sandbox_that_cannot_be_used_is_replaced(boxes, wanted, why):
    """Each cause of P-70, with the next attempt and everything killed."""
    found = plan(wanted, seen(rec("app"), boxes=boxes))
    assert found.new_sandbox
    assert found.kill_pod
    assert why in found.cause
    assert found.sandbox_attempt == max((b.attempt + 1 for b in boxes), default=0)
    assert (found.sandbox_id, found.kill) == ("", ())
    assert starts(found) == ["app/1"]


@pytest.mark.parametrize(
    ("boxes", "wanted"),
    [
        ((box(),), pod()),
        ((box(host_network=True, ips=()),), pod(host_network=True)),
        ((box("s", 3), box("r", 2, ready=False)), pod()),
    ],
)
def test_a_sandbox_that_is_as_it_should_be_stays(boxes, wanted):
    """One is ready and is the newest; nothing is done at all (P-70)."""
    found = plan(wanted, seen(rec("app"), boxes=boxes))
    assert found.nothing
    assert (found.sandbox_id, found.sandbox_attempt) == ("s", boxes[0].attempt)


@pytest.mark.parametrize(
    ("policy", "containers", "expected"),
    [
        ("Always", [done("a"), done("b")], ["a/1", "b/1"]),
        ("OnFailure", [done("a"), done("b", 1)], ["b/1"]),
        ("OnFailure", [done("a"), rec("b")], ["b/1"]),
        ("OnFailure", [done("a"), rec("b", UNKNOWN)], ["b/1"]),
        ("OnFailure", [done("a")], ["b/0"]),
        ("OnFailure", [done("a"), done("b")], None),
        ("Never", [done("a"), done("b")], None),
        ("Never", [done("a"), done("b", 1)], None),
        ("Never", [rec("a"), rec("b")], None),
        ("Never", [done("a")], None),
        ("Never", [], ["a/0", "b/0"]),
        ("Never", [rec("a", CREATED)], ["a/0", "b/0"]),
        ("Never", [done("d")], ["a/0", "b/0"]),
    ],
)
def test_a_dead_sandbox_is_replaced_only_for_what_is_left_to_run(policy, containers, expected):
    """A pod that ran to its end, or that runs once, gets none (P-71)."""
    wanted = pod(con("a"), con("b"), policy=policy, ephemeral=[debug("d")])
    found = plan(wanted, seen(done("d"), *containers, boxes=[box(ready=False)]))
    assert found.new_sandbox is (expected is not None)
    assert found.finished is (expected is None)
    assert starts(found) == (expected or [])
    assert found.kill_pod is (expected is not None or any(c.state == RUNNING for c in containers))


def test_a_finished_pod_without_anything_alive_is_left_alone():
    """There is nothing to kill twice."""
    found = plan(pod(policy="Never"), seen(done("app"), boxes=[box(ready=False)]))
    assert found.nothing
    assert found.finished


def test_a_new_sandbox_runs_all_init_containers_again():
    """They are removed, whatever they came to, and the first is started with its next number."""
    wanted = pod(init=[con("i"), side("p"), con("j")])
    containers = [rec("app"), done("j"), rec("p"), done("i", attempt=4), done("i", attempt=3)]
    found = plan(wanted, seen(*containers, boxes=[box(ready=False)]))
    assert sorted(found.remove) == ["i-3", "i-4", "j-0", "p-0"]
    assert starts(found) == ["i/5"]


def test_what_was_created_in_a_dead_sandbox_is_made_anew_under_its_number():
    """It never ran: it is no restart, and its name must be free again (P-82)."""
    left = [rec("app", CREATED, attempt=2), done("app", attempt=1)]
    found = plan(pod(), seen(*left, boxes=[box(ready=False)]))
    assert found.remove == ("app-2",)
    assert starts(found) == ["app/2"]


def test_a_container_with_its_own_policy_outlives_a_pod_that_runs_once():
    """Its own policy counts, not the pod's (P-80)."""
    wanted = pod(con("a"), con("b", restart_policy="Always"), policy="Never")
    found = plan(wanted, seen(done("a"), done("b"), boxes=[box(ready=False)]))
    assert found.new_sandbox
    assert starts(found) == ["b/1"]


def test_an_init_container_that_failed_for_good_is_worth_no_sandbox():
    """The pod has failed (P-77)."""
    wanted = pod(init=[con("i", restart_policy="Never")])
    found = plan(wanted, seen(done("i", 1), boxes=[box(ready=False)]))
    assert (found.new_sandbox, found.finished) == (False, True)
    assert "init container i has failed" in found.cause


@pytest.mark.parametrize(
    ("wanted", "running"),
    [
        (pod(policy="Never", init=[con("i")]), "i"),
        (
            pod(con("app", restart_policy="Never", restart_policy_rules=(rule("Restart", 137),))),
            "app",
        ),
    ],
)
def test_what_depends_on_an_exit_code_waits_for_it(wanted, running):
    """It is killed first; how it ended decides whether there is a new sandbox."""
    first = plan(wanted, seen(rec(running), boxes=[box(ready=False)]))
    assert (first.kill_pod, first.new_sandbox, first.finished) == (True, False, False)
    then = plan(wanted, seen(done(running, 137), boxes=[box(ready=False)]))
    assert then.new_sandbox is (running == "app")


def test_what_still_runs_in_an_older_sandbox_is_killed():
    """Only what is in the sandbox that counts is the pod's (P-70)."""
    containers = [rec("app", id_="new", attempt=1), rec("app", id_="old", sandbox="r")]
    found = plan(pod(), seen(*containers, boxes=[box("s", 1), box("r", 0, ready=False)]))
    assert kills(found) == {"old": "old-sandbox"}
    assert not found.start


@pytest.mark.parametrize(("policy", "expected"), [("Always", ["app/1"]), ("Never", [])])
def test_what_runs_only_in_an_older_sandbox_is_replaced_by_policy(policy, expected):
    """Killed, and started in the new one if the policy has it."""
    boxes = [box("s", 1), box("r", 0, ready=False)]
    found = plan(pod(policy=policy), seen(rec("app", id_="old", sandbox="r"), boxes=boxes))
    assert kills(found) == {"old": "old-sandbox"}
    assert starts(found) == expected


def test_a_start_that_was_cut_off_in_a_dead_sandbox_does_not_count():
    """A pod that runs once has not run yet."""
    boxes = [box(ready=False)]
    observed = seen(broken("app", id_="x"), boxes=boxes, broken_off=frozenset({"x"}))
    found = plan(pod(policy="Never"), observed)
    assert (found.new_sandbox, found.remove, starts(found)) == (True, ("x",), ["app/0"])
