"""The Go kubelet and ours on this machine, one after the other: what the cluster sees of each.

Every field of the node, its lease, a pod's status and the events is compared. `REMAINING` is the
list of what differs, with reasons; a difference that is not there fails, and so does an entry that
is no difference any more.
"""

from __future__ import annotations

import fnmatch
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.cluster_node import GO, cluster_node, quiet_port, under_test
from tests.cluster.fixtures import make_namespace
from tests.node.pod_node import pod, sh, sleeper

NAME = "compared"
# What is another one each time, also with the same kubelet; * is anything.
CHANGING = (
    "node.metadata.creationTimestamp",
    "node.metadata.managedFields.*",  # which fields each write touched is a matter of moments
    "node.metadata.resourceVersion",
    "node.metadata.uid",
    "node.status.conditions.*.last*Time",
    "lease.metadata.creationTimestamp",
    "lease.metadata.managedFields.*",
    "lease.metadata.ownerReferences.*.uid",
    "lease.metadata.resourceVersion",
    "lease.metadata.uid",
    "lease.spec.renewTime",
    "pod.*.containerID",
    "pod.*.startedAt",
    "pod.*.finishedAt",
    "pod.conditions.*.lastTransitionTime",
    "pod.startTime",
    # The Go kubelet fills this in when it happens to sync again: the kernel's "no limit".
    "pod.resources*",
    "events.*.count",
)
# Field, and why it differs.
REMAINING = {
    "node.status.nodeInfo.kubeletVersion": "each says which release it is or follows",
    "node.status.declaredFeatures.*": "only what this kubelet does is declared",
    "events.*(Node).about": (
        "the Go kubelet knows its node's uid only after a restart; with it, `describe node` finds "
        "the events"
    ),
    "events.*(spec.*).about": "without resourceVersion: which one was read first says nothing",
    "events.NodeAllocatableEnforced(Node).*": "no limit is set on all pods together yet",
}


@dataclass(frozen=True)
class Seen:
    """What the cluster saw of one kubelet: each field with its path."""

    fields: dict[str, object]
    described: str


def flat(value, path):
    """Every leaf of a document by its path; entries of lists go by their name, type or number."""
    if isinstance(value, dict) and value:
        found = {}
        for key, inner in value.items():
            found |= flat(inner, f"{path}.{key}")
        return found
    if isinstance(value, list) and value:
        found = {}
        for number, inner in enumerate(value):
            found |= flat(inner, f"{path}.{entry_name(inner, number)}")
        return found
    return {path: value}


def entry_name(value, number):
    """What an entry of a list is known by."""
    if not isinstance(value, dict):
        return str(number)
    if "manager" in value:
        return f"{value['manager']}/{value.get('subresource', '')}"
    if value.get("names"):
        return value["names"][-1]
    return value.get("type") or value.get("name") or str(number)


def observe(node):
    """Start a node, run pods on it, and take everything down."""
    node.start()
    container = sleeper(resources={"requests": {"cpu": "10m"}, "limits": {"memory": "32Mi"}})
    node.create(
        pod(
            "same",
            container,
            initContainers=[sh("exit 0", "first")],
            terminationGracePeriodSeconds=2,
        )
    )
    node.await_pod_ready("same")
    node.await_event("same", "Started", lambda e: "{c}" in e["involvedObject"]["fieldPath"])
    node.admin.wait_one("the lease", node.lease_path, bool)
    for reason in ("Starting", "NodeReady"):
        node.await_event(node.name, reason, namespace="default")
    status = node.pod("same")["status"]
    events = [*node.events("same"), *events_of_node(node)]
    described = node.kubectl("describe", "node", node.name)
    found = node.admin.get(node.path)
    node.clear()
    wide = node.kubectl("get", "nodes", node.name, "-o", "wide")
    parts = {
        **flat(found, "node"),
        **flat(node.admin.get(node.lease_path), "lease"),
        **flat(without_names(status), "pod"),
        **flat(said(events), "events"),
    }
    return Seen(parts, f"{wide}\n{described}")


def without_names(status):
    """A pod's status without the address and the mount that each pod has another of."""
    text = json.dumps(status)
    for ip in status["podIPs"]:
        text = text.replace(ip["ip"], "<pod>")
    mount = status["containerStatuses"][0]["volumeMounts"][0]["name"]
    return json.loads(text.replace(mount, "<token>"))


def events_of_node(node):
    """The events about the node."""
    chosen = f"involvedObject.name={node.name},involvedObject.kind=Node"
    return node.admin.get("/api/v1/namespaces/default/events", fieldSelector=chosen)["items"]


def said(events):
    """What events say, by whom they are of and why."""
    found = {}
    for event in events:
        about = event["involvedObject"]
        if event["source"].get("component") != "kubelet":
            continue
        place = about.get("fieldPath", about["kind"])
        found[f"{event['reason']}({place})"] = {
            **{key: event[key] for key in ("type", "message", "count", "source")},
            "reporting": f"{event['reportingComponent']} {event['reportingInstance']}",
            "about": " ".join(sorted(about)),
        }
    return found


@pytest.fixture(scope="module")
def seen(plane, shared_containerd):
    """What the cluster saw of the Go kubelet, and of the one under test."""
    config = {"port": quiet_port()}
    both = []
    for kind in (GO, under_test()):
        root = Path(tempfile.mkdtemp(prefix="kt-", dir="/dev/shm"))
        root.chmod(0o755)
        try:
            with cluster_node(
                plane, shared_containerd, root, NAME, kind=kind, config=config
            ) as node:
                node.namespace = f"compare-{len(both)}"
                make_namespace(plane, node.namespace)
                try:
                    both.append(observe(node))
                finally:
                    plane.admin.delete(f"/api/v1/namespaces/{node.namespace}")
                    forget_events(plane)
        finally:
            shutil.rmtree(root)
        shared_containerd.reset()
    return tuple(both)


def forget_events(plane):
    """Have the next kubelet begin without the events of the one before."""
    chosen = f"involvedObject.name={NAME}"
    plane.admin.request("DELETE", "/api/v1/namespaces/default/events", fieldSelector=chosen)


def differences(seen):
    """Each field that differs, with both values."""
    go, other = (s.fields for s in seen)
    return {
        path: (go.get(path), other.get(path))
        for path in sorted({*go, *other})
        if go.get(path) != other.get(path)
        and not any(fnmatch.fnmatch(path, pattern) for pattern in CHANGING)
    }


def test_only_the_listed_fields_differ(seen):
    """Node, lease, pod status and events are the same but for the list."""
    found = {
        path: values
        for path, values in differences(seen).items()
        if not any(fnmatch.fnmatch(path, pattern) for pattern in REMAINING)
    }
    shown = "\n".join(f"{p}: Go {g!r}, ours {o!r}" for p, (g, o) in found.items())
    assert not found, f"these differ and are not listed:\n{shown}"


def test_every_listed_field_differs(seen):
    """The list holds nothing that is the same by now."""
    if under_test() == GO:
        pytest.skip("the Go kubelet does not differ from itself")
    found = differences(seen)
    stale = [p for p in REMAINING if not fnmatch.filter(found, p)]
    assert stale == []


def test_describe_has_the_same_lines(seen):
    """``get nodes -o wide`` and ``describe node`` have the same lines, whatever the values."""
    go, other = (titles(s.described) for s in seen)
    assert other == go


def titles(text):
    """The first word or title of each line that is not an event, an image or a lease's state."""
    kept = text.partition("\nEvents:")[0].splitlines()
    return [line.partition(":")[0].split("  ")[0] for line in kept if line[:1] not in {" ", "\t"}]
