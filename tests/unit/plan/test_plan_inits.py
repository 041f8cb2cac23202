"""Init containers and sidecars (P-73, P-75..P-77)."""

from __future__ import annotations

import pytest

from procs.syncloop.runtime.plan import KillReason, plan
from tests.unit.plan.made import (
    CREATED,
    EXITED,
    PROBE,
    RUNNING,
    UNKNOWN,
    box,
    broken,
    con,
    done,
    kills,
    pod,
    rec,
    rule,
    seen,
    side,
    starts,
)

THREE = pod(con("app"), con("app2"), init=[con("i"), con("j"), con("k")])


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([], ["i/0"]),
        ([rec("i")], []),
        ([done("i")], ["j/0"]),
        ([rec("j"), done("i")], []),
        ([done("j"), done("i")], ["k/0"]),
        ([done("j")], ["k/0"]),
        ([rec("k"), done("j"), done("i")], []),
        ([done("k"), done("j"), done("i")], ["app/0", "app2/0"]),
        ([done("k")], ["app/0", "app2/0"]),
        ([rec("app"), done("k")], ["app2/0"]),
        ([rec("app"), rec("app2")], []),
        ([done("app", 1), rec("app2")], ["app/1"]),
        ([done("i", 1)], ["i/1"]),
        ([done("j", 1), done("i")], ["j/1"]),
        ([rec("i", CREATED)], ["i/0=i-0"]),
        ([rec("i", UNKNOWN)], ["i/1"]),
    ],
)
def test_init_containers_run_one_after_the_other(containers, expected):
    """In the order of the spec; those that were removed since are not missed (P-75)."""
    found = plan(THREE, seen(*containers))
    assert starts(found) == expected
    assert not found.kill_pod


@pytest.mark.parametrize(
    ("policy", "last", "fails"),
    [
        ("Always", done("i", 1), False),
        ("OnFailure", done("i", 1), False),
        ("Never", done("i", 1), True),
        ("Never", done("i", 0), False),
        ("Never", done("i", 0, reason="OOMKilled"), True),
        ("Always", done("i", 0, reason="OOMKilled"), False),
    ],
)
def test_a_failed_init_container_that_is_not_restarted_ends_the_pod(policy, last, fails):
    """Killed for lack of memory is failed, with any exit code (P-77)."""
    found = plan(pod(policy=policy, init=[con("i")]), seen(last))
    assert (found.kill_pod, found.finished) == (fails, fails)
    restarts = policy != "Never"
    assert starts(found) == ([] if fails else ["i/1"] if restarts else ["app/0"])


@pytest.mark.parametrize(
    ("own", "rules", "code", "expected"),
    [
        ("Never", (), 1, None),
        ("OnFailure", (), 1, ["i/1"]),
        ("Never", (rule("Restart", 3),), 3, ["i/1"]),
        ("Never", (rule("Restart", 3),), 4, None),
        ("Never", (rule("Restart", 0),), 0, ["app/0"]),
        ("", (rule("Restart", 3),), 3, ["i/1"]),
    ],
)
def test_an_init_container_s_own_policy_and_rules_count(own, rules, code, expected):
    """They override the pod's, here Always; one that did its work is done (P-80)."""
    init = con("i", restart_policy=own, restart_policy_rules=rules)
    found = plan(pod(init=[init]), seen(done("i", code)))
    assert found.kill_pod is (expected is None)
    assert starts(found) == (expected or [])


def test_an_unknown_init_container_of_a_pod_that_runs_once_is_killed_and_then_judged():
    """How it ended decides (P-83)."""
    wanted = pod(policy="Never", init=[con("i")])
    found = plan(wanted, seen(rec("i", UNKNOWN)))
    assert (kills(found), found.start) == ({"i-0": KillReason.UNKNOWN}, ())
    assert not found.kill_pod
    assert plan(wanted, seen(done("i", 255))).finished


def test_old_instances_of_init_containers_are_removed():
    """The newest is kept; what is not ended is not removed (P-73)."""
    containers = [
        done("i", 1, attempt=3),
        done("i", 1, attempt=2),
        done("i", 1, attempt=1, sandbox="r"),
        rec("i", attempt=0, sandbox="r"),
    ]
    boxes = [box("s", 1), box("r", 0, ready=False)]
    found = plan(pod(init=[con("i")]), seen(*containers, boxes=boxes))
    assert found.remove == ("i-2", "i-1")
    assert kills(found) == {"i-0": KillReason.OLD_SANDBOX}
    assert starts(found) == ["i/4"]


def test_init_containers_of_an_older_sandbox_do_not_count():
    """They run again in this one, under their next number (P-72)."""
    containers = [done("app", sandbox="r"), done("j", sandbox="r"), done("i", sandbox="r")]
    boxes = [box("s", 1), box("r", 0, ready=False)]
    found = plan(pod(init=[con("i"), con("j")]), seen(*containers, boxes=boxes))
    assert starts(found) == ["i/1"]
    assert not found.kill_pod


def test_a_running_init_container_of_another_image_is_replaced():
    """P-78 holds for it, too."""
    found = plan(pod(init=[con("i")]), seen(rec("i", image="i:0")))
    assert (kills(found), starts(found)) == ({"i-0": KillReason.CHANGED}, ["i/1"])


def test_an_init_container_whose_start_was_cut_off_has_not_failed():
    """It is made again under its number, even if the pod runs once."""
    wanted = pod(policy="Never", init=[con("i")])
    found = plan(wanted, seen(broken("i", id_="x"), broken_off=frozenset({"x"})))
    assert (found.remove, starts(found), found.kill_pod) == (("x",), ["i/0"], False)


# Sidecars.


@pytest.mark.parametrize(
    ("probe", "started", "expected"),
    [
        (None, {}, ["j/0"]),
        (None, {"p-0": False}, []),
        (PROBE, {}, []),
        (PROBE, {"p-0": False}, []),
        (PROBE, {"p-0": True}, ["j/0"]),
    ],
)
def test_a_sidecar_lets_the_next_begin_once_it_has_started(probe, started, expected):
    """Its startup probe has passed, or it has none and nothing says otherwise (P-75)."""
    wanted = pod(init=[side("p", startup_probe=probe), con("j")])
    assert starts(plan(wanted, seen(rec("p"), started=started))) == expected


@pytest.mark.parametrize(("started", "expected"), [(True, ["app/0"]), (False, [])])
def test_regular_containers_wait_for_the_last_sidecar(started, expected):
    """As an init container would."""
    wanted = pod(init=[side("p", startup_probe=PROBE)])
    assert starts(plan(wanted, seen(rec("p"), started={"p-0": started}))) == expected


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize(
    ("last", "killed"),
    [
        (done("p"), {}),
        (done("p", 1), {}),
        (rec("p", UNKNOWN), {"p-0": KillReason.UNKNOWN}),
        (rec("p", image="p:0"), {"p-0": KillReason.CHANGED}),
    ],
)
@pytest.mark.parametrize("others", [[rec("app")], [rec("j")], []])
def test_a_sidecar_is_restarted_at_any_time_in_any_pod(policy, last, killed, others):
    """While containers run, while later init containers run, and before them (P-76)."""
    wanted = pod(policy=policy, init=[side("p"), con("j")])
    found = plan(wanted, seen(*others, last))
    assert starts(found) == ["p/1"]
    assert kills(found) == killed


def test_a_sidecar_that_was_removed_comes_back_beside_running_containers():
    """Missing is not passed, for one that is to run (P-76)."""
    wanted = pod(init=[side("p"), con("j")])
    assert starts(plan(wanted, seen(rec("app")))) == ["p/0"]


def test_sidecars_are_restarted_before_the_next_init_container_and_in_order():
    """In the order of the spec."""
    wanted = pod(init=[side("p"), side("q"), con("j"), con("k")])
    found = plan(wanted, seen(done("j"), done("q"), done("p")))
    assert starts(found) == ["p/1", "q/1", "k/0"]


@pytest.mark.parametrize(
    ("field", "reason"),
    [("liveness_failed", KillReason.LIVENESS), ("startup_failed", KillReason.STARTUP)],
)
def test_a_failed_probe_restarts_a_sidecar(field, reason):
    """Even in a pod that runs once; the next init container waits for it."""
    wanted = pod(
        policy="Never", init=[side("p", startup_probe=PROBE, liveness_probe=PROBE), con("j")]
    )
    more = {field: frozenset({"p-0"}), "started": {"p-0": True}}
    found = plan(wanted, seen(rec("p"), **more))
    assert (kills(found), starts(found)) == ({"p-0": reason}, ["p/1"])


@pytest.mark.parametrize("state", [RUNNING, EXITED])
def test_after_initialisation_other_init_containers_are_left_alone(state):
    """Nor is one that is missing run again (P-76)."""
    wanted = pod(init=[con("i"), con("j")])
    assert plan(wanted, seen(rec("app"), rec("j", state, code=1))).nothing


@pytest.mark.parametrize(("rules", "expected"), [((rule("Restart", 137),), ["p/1"]), ((), [])])
def test_a_sidecar_is_restarted_while_its_pod_may_go_on(rules, expected):
    """The last container is killed: only with rules may it run again, and need the sidecar."""
    app = con("app", restart_policy="Never", restart_policy_rules=rules)
    observed = seen(rec("app"), done("p", 1), liveness_failed=frozenset({"app-0"}))
    found = plan(pod(app, init=[side("p")]), observed)
    assert (kills(found), starts(found)) == ({"app-0": KillReason.LIVENESS}, expected)
