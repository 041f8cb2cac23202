"""Events as ``kubectl get events`` shows them."""

from __future__ import annotations

import re

import pytest

from tests.cluster.cluster_node import processes_of
from tests.node.images import BUSYBOX
from tests.node.pod_node import sh, sleeper
from tests.node.shared import container_of, pod, restarts

NODE_EVENTS = {
    "Starting": "Starting kubelet.",
    "NodeHasSufficientMemory": "Node {name} status is now: NodeHasSufficientMemory",
    "NodeHasNoDiskPressure": "Node {name} status is now: NodeHasNoDiskPressure",
    "NodeHasSufficientPID": "Node {name} status is now: NodeHasSufficientPID",
    "NodeReady": "Node {name} status is now: NodeReady",
}


def of_kubelet(events):
    """Those that the kubelet sent."""
    return [e for e in events if e["source"].get("component") == "kubelet"]


def reasons(node, name):
    """The reasons that the kubelet gave, oldest first."""
    return [e["reason"] for e in of_kubelet(node.events(name))]


def test_the_life_of_a_pod(node):
    """Pulled, Created, Started, Killing, with the messages that people search for."""
    node.create(pod("life"))
    node.await_pod_ready("life")
    node.await_event("life", "Started")
    node.delete("life")
    node.await_event("life", "Killing")
    found = of_kubelet(node.events("life"))
    present = f'Container image "{BUSYBOX}" already present on machine'
    assert [(e["type"], e["reason"], e["message"]) for e in found] == [
        ("Normal", "Pulled", f"{present} and can be accessed by the pod"),
        ("Normal", "Created", "Container created"),
        ("Normal", "Started", "Container started"),
        ("Normal", "Killing", "Stopping container c"),
    ]


def test_every_field_of_an_event(node):
    """Whom it is about, who says it, when and how often (N-63)."""
    made = node.create(pod("fields"))
    event = node.await_event("fields", "Started")
    meta = made["metadata"]
    about = event["involvedObject"]
    assert (about["kind"], about["apiVersion"]) == ("Pod", "v1")
    assert (about["namespace"], about["name"]) == (node.namespace, "fields")
    assert (about["uid"], about["fieldPath"]) == (meta["uid"], "spec.containers{c}")
    assert event["source"] == {"component": "kubelet", "host": node.name}
    assert (event["reportingComponent"], event["reportingInstance"]) == ("kubelet", node.name)
    assert event["firstTimestamp"] == event["lastTimestamp"] >= meta["creationTimestamp"]
    assert (event["count"], event["eventTime"]) == (1, None)
    assert event["metadata"]["namespace"] == node.namespace
    name, _, stamp = event["metadata"]["name"].rpartition(".")
    assert name == "fields"
    int(stamp, 16)  # the moment in nanoseconds, which makes the name unique


def test_get_events_shows_the_usual_columns(node):
    """``kubectl get events`` has a line for each."""
    node.create(pod("shown"))
    node.await_event("shown", "Started")
    head, *lines = node.kubectl("get", "events", "-n", node.namespace).splitlines()
    assert head.split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    words = [line.split()[1:4] for line in lines]
    for reason in ("Pulled", "Created", "Started"):
        assert ["Normal", reason, "pod/shown"] in words
    text = node.kubectl("describe", "pod", "shown", "-n", node.namespace)
    said = r"Normal +Started +\S+ +kubelet +spec.containers\{c\}: Container started"
    assert re.search(said, text), text


def test_the_same_again_is_counted(node):
    """A crash loop has one event for each thing that happens, with a count."""
    node.create(pod("loops", sh("exit 1")))
    node.await_status("loops", "restarts", lambda s: restarts(s) >= 3)
    event = node.await_event("loops", "Started", lambda e: e["count"] >= 3)
    assert event["lastTimestamp"] > event["firstTimestamp"]
    node.await_event("loops", "BackOff", lambda e: e["count"] >= 2)
    found = of_kubelet(node.events("loops"))
    each = {(e["reason"], e["message"]) for e in found}
    assert len(found) == len(each), "the same thing is said by two events"
    assert {e["reason"] for e in found} == {"Pulled", "Created", "Started", "BackOff"}
    (back_off,) = [e for e in found if e["reason"] == "BackOff"]
    assert back_off["type"] == "Warning"
    uid = node.pod("loops")["metadata"]["uid"]
    said = f"Back-off restarting failed container c in pod loops_{node.namespace}({uid})"
    assert back_off["message"] == said


def test_a_counted_event_survives_a_restart_of_the_kubelet(node):
    """After a restart nothing is said again that did not happen again."""
    node.create(pod("calm"))
    node.await_pod_ready("calm")
    node.await_event("calm", "Started")
    before = [(e["reason"], e["count"]) for e in of_kubelet(node.events("calm"))]
    node.kubelet.stop()
    node.kubelet.start()
    node.create(pod("other"))
    node.await_event("other", "Started")
    assert [(e["reason"], e["count"]) for e in of_kubelet(node.events("calm"))] == before


def test_similar_events_are_combined(node):
    """After ten of a kind, those that follow are one event that says so (N-63)."""
    names = [f"v{n}" for n in range(14)]
    volumes = [{"name": n, "configMap": {"name": f"no-{n}"}} for n in names]
    mounts = [{"name": n, "mountPath": f"/{n}"} for n in names]
    node.create(pod("noisy", sleeper(volumeMounts=mounts), volumes=volumes))
    head = "(combined from similar events): MountVolume.SetUp failed for volume "
    combined = node.await_event("noisy", "FailedMount", lambda e: e["message"].startswith(head))
    assert combined["type"] == "Warning"
    node.await_event("noisy", "FailedMount", lambda e: e["message"].startswith(head))
    single = [e for e in of_kubelet(node.events("noisy")) if e["reason"] == "FailedMount"]
    assert len(single) <= 10


def test_a_bad_image_and_a_bad_volume(node):
    """What is wrong with a pod is an event that names it."""
    node.create(pod("badimage", sleeper(image="kubelet.test/none:1", imagePullPolicy="Never")))
    event = node.await_event("badimage", "ErrImageNeverPull")
    assert (
        event["message"]
        == 'Container image "kubelet.test/none:1" is not present with pull policy of Never'
    )
    volumes = [{"name": "v", "configMap": {"name": "absent"}}]
    mounts = [{"name": "v", "mountPath": "/v"}]
    node.create(pod("badvolume", sleeper(volumeMounts=mounts), volumes=volumes))
    event = node.await_event("badvolume", "FailedMount")
    text = 'MountVolume.SetUp failed for volume "v" : configmap "absent" not found'
    assert (event["type"], event["message"]) == ("Warning", text)


@pytest.mark.parametrize("reason", NODE_EVENTS)
def test_the_node_speaks_of_itself(node, reason):
    """Its start and its conditions are events about the node (N-14, N-23)."""
    event = node.await_event(node.name, reason, namespace="default")
    assert event["message"] == NODE_EVENTS[reason].format(name=node.name)
    assert (event["type"], event["source"]["host"]) == ("Normal", node.name)
    about = event["involvedObject"]
    assert (about["kind"], about["name"]) == ("Node", node.name)


def test_a_pod_refused_says_why(node):
    """A pod that cannot be here has an event with the reason of its status."""
    node.create(pod("astray", nodeSelector={"disk": "floppy"}))
    status = node.await_phase("astray", "Failed")["status"]
    event = node.await_event("astray", status["reason"])
    assert event["type"] == "Warning"


def test_events_wait_for_the_api_server(node):
    """What happens while the API server is away is told afterwards."""
    node.create(pod("steady", sh("until [ -e /tmp/go ]; do sleep 0.1; done; exit 1")))
    node.await_pod_ready("steady")
    container = container_of(node.pod("steady")["status"])["containerID"]
    pid = processes_of(container)[0]
    node.plane.api_server.kill()
    try:
        with open(f"/proc/{pid}/root/tmp/go", "w", encoding="ascii"):
            pass
        node.await_end(container)
    finally:
        node.plane.start_api_server()
    node.await_event("steady", "Started", lambda e: e["count"] >= 2)
