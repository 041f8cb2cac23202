"""Regular and ephemeral containers in a sandbox that is as it should be (P-74, P-78..P-83)."""

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
    changed,
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

OTHER = rec("other")


def pair(policy="Always", **more):
    """A pod of two, of which the other one always runs: the pod goes on whatever happens."""
    return pod(con("app", **more), con("other"), policy=policy)


@pytest.mark.parametrize(
    ("policy", "state", "code", "expected"),
    [
        ("Always", EXITED, 0, ["app/1"]),
        ("Always", EXITED, 1, ["app/1"]),
        ("OnFailure", EXITED, 0, []),
        ("OnFailure", EXITED, 1, ["app/1"]),
        ("Never", EXITED, 0, []),
        ("Never", EXITED, 1, []),
        ("Always", UNKNOWN, 0, ["app/1"]),
        ("OnFailure", UNKNOWN, 0, ["app/1"]),
        ("Never", UNKNOWN, 0, []),
        ("Always", RUNNING, 0, []),
        ("Never", CREATED, 0, ["app/0=app-0"]),
    ],
)
def test_the_policy_decides_what_is_started_again(policy, state, code, expected):
    """P-80 for each policy and state; one in an unknown state is killed first (P-83)."""
    found = plan(pair(policy), seen(rec("app", state, code=code), OTHER))
    assert starts(found) == expected
    assert kills(found) == ({"app-0": KillReason.UNKNOWN} if state is UNKNOWN else {})
    assert not found.kill_pod


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_a_container_that_is_not_there_is_started(policy):
    """Whatever the policy: as far as anyone knows it never ran."""
    assert starts(plan(pair(policy), seen(OTHER))) == ["app/0"]


def test_several_are_started_in_the_order_of_the_spec():
    """All in one plan."""
    assert starts(plan(pod(con("z"), con("a"), con("m")), seen())) == ["z/0", "a/0", "m/0"]


def test_the_number_goes_on_over_all_sandboxes():
    """The newest number plus one, wherever it was used (P-82)."""
    containers = [done("app", attempt=2), done("app", attempt=7, sandbox="r")]
    found = plan(pod(), seen(*containers, boxes=[box("s", 1), box("r", ready=False)]))
    assert starts(found) == ["app/8"]


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_a_changed_image_always_replaces_a_container(policy):
    """The hash of name and image differs (P-78)."""
    found = plan(pod(policy=policy), seen(rec("app", image="app:0")))
    (kill,) = found.kill
    assert (kill.reason, kill.grace) == (KillReason.CHANGED, None)
    assert kill.message == "Container app definition changed, will be restarted"
    assert starts(found) == ["app/1"]


def test_a_container_that_says_no_hash_has_not_changed():
    """What nobody can compare is no reason to kill."""
    assert plan(pod(), seen(rec("app", annotations={}))).nothing


@pytest.mark.parametrize(
    ("field", "reason", "what"),
    [
        ("liveness_failed", KillReason.LIVENESS, "liveness"),
        ("startup_failed", KillReason.STARTUP, "startup"),
    ],
)
@pytest.mark.parametrize(
    ("policy", "restarts"), [("Always", True), ("OnFailure", True), ("Never", False)]
)
def test_a_failed_probe_kills_and_the_policy_restarts(field, reason, what, policy, restarts):
    """With the probe's own grace (P-78, P-142)."""
    wanted = pair(policy, liveness_probe=PROBE, startup_probe=PROBE)
    found = plan(wanted, seen(rec("app"), OTHER, **{field: frozenset({"app-0"})}))
    (kill,) = found.kill
    assert (kill.id, kill.reason, kill.grace) == ("app-0", reason, 7)
    end = ", will be restarted" if restarts else ""
    assert kill.message == f"Container app failed {what} probe{end}"
    assert starts(found) == (["app/1"] if restarts else [])


def test_the_grace_of_a_deletion_wins_over_the_probe_s():
    """P-142."""
    wanted = pod(con("app", liveness_probe=PROBE), meta={"deletion_grace_period_seconds": 3})
    found = plan(wanted, seen(rec("app"), liveness_failed=frozenset({"app-0"})))
    assert found.kill[0].grace is None


def test_the_last_container_is_killed_for_its_own_reason_before_the_pod_ends():
    """So its grace and message are those of the probe; then nothing is left (P-79)."""
    wanted = pod(con("app", liveness_probe=PROBE), policy="Never")
    first = plan(wanted, seen(rec("app"), liveness_failed=frozenset({"app-0"})))
    assert kills(first) == {"app-0": KillReason.LIVENESS}
    assert (first.kill_pod, first.finished) == (False, False)
    then = plan(wanted, seen(done("app", 137)))
    assert (then.kill_pod, then.finished) == (True, True)


def test_rules_may_restart_what_was_killed():
    """The pod is not ended before the exit code is known (P-80)."""
    rules = (rule("Restart", 137),)
    wanted = pod(con("app", restart_policy="Never", restart_policy_rules=rules))
    first = plan(wanted, seen(rec("app"), liveness_failed=frozenset({"app-0"})))
    assert (first.kill_pod, kills(first)) == (False, {"app-0": KillReason.LIVENESS})
    assert starts(plan(wanted, seen(done("app", 137)))) == ["app/1"]
    assert plan(wanted, seen(done("app", 1))).kill_pod


@pytest.mark.parametrize(
    ("policy", "codes", "ends"),
    [
        ("Always", (0, 1), False),
        ("OnFailure", (0, 1), False),
        ("OnFailure", (0, 0), True),
        ("Never", (0, 1), True),
    ],
)
def test_a_pod_without_anything_to_run_ends(policy, codes, ends):
    """No container kept and none to start: the sandbox is stopped (P-79)."""
    wanted = pod(con("a"), con("b"), policy=policy, ephemeral=[debug("d")])
    found = plan(wanted, seen(done("a", codes[0]), done("b", codes[1])))
    assert (found.kill_pod, found.finished) == (ends, ends)
    if ends:
        assert (found.start, found.kill) == ((), ())


def test_sidecars_and_debuggers_do_not_hold_a_finished_pod():
    """They are not started again and end with it (P-76)."""
    wanted = pod(policy="Never", init=[side("p"), side("q")], ephemeral=[debug("d")])
    found = plan(wanted, seen(done("app"), rec("p"), done("q", 1), rec("d")))
    assert (found.kill_pod, found.finished, found.start) == (True, True, ())


@pytest.mark.parametrize("alive", [True, False])
def test_a_deleted_pod_starts_nothing(alive):
    """What runs is left to its termination; without it only the sandbox is stopped (P-83)."""
    wanted = pod(con("a"), con("b"), init=[con("i")])
    containers = [rec("a") if alive else done("a", 1), done("b", 1)]
    for observed, which in (
        (seen(*containers, deleted=True), wanted),
        (seen(*containers), pod(con("a"), con("b"), meta={"deletion_timestamp": "x"})),
    ):
        found = plan(which, observed)
        assert (found.start, found.kill, found.new_sandbox) == ((), (), False)
        assert found.kill_pod is not alive
        assert found.finished is not alive


def test_a_deleted_pod_gets_no_sandbox():
    """Nor if it never had one."""
    assert plan(pod(), seen(boxes=[], deleted=True)).nothing


def test_of_two_that_run_the_newest_is_kept():
    """The others are killed, and nothing is started."""
    containers = [rec("app", id_="c"), rec("app", id_="b"), rec("app", UNKNOWN, id_="a")]
    found = plan(pod(), seen(*containers))
    assert kills(found) == {"b": KillReason.DUPLICATE, "a": KillReason.UNKNOWN}
    assert not found.start


def test_what_runs_counts_before_what_is_newer_and_ended():
    """Another start would run it twice."""
    found = plan(pod(), seen(done("app", 1, attempt=1), rec("app", attempt=0)))
    assert found.nothing


def test_a_container_that_the_spec_does_not_know_is_killed():
    """It was taken out of the pod."""
    found = plan(pod(), seen(rec("app"), rec("gone"), done("past")))
    assert kills(found) == {"gone-0": KillReason.NOT_IN_SPEC}


# What a death of ours leaves behind.


def test_a_container_that_was_only_created_is_started():
    """It is not made a second time; even a pod that runs once has not run it."""
    found = plan(pod(policy="Never"), seen(rec("app", CREATED, id_="x", attempt=3)))
    assert starts(found) == ["app/3=x"]
    assert (found.remove, found.kill) == ((), ())


@pytest.mark.parametrize("changes", [{"image": "app:0"}, {"annotations": {}}])
def test_one_that_was_created_of_another_definition_is_replaced(changes):
    """It is removed, and its number is used again."""
    found = plan(pod(), seen(rec("app", CREATED, id_="x", attempt=3, **changes)))
    assert (found.remove, starts(found)) == (("x",), ["app/3"])


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_a_start_that_was_cut_off_is_made_again_under_its_number(policy):
    """It never ran, so it is no restart of any kind."""
    observed = seen(broken("app", id_="x", attempt=2), broken_off=frozenset({"x"}))
    found = plan(pod(policy=policy), observed)
    assert (found.remove, starts(found)) == (("x",), ["app/2"])


@pytest.mark.parametrize(
    "ended",
    [
        broken("app", id_="y"),
        changed(broken("app", id_="x"), exit_code=1),
        changed(broken("app", id_="x"), reason="Error"),
    ],
)
def test_a_start_that_failed_by_itself_is_a_crash(ended):
    """Only what was cut off by us, and what the runtime calls so, never ran."""
    found = plan(pod(), seen(ended, broken_off=frozenset({"x"})))
    assert (found.remove, starts(found)) == ((), ["app/1"])


def test_leftovers_of_a_container_that_runs_are_removed():
    """What was created and will never be started has no other end."""
    found = plan(pod(), seen(rec("app", CREATED, id_="x", attempt=1), rec("app")))
    assert (found.remove, found.start, found.kill) == (("x",), (), ())


def test_the_newest_that_was_created_is_the_one_to_start():
    """Others are removed."""
    containers = [rec("app", CREATED, id_="y", attempt=1), rec("app", CREATED, id_="x")]
    found = plan(pod(), seen(*containers))
    assert (found.remove, starts(found)) == (("x",), ["app/1=y"])


# Ephemeral containers (P-74).


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (None, ["d/0"]),
        (rec("d"), []),
        (done("d"), []),
        (done("d", 1), []),
        (rec("d", UNKNOWN), []),
        (done("d", sandbox="r"), []),
        (rec("d", CREATED), ["d/0=d-0"]),
        (rec("d", image="d:0"), []),
    ],
)
def test_an_ephemeral_container_is_started_once(last, expected):
    """And never again, however it ended."""
    containers = [rec("app"), *([last] if last else [])]
    found = plan(pod(ephemeral=[debug("d")]), seen(*containers))
    assert starts(found) == expected
    assert not found.kill


def test_an_ephemeral_container_does_not_wait_for_init_containers():
    """It may be there to find out why they hang."""
    found = plan(pod(init=[con("i")], ephemeral=[debug("d")]), seen(rec("i")))
    assert starts(found) == ["d/0"]


def test_an_ephemeral_container_whose_start_was_cut_off_has_not_had_its_run():
    """It is removed and started once more."""
    observed = seen(rec("app"), broken("d", id_="x"), broken_off=frozenset({"x"}))
    found = plan(pod(ephemeral=[debug("d")]), observed)
    assert (found.remove, starts(found)) == (("x",), ["d/0"])


def test_an_ephemeral_container_of_an_older_sandbox_is_killed_and_not_repeated():
    """Its run is over with that sandbox."""
    observed = seen(
        rec("app"), rec("d", sandbox="r"), boxes=[box("s", 1), box("r", 0, ready=False)]
    )
    found = plan(pod(ephemeral=[debug("d")]), observed)
    assert (kills(found), found.start) == ({"d-0": KillReason.OLD_SANDBOX}, ())
