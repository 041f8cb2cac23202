"""The status as a whole: addresses, refused pods, the last status, what may be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubelet.api import codec
from kubelet.api.status import PodStatus
from kubelet.pods.rows import Ending
from procs.syncloop.status.closing import publishable
from procs.syncloop.status.ips import mismatch
from procs.syncloop.status.normal import normalised
from tests.unit.podstatus.scenes import (
    NOW_TEXT,
    box,
    conditions,
    held,
    make_pod,
    ran,
    shown,
    status_of,
)

V4, V6 = "192.0.2.1", "2001:db8::1"

ADDRESSES = [
    # node, sandbox, pod
    ((V4,), ("10.0.0.2",), ["10.0.0.2"]),
    ((V4, V6), ("10.0.0.2", "fd00::2"), ["10.0.0.2", "fd00::2"]),
    ((V4,), ("fd00::2", "10.0.0.2"), ["10.0.0.2", "fd00::2"]),
    ((V6,), ("10.0.0.2", "fd00::2"), ["fd00::2", "10.0.0.2"]),
    ((), ("10.0.0.2", "10.0.0.3", "fd00:0::2"), ["10.0.0.2", "fd00::2"]),
    ((V4,), ("not one",), []),
]


@pytest.mark.parametrize(("node", "sandbox", "wanted"), ADDRESSES)
def test_p129_addresses_of_a_pod(node, sandbox, wanted):
    """P-129: one of each family, the node's own first."""
    status = status_of(make_pod(), held(boxes=(box(ips=sandbox),)), node_ips=node)
    assert [ip.ip for ip in status.pod_ips] == wanted
    assert status.pod_ip == (wanted[0] if wanted else "")
    assert [ip.ip for ip in status.host_ips] == list(node)
    assert status.host_ip == (node[0] if node else "")


def test_p129_pods_of_the_hosts_network():
    """P-129: their addresses are the node's."""
    status = status_of(make_pod(hostNetwork=True), None, node_ips=(V4, V6))
    assert [ip.ip for ip in status.pod_ips] == [V4, V6]


def test_p129_an_ended_pod_keeps_its_addresses():
    """They are looked for in logs long after."""
    pod = make_pod(restartPolicy="Never")
    before = status_of(pod, held(ran("app")))
    for record in (held(ran("app", "exited"), boxes=(box(ready=False),)), None):
        assert status_of(pod, record, previous=before).pod_ip == "10.0.0.2"
    again = held(boxes=(box("t", ips=("10.0.0.9",)), box(ready=False)))
    assert status_of(pod, again, previous=before).pod_ip == "10.0.0.9"


def test_p129_a_family_that_changed_is_said():
    """P-129: the words of the event; none when nothing changed or nothing is known."""
    told = mismatch(PodStatus(host_ip=V4), (V6,))
    assert told is not None
    assert told.startswith(f"Kubelet detected an IPv4 node IP ({V4})")
    assert mismatch(PodStatus(host_ip=V4), (V4, V6)) is None
    assert mismatch(PodStatus(), (V4,)) is None


def test_a_refused_pod():
    """Section 13: Failed, with reason and message; nothing of it was ever here."""
    pod = make_pod(
        metadata={"generation": 2},
        status={"conditions": [{"type": "lb", "status": "True"}], "phase": "Pending"},
    )
    rejected = "OutOfcpu\tNode didn't have enough resource: cpu"
    status = status_of(pod, None, rejected=rejected)
    assert shown(status) == {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "Pod was rejected: Node didn't have enough resource: cpu",
        "conditions": [{"type": "lb", "status": "True"}],
        "startTime": NOW_TEXT,
        "qosClass": "BestEffort",
        "observedGeneration": 2,
    }
    ending = Ending(reason="OutOfcpu", message="m", failed=True)
    again = status_of(pod, None, rejected=rejected, previous=status, stopped=True, ending=ending)
    assert again == status


def test_a_refused_pod_that_had_run():
    """What is known of its containers is not thrown away."""
    pod = make_pod()
    before = status_of(pod, held(ran("app")))
    status = status_of(pod, held(ran("app")), previous=before, rejected="NodeShutdown\tm")
    assert (status.phase, status.reason) == ("Failed", "NodeShutdown")
    assert status.message == "Pod was rejected: m"
    assert status.container_statuses[0].container_id


def test_p118_the_last_status():
    """P-118: a pod that ended before it began is Failed, and its containers are accounted for."""
    status = status_of(make_pod(), None, ending=Ending(), stopped=True)
    assert status.phase == "Failed"
    ended = status.container_statuses[0].state.terminated
    assert (ended.reason, ended.exit_code) == ("ContainerStatusUnknown", 137)
    assert conditions(status)["Ready"] == ("False", "PodFailed", "")


def test_p118_static_pods_keep_their_phase():
    """P-118: whoever wrote the file has the say."""
    pod = make_pod()
    record = held(ran("app", "exited", 143))
    status = status_of(pod, record, ending=Ending(), stopped=True, static=True)
    assert status.phase == "Running"


def test_p118_what_never_had_its_turn_goes_on_waiting():
    """The init container that failed tells enough."""
    pod = make_pod(init=("i", "j", "k"))
    record = held(ran("i", "exited"), ran("j", "exited", 1))
    status = status_of(pod, record, ending=Ending(), stopped=True)
    states = [c.state for c in (*status.init_container_statuses, *status.container_statuses)]
    assert [s.waiting is None for s in states] == [True, True, False, False]
    assert status.phase == "Failed"


def test_p118_init_containers_that_all_wait():
    """The first had its turn, whatever became of it."""
    status = status_of(make_pod(init=("i", "j")), None, ending=Ending(), stopped=True)
    assert [c.state.waiting is None for c in status.init_container_statuses] == [True, False]
    assert status.container_statuses[0].state.waiting is not None


def test_p118_not_while_something_runs():
    """An end is not invented for what is seen running."""
    status = status_of(make_pod(), held(ran("app")), ending=Ending(), stopped=True)
    assert status.container_statuses[0].state.running is not None
    assert status.phase == "Running"


def test_p128_what_others_write_is_kept():
    """P-128: claims in the status belong to the API server's other clients."""
    pod = make_pod(
        status={
            "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "x"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "y"},
            "nodeAllocatableResourceClaimStatuses": [{"name": "z"}],
        }
    )
    status = status_of(pod, held(ran("app")))
    for name in (
        "resource_claim_statuses",
        "extended_resource_claim_status",
        "node_allocatable_resource_claim_statuses",
    ):
        assert getattr(status, name) == getattr(pod.status, name)


def test_p130_resources_of_the_pod():
    """P-130: requests and limits of the pod as a whole."""
    asked = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
    pod = make_pod({"name": "a", "resources": asked}, {"name": "b", "resources": asked})
    status = status_of(pod, None)
    assert status.allocated_resources == {"cpu": "200m"}
    assert status.resources.limits == {"cpu": "400m"}
    assert status_of(make_pod(), None).resources is None


def test_p131_times_to_the_second():
    """P-131: what others wrote more finely is cut, what is no time is left."""
    pod = make_pod()
    status = codec.read(
        PodStatus,
        {
            "startTime": "2026-01-02T03:04:05.987654Z",
            "conditions": [{"type": "x", "lastTransitionTime": "2026-01-02T05:04:05+02:00"}],
            "containerStatuses": [
                {"name": "b", "state": {"running": {"startedAt": "2026-01-02T03:04:05.5Z"}}},
                {"name": "a", "lastState": {"terminated": {"finishedAt": "soon"}}},
            ],
        },
    )
    found = normalised(pod, status)
    assert found.start_time == NOW_TEXT
    assert found.conditions[0].last_transition_time == NOW_TEXT
    first, second = found.container_statuses
    assert first.last_state.terminated.finished_at == "soon"
    assert second.state.running.started_at == NOW_TEXT
    assert normalised(pod, found) == found


EVICTED = Ending(reason="Evicted", message="m", failed=True, disruption="memory")


@pytest.mark.parametrize(
    ("record", "stopped", "claims", "told"),
    [
        (held(ran("app")), False, False, "Running"),
        (held(ran("app", "exited"), boxes=(box(),)), False, False, "Running"),
        (held(ran("app", "unknown"), boxes=()), False, False, "Running"),
        (held(ran("app", "exited"), boxes=(box(ready=False),)), False, False, "Failed"),
        (held(ran("app", "exited"), boxes=(box(ready=False),)), False, True, "Running"),
        (held(ran("app")), True, False, "Failed"),
        (None, False, False, "Failed"),
    ],
)
def test_p116_a_terminal_phase_is_held_back(record, stopped, claims, told):
    """P-116: until nothing of the pod can run; its DisruptionTarget with it (P-125)."""
    pod = make_pod()
    before = publishable(status_of(pod, held(ran("app"))), held(ran("app")), None, stopped=False)
    status = status_of(pod, record, previous=before, ending=EVICTED)
    assert status.phase == "Failed"
    found = publishable(status, record, before, stopped=stopped, claims_prepared=claims)
    assert found.phase == told
    held_back = told == "Running"
    assert (found.reason == "") is held_back
    assert ("DisruptionTarget" not in conditions(found)) is held_back
    assert found.container_statuses == status.container_statuses
    assert conditions(found)["Ready"][0] == "False"


def test_p116_what_was_told_is_not_taken_back():
    """A terminal phase that the API server has is told again; so is a foreign condition."""
    pod = make_pod(status={"conditions": [{"type": "DisruptionTarget", "reason": "x"}]})
    running = status_of(pod, held(ran("app")))
    assert publishable(running, held(ran("app")), None, stopped=False) == running
    failed = status_of(pod, held(ran("app")), ending=EVICTED)
    assert publishable(failed, held(ran("app")), failed, stopped=False) == failed
    nothing = replace(failed, phase="")
    assert publishable(failed, held(ran("app")), nothing, stopped=False).phase == "Pending"


def test_a_status_survives_its_document():
    """What is written into the table is what was computed."""
    status = status_of(make_pod(init=("i",)), held(ran("i", "exited"), ran("app")))
    assert codec.read(PodStatus, shown(status)) == status
