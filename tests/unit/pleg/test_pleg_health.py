"""Health (G-1, N-12): when the runtime is well, and what is said when it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubelet.pods.runtime import Condition
from procs.pleg.health import DOWN_AFTER_NS, RELIST_THRESHOLD_NS, Facts, Waiting, judge

S = 10**9
NOW = 1000 * S
READY = (Condition("RuntimeReady", True), Condition("NetworkReady", True))
WELL = Facts(
    endpoint="unix:///r",
    started_ns=1,
    connected=True,
    full_look_ns=NOW - S,
    status_ns=NOW - S,
    conditions=READY,
)


def reason(**changes):
    verdict = judge(replace(WELL, **changes), NOW)
    assert verdict.healthy == (not verdict.reason)
    return verdict.reason


def test_a_runtime_that_answers_is_healthy():
    """Looked at, asked, both conditions true."""
    assert reason() == ""


def test_before_the_first_answer():
    """The endpoint is named, and why there is none."""
    says = reason(connected=False, error="nobody listens")
    assert says == "no answer yet from unix:///r: nobody listens"


def test_g1_before_the_first_full_look():
    """G-1: unhealthy before the first one."""
    assert reason(full_look_ns=0) == "it was not looked at in full yet"


@pytest.mark.parametrize(("late", "healthy"), [(0, True), (1, False)])
def test_g1_three_minutes(late, healthy):
    """G-1: the last full look that succeeded began more than three minutes ago."""
    says = reason(full_look_ns=NOW - RELIST_THRESHOLD_NS - late, error="stuck")
    assert (says == "") == healthy
    if not healthy:
        assert says == "PLEG is not healthy: no full look succeeded within 3m0s: stuck"


@pytest.mark.parametrize(("late", "healthy"), [(0, True), (1, False)])
def test_n12_thirty_seconds(late, healthy):
    """N-12: down after 30 s without an answer to Status."""
    says = reason(status_ns=NOW - DOWN_AFTER_NS - late)
    assert says == ("" if healthy else "container runtime is down")


def test_n12_a_restarted_pleg_gives_the_runtime_its_30_seconds():
    """What the predecessor knew stays true: no flip because of a restart."""
    assert reason(status_ns=0, started_ns=NOW - S) == ""


def test_n12_both_conditions_are_required():
    """N-12: each one that is false, or missing, is named with what the runtime says."""
    network = Condition("NetworkReady", False, "NetworkPluginNotReady", "no cni")
    says = reason(conditions=(READY[0], network))
    assert says == "NetworkReady is false (NetworkPluginNotReady, no cni)"
    assert reason(conditions=READY[:1]) == "it does not say NetworkReady"
    assert reason(conditions=None) == "its status is not known yet"


def test_a_slow_call_is_named_before_anything_fails():
    """From three seconds on; no text holds an age, so nothing is rewritten each second."""
    calls = Waiting("ListContainers", NOW - 2 * S)
    assert judge(replace(WELL, waiting=calls), NOW).waiting_for == ""
    calls = Waiting("ListContainers", NOW - 3 * S)
    first = judge(replace(WELL, waiting=calls), NOW)
    assert (first.healthy, first.waiting_for) == (True, "ListContainers")
    assert first.waiting_since_ns == NOW - 3 * S
    later = judge(replace(WELL, waiting=calls, full_look_ns=NOW), NOW + 20 * S)
    assert later == first


def test_trouble_is_passed_on():
    """The last failure is shown though it is too early to call the runtime down."""
    verdict = judge(replace(WELL, error="ListContainers: boom"), NOW)
    assert (verdict.healthy, verdict.trouble) == (True, "ListContainers: boom")
