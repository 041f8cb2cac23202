"""The conditions of a pod: order, reasons, and since when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubelet.api.status import PodCondition
from kubelet.pods.rows import Ending
from procs.syncloop.status.compute import ProbeView
from tests.unit.podstatus.scenes import (
    NOW,
    NOW_TEXT,
    SECOND,
    THEN_TEXT,
    box,
    conditions,
    held,
    make_pod,
    ran,
    status_of,
)

GATE = {"readinessGates": [{"conditionType": "lb"}]}
SIDECAR = {"name": "s", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": 1}}}
OK = ("True", "", "")


def test_p120_the_order():
    """P-120: foreign ones, resize, DisruptionTarget, and then the kubelet's own."""
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}]
    pod = make_pod(
        {"name": "app", "restartPolicy": "Never", "restartPolicyRules": rules},
        status={
            "conditions": [
                {"type": "Ready", "status": "False"},
                {"type": "lb", "status": "True", "lastTransitionTime": NOW_TEXT},
            ]
        },
    )
    resize = (PodCondition(type="PodResizePending", status="True", reason="Deferred"),)
    before = status_of(pod, held(ran("app")), resize=resize)
    assert [c.type for c in before.conditions] == [
        "lb",
        "PodResizePending",
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
        "AllContainersRestarting",
    ]
    ending = Ending(reason="Evicted", failed=True, disruption="memory")
    after = status_of(pod, held(ran("app")), resize=resize, previous=before, ending=ending)
    assert [c.type for c in after.conditions][:2] == ["lb", "DisruptionTarget"]


@pytest.mark.parametrize(
    ("boxes", "why"),
    [
        ((), "it has no sandbox"),
        ((box("s"), box("t")), "it has 2 ready sandboxes"),
        ((box(ready=False),), "its sandbox is not ready"),
        ((box(host_network=True),), "its sandbox has another network mode than the pod"),
        ((box(ips=()),), "its sandbox has no IP address"),
    ],
)
def test_p121_why_there_is_no_sandbox(boxes, why):
    """P-121: the condition names the cause."""
    found = conditions(status_of(make_pod(), held(boxes=boxes)))
    message = f"Pod needs a new sandbox: {why}"
    assert found["PodReadyToStartContainers"] == ("False", "PodSandboxNotReady", message)


def test_p121_a_sandbox_that_serves():
    """P-121: one that is ready and has an address, or the host's."""
    assert conditions(status_of(make_pod(), held()))["PodReadyToStartContainers"] == OK
    on_host = held(boxes=(box(host_network=True, ips=()),))
    found = conditions(status_of(make_pod(hostNetwork=True), on_host))
    assert found["PodReadyToStartContainers"] == OK


INITIALISED = [
    # init containers, what runs, condition
    ((), [], OK),
    (
        ("i", "j"),
        [ran("i", "exited", 0), ran("j")],
        (
            "False",
            "ContainersNotInitialized",
            "containers with incomplete status: [j]",
        ),
    ),
    (("i",), [ran("i", "exited", 0)], OK),
    (
        ({"name": "s", "restartPolicy": "Always"},),
        [],
        ("False", "ContainersNotInitialized", "containers with incomplete status: [s]"),
    ),
    (({"name": "s", "restartPolicy": "Always"},), [ran("s")], OK),
    (({"name": "s", "restartPolicy": "Always"},), [ran("s", "exited", 1), ran("app")], OK),
]


@pytest.mark.parametrize(("init", "containers", "wanted"), INITIALISED)
def test_p122_initialised(init, containers, wanted):
    """P-122: once a regular container has started, sidecars that restart do not undo it."""
    found = conditions(status_of(make_pod(init=init), held(*containers)))
    assert found["Initialized"] == wanted


def test_p122_completed():
    """P-122: a pod that succeeded was initialised."""
    pod = make_pod(init=("i",), restartPolicy="Never")
    status = status_of(pod, held(ran("i", "exited"), ran("app", "exited")))
    assert conditions(status)["Initialized"] == ("True", "PodCompleted", "")


READY = [
    # pod, containers, condition of both
    ({}, [ran("app")], OK),
    (
        {"names": ("a", "b")},
        [ran("a")],
        ("False", "ContainersNotReady", "containers with unready status: [b]"),
    ),
    (
        {"init": (SIDECAR,)},
        [ran("s"), ran("app")],
        ("False", "ContainersNotReady", "containers with unready status: [s]"),
    ),
    ({"init": ("i",)}, [ran("i", "exited"), ran("app")], OK),
    ({"restartPolicy": "Never"}, [ran("app", "exited", 0)], ("False", "PodCompleted", "")),
    ({"restartPolicy": "Never"}, [ran("app", "exited", 1)], ("False", "PodFailed", "")),
]


@pytest.mark.parametrize(("spec", "containers", "wanted"), READY)
def test_p123_ready(spec, containers, wanted):
    """P-123: all regular containers and sidecars; a terminal phase forces both to False."""
    spec = dict(spec)
    pod = make_pod(*spec.pop("names", ()), **spec)
    found = conditions(status_of(pod, held(*containers)))
    assert found["ContainersReady"] == wanted
    assert found["Ready"] == wanted


@pytest.mark.parametrize(
    ("gate", "wanted"),
    [
        (
            None,
            (
                "False",
                "ReadinessGatesNotReady",
                'corresponding condition of pod readiness gate "lb" does not exist.',
            ),
        ),
        (
            "False",
            (
                "False",
                "ReadinessGatesNotReady",
                'the status of pod readiness gate "lb" is not "True", but False',
            ),
        ),
        ("True", OK),
    ],
)
def test_p124_readiness_gates(gate, wanted):
    """P-124: a gate that is not open keeps the pod unready, not its containers."""
    listed = [{"type": "lb", "status": gate}] if gate else []
    pod = make_pod(status={"conditions": listed}, **GATE)
    found = conditions(status_of(pod, held(ran("app"))))
    assert found["Ready"] == wanted
    assert found["ContainersReady"] == OK


def test_p125_disruption():
    """P-125: set once, with the moment, and kept until the end."""
    pod, record = make_pod(), held(ran("app"))
    ending = Ending(reason="Evicted", failed=True, disruption="The node was low on memory")
    first = status_of(pod, record, ending=ending)
    wanted = ("True", "TerminationByKubelet", "The node was low on memory")
    assert conditions(first)["DisruptionTarget"] == wanted
    later = status_of(
        pod, held(ran("app", "exited")), previous=first, ending=ending, now_ns=NOW + 9 * SECOND
    )
    dated = next(c for c in later.conditions if c.type == "DisruptionTarget")
    assert dated.last_transition_time == NOW_TEXT
    plain = status_of(pod, record, ending=Ending(reason="Evicted", failed=True))
    assert "DisruptionTarget" not in conditions(plain)


def test_p125_a_disruption_by_others_is_kept():
    """It is a foreign condition until the kubelet itself ends the pod."""
    told = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    pod = make_pod(status={"conditions": [told]})
    status = status_of(pod, held(ran("app")))
    assert status.conditions[0].reason == "EvictionByEvictionAPI"
    ours = status_of(pod, held(ran("app")), ending=Ending(failed=True, disruption="memory"))
    found = [c for c in ours.conditions if c.type == "DisruptionTarget"]
    assert [c.reason for c in found] == ["TerminationByKubelet"]


@pytest.mark.parametrize(("generation", "wanted"), [(3, 3), (None, None)])
def test_p127_observed_generation(generation, wanted):
    """P-127: on the status and on each of the kubelet's conditions."""
    pod = make_pod(metadata={"generation": generation} if generation else {})
    status = status_of(pod, held(ran("app")))
    assert status.observed_generation == wanted
    assert {c.observed_generation for c in status.conditions} == {wanted}


def test_p128_foreign_conditions_go_with_their_owner():
    """P-128: what others took away does not come back from memory."""
    told = {"type": "lb", "status": "True", "message": "m", "lastTransitionTime": NOW_TEXT}
    pod = make_pod(status={"conditions": [told]})
    before = status_of(pod, held(ran("app")))
    assert before.conditions[0] == pod.status.conditions[0]
    after = status_of(make_pod(), held(ran("app")), previous=before)
    assert "lb" not in conditions(after)


def test_since_when():
    """A transition time moves with the status of a condition, not with its reason."""
    pod = make_pod({"name": "app", "readinessProbe": {"tcpSocket": {"port": 1}}})
    first = status_of(pod, None)
    second = status_of(pod, held(ran("app")), previous=first, now_ns=NOW + 10 * SECOND)
    third = status_of(
        pod,
        held(ran("app")),
        previous=second,
        now_ns=NOW + 10 * SECOND,
        probes={"app-0": ProbeView(ready=True)},
    )
    times = [
        {c.type: c.last_transition_time for c in status.conditions}
        for status in (first, second, third)
    ]
    assert set(times[0].values()) == {NOW_TEXT}
    assert times[1]["PodReadyToStartContainers"] == THEN_TEXT
    assert times[1]["Ready"] == NOW_TEXT
    assert times[2]["Ready"] == THEN_TEXT
    assert times[2]["PodScheduled"] == NOW_TEXT


@pytest.mark.parametrize(
    ("restarting", "phase", "wanted"),
    [
        (False, "", ("False", "", "")),
        (
            True,
            "",
            ("True", "RestartAllContainersStarted", "container exited with restart policy rule"),
        ),
        (True, "Failed", ("False", "PodFailed", "")),
    ],
)
def test_p81_all_containers_restarting(restarting, phase, wanted):
    """P-81: only pods with such a rule have the condition."""
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}]
    pod = make_pod({"name": "app", "restartPolicy": "Never", "restartPolicyRules": rules})
    previous = replace(pod.status, phase=phase)
    status = status_of(pod, held(ran("app")), restarting_all=restarting, previous=previous)
    assert conditions(status)["AllContainersRestarting"] == wanted
    assert "AllContainersRestarting" not in conditions(status_of(make_pod(), held(ran("app"))))
