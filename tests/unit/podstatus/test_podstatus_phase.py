"""The phase of a pod, rule by rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubelet import times
from kubelet.pods.rows import Ending
from procs.syncloop.status.phase import deadline_exceeded, deadline_remaining, phase
from tests.unit.podstatus.scenes import NOW, NOW_TEXT, SECOND, held, make_pod, ran, status_of

SIDECAR = {"name": "s", "restartPolicy": "Always"}
SLOW_SIDECAR = {**SIDECAR, "startupProbe": {"tcpSocket": {"port": 1}}}
RULES = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]

CASES = [
    # fact, pod, containers, phase
    ("P-110", {"init": ("i",), "restartPolicy": "Never"}, [ran("i", "exited", 1)], "Failed"),
    ("P-111", {"init": ("i",), "restartPolicy": "OnFailure"}, [ran("i", "exited", 1)], "Pending"),
    ("P-110", {"init": ("i",), "restartPolicy": "Never"}, [ran("i", "exited", 0)], "Pending"),
    (
        "P-77",
        {"init": ("i",), "restartPolicy": "Never"},
        [ran("i", "exited", 0, reason="OOMKilled")],
        "Failed",
    ),
    (
        "P-80",
        {
            "init": ({"name": "i", "restartPolicy": "Never", "restartPolicyRules": RULES},),
            "restartPolicy": "Always",
        },
        [ran("i", "exited", 42)],
        "Pending",
    ),
    (
        "P-80",
        {
            "init": ({"name": "i", "restartPolicy": "Never", "restartPolicyRules": RULES},),
            "restartPolicy": "Always",
        },
        [ran("i", "exited", 41)],
        "Failed",
    ),
    ("P-111", {"init": ("i",)}, [ran("i")], "Pending"),
    ("P-111", {"init": ("i",)}, [], "Pending"),
    ("P-111", {"names": ("a", "b")}, [ran("a")], "Pending"),
    ("P-111", {"init": (SLOW_SIDECAR,)}, [ran("s")], "Pending"),
    ("P-111", {"init": (SIDECAR,)}, [ran("s")], "Pending"),  # the regular one has not begun
    ("P-112", {"init": (SIDECAR,)}, [ran("s"), ran("app")], "Running"),
    ("P-112", {"init": (SLOW_SIDECAR,)}, [ran("s"), ran("app")], "Running"),  # it restarts
    ("P-112", {"names": ("a", "b")}, [ran("a"), ran("b", "exited", 1)], "Running"),
    (
        "P-112",
        {"names": ("a", "b"), "restartPolicy": "Never"},
        [ran("a"), ran("b", "exited", 1)],
        "Running",
    ),
    ("P-113", {}, [ran("app", "exited", 0)], "Running"),
    ("P-113", {"restartPolicy": "OnFailure"}, [ran("app", "exited", 1)], "Running"),
    ("P-113", {"restartPolicy": "OnFailure"}, [ran("app", "exited", 0)], "Succeeded"),
    ("P-113", {"restartPolicy": "Never"}, [ran("app", "exited", 0)], "Succeeded"),
    ("P-113", {"restartPolicy": "Never"}, [ran("app", "exited", 1)], "Failed"),
    (
        "P-113",
        {"names": ("a", "b"), "restartPolicy": "Never"},
        [ran("a", "exited", 0), ran("b", "exited", 1)],
        "Failed",
    ),
    (
        "P-113",
        {"names": ("a", {"name": "b", "restartPolicy": "Always"}), "restartPolicy": "Never"},
        [ran("a", "exited", 0), ran("b", "exited", 1)],
        "Running",
    ),
    (
        "P-76",
        {"init": (SIDECAR,), "restartPolicy": "Never"},
        [ran("s", "exited", 1), ran("app", "exited", 0)],
        "Succeeded",
    ),
    (
        "P-112",
        {"init": (SIDECAR,), "restartPolicy": "Never"},
        [ran("s"), ran("app", "exited", 0)],
        "Running",
    ),
    ("P-114", {}, [ran("app", "unknown")], "Pending"),
]


@pytest.mark.parametrize(("fact", "spec", "containers", "wanted"), CASES)
def test_phases(fact, spec, containers, wanted):
    """Each rule of the phase, on what makes it apply."""
    spec = dict(spec)
    pod = make_pod(*spec.pop("names", ()), **spec)
    assert status_of(pod, held(*containers)).phase == wanted, fact


STOPPED = [
    # restart policy, exit code, static, phase
    ("Always", 0, False, "Succeeded"),
    ("Always", 143, False, "Failed"),
    ("OnFailure", 143, False, "Failed"),
    ("Always", 0, True, "Running"),
    ("Never", 0, True, "Succeeded"),
]


@pytest.mark.parametrize(("policy", "code", "static", "wanted"), STOPPED)
def test_p113_a_pod_that_was_stopped(policy, code, static, wanted):
    """P-113: nothing of it is restarted, whatever its policy; static pods are left as they are."""
    pod = make_pod(restartPolicy=policy)
    record = held(ran("app", "exited", code))
    assert status_of(pod, record, stopped=True, static=static).phase == wanted


def test_p114_without_any_status_a_pod_is_pending():
    """P-114: nothing known is nothing begun."""
    for static in (False, True):
        flags = {"initialised": True, "terminal": True, "static": static}
        assert phase(make_pod(), {}, **flags) == "Pending"


@pytest.mark.parametrize("terminal", ["Succeeded", "Failed"])
@pytest.mark.parametrize("known", ["ours", "api"])
def test_p115_a_terminal_phase_stays(terminal, known):
    """P-115: neither against what was computed nor against what the API server has."""
    told = {"phase": terminal, "reason": "Because", "message": "of that"}
    pod = make_pod(status=told)
    previous = pod.status if known == "ours" else None
    if known == "ours":
        pod = make_pod()
    status = status_of(pod, held(ran("app")), previous=previous)
    assert (status.phase, status.reason, status.message) == (terminal, "Because", "of that")
    assert not any(c.status == "True" for c in status.conditions if c.type == "Ready")


def test_p115_the_api_has_the_first_word():
    """P-115: what everybody has read already is not changed."""
    pod = make_pod(status={"phase": "Succeeded"})
    previous = replace(make_pod().status, phase="Failed", reason="Evicted")
    status = status_of(pod, None, previous=previous)
    assert (status.phase, status.reason) == ("Succeeded", "")


def test_an_ending_has_its_reason():
    """E-12, A-5, P-117: a pod that is ended is Failed from the moment on, and stays that."""
    pod, record = make_pod(), held(ran("app"))
    ending = Ending(reason="Evicted", message="low on memory", failed=True)
    status = status_of(pod, record, ending=ending)
    assert (status.phase, status.reason, status.message) == ("Failed", "Evicted", "low on memory")
    ended = held(ran("app", "exited", 0))
    after = status_of(pod, ended, previous=status, ending=ending, stopped=True)
    assert (after.phase, after.reason, after.message) == ("Failed", "Evicted", "low on memory")


def test_a_deleted_pod_is_not_failed_before_it_has_ended():
    """While it is stopped gracefully it still runs."""
    pod = make_pod(metadata={"deletionTimestamp": NOW_TEXT})
    assert status_of(pod, held(ran("app")), ending=Ending(grace=30)).phase == "Running"


@pytest.mark.parametrize(
    ("seconds", "age", "left"),
    [(None, 100, None), (60, 59, 1), (60, 60, 0), (60, 600, 0), (60, None, None)],
)
def test_p117_the_deadline(seconds, age, left):
    """P-117: measured from startTime, which a pod has when it was let in."""
    pod = make_pod(activeDeadlineSeconds=seconds)
    start_ns = 0 if age is None else NOW - age * SECOND
    remaining = deadline_remaining(pod, start_ns, NOW)
    assert remaining == (None if left is None else left * SECOND)
    assert deadline_exceeded(pod, start_ns, NOW) is (left == 0)


def test_the_start_time_is_set_once():
    """It is the moment of the first status, or what was known before."""
    pod = make_pod()
    first = status_of(pod, None)
    assert first.start_time == NOW_TEXT
    later = status_of(pod, None, previous=first, now_ns=NOW + SECOND)
    assert later.start_time == NOW_TEXT
    known = times.to_text(NOW - 5 * SECOND)
    assert status_of(pod, None, start_time=known).start_time == known
    assert status_of(make_pod(status={"startTime": known}), None).start_time == known
