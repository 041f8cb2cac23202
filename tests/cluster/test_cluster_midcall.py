"""Node dies in the middle of a call, of each kind, just before and just after it is carried out.

A meddler between the kubelet and the API server kills the process when the call comes, or when its
answer does: the first was never carried out, the second was, and nobody knows.
"""

from __future__ import annotations

import collections
import itertools
import os
import re
import signal
from dataclasses import dataclass

import pytest

from tests.cluster.admin import SECONDS
from tests.cluster.cluster_node import OURS, cluster_node, processes_of
from tests.cluster.fixtures import make_namespace
from tests.cluster.meddler import Deed, Gone, meddler
from tests.cluster.pki import write_kubeconfig
from tests.cluster.witness import Witness, setbacks
from tests.node.pod_node import PAUSE, is_ready, sh
from tests.node.shared import container_of, pod, restarts
from tests.processes.node import wait_for

NAME = "midcall"
CONFIG = {
    "nodeLeaseDurationSeconds": 8,
    "nodeStatusUpdateFrequency": "2s",
    "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
}
BEFORE, AFTER = "before", "after"
# Crashes once it is told to.
GO_ON = "trap 'exit 0' TERM; until [ -e /tmp/go ]; do sleep 0.05; done; exit 1"

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def between(plane):
    """What is between the kubelet and its API server."""
    with meddler(plane, NAME) as made:
        yield made


@pytest.fixture(scope="module")
def shared_cluster_node(plane, between, shared_containerd, root):
    """The node behind it."""
    pair = plane.authority.issue(NAME, f"system:node:{NAME}", "system:nodes")
    path = write_kubeconfig(
        plane.directory / f"{NAME}.kubeconfig",
        between.url,
        plane.ca,
        client_certificate=str(pair.certificate),
        client_key=str(pair.key),
    )
    options = {"kind": OURS, "kubeconfig": path, "config": CONFIG}
    with cluster_node(plane, shared_containerd, root, NAME, **options) as made:
        yield made.start()


@dataclass(frozen=True, slots=True)
class Kill(Deed):
    """Kill the process that calls: before the call is carried out, or before its answer comes."""

    node: object
    moment: str
    pids: list

    async def meet(self, rule, request):
        """Kill before the API server hears of it."""
        del rule, request
        if self.moment == BEFORE:
            self._kill()

    def pass_body(self, body):
        """Kill after the API server has done it."""
        del body
        self._kill()

    def _kill(self):
        pid = self.node.kubelet.row("node").pid
        os.kill(pid, signal.SIGKILL)
        self.pids.append(pid)
        raise Gone


class Scene:
    """A test's pods, and who watches them."""

    def __init__(self, node, between, moment):
        self.node = node
        self._between = between
        self._moment = moment
        self.witness = Witness(node.admin, node.pods_path)

    def dying(self, method, path):
        """Have node die in the next call of a kind."""
        return self._between.rule(method, path, Kill(self.node, self._moment, []), times=1)

    def await_death(self, rule):
        """Wait until it has died, and until its successor works."""
        pids = wait_for("it dies", lambda: rule.deed.pids, SECONDS, PAUSE)
        kubelet = self.node.kubelet
        wait_for("it is back", lambda: kubelet.beating("node", pids[0]), SECONDS, PAUSE)

    def events(self, name, uid=""):
        """What was told of a pod, and how often; none of it by two events."""
        found = [
            event
            for event in self.node.events(name)
            if event["source"].get("component") == "kubelet"
            and event["involvedObject"]["uid"].startswith(uid)
        ]
        each = collections.Counter((e["reason"], e["message"]) for e in found)
        assert max(each.values(), default=1) == 1, each
        return {e["reason"]: e["count"] for e in found}


@pytest.fixture(params=[BEFORE, AFTER])
def scene(shared_cluster_node, between, request):
    """The node with a namespace of the test's own; at the end nothing is odd."""
    node = shared_cluster_node
    node.namespace = f"mid{next(_numbers)}"
    make_namespace(node.plane, node.namespace)
    made = Scene(node, between, request.param)
    died = {k: p["restarts"] for k, p in node.kubelet.processes().items() if k != "node"}
    with made.witness:
        yield made
        node.clear()
    node.admin.delete(f"/api/v1/namespaces/{node.namespace}")
    odd = [line for states in made.witness.states.values() for line in setbacks(states)]
    assert not odd, "\n".join(odd)
    now = {k: p["restarts"] for k, p in node.kubelet.processes().items() if k != "node"}
    assert now == died
    assert "Process crashed" not in node.kubelet.log()


def tell(node, name):
    """Have a pod's container go on."""
    container = container_of(node.pod(name)["status"])["containerID"]
    pid = min(processes_of(container))
    with open(f"/proc/{pid}/root/tmp/go", "w", encoding="ascii"):
        pass


def test_a_status(scene):
    """The status is there, its event once."""
    node = scene.node
    node.create(pod("told", sh(GO_ON)))
    node.await_pod_ready("told")
    with scene.dying("PATCH", r"/pods/told/status") as rule:
        tell(node, "told")
        scene.await_death(rule)
        found = node.await_status("told", "runs again", lambda s: restarts(s) == 1 and is_ready(s))
        assert container_of(found["status"])["lastState"]["terminated"]["exitCode"] == 1
        node.await_event("told", "Started", lambda e: e["count"] == 2)
    assert scene.events("told")["Started"] == 2


def test_the_last_delete(scene):
    """The pod is gone, and another one of its name is left alone."""
    node = scene.node
    first = node.create(pod("goes"))
    container = container_of(node.await_pod_ready("goes")["status"])["containerID"]
    with scene.dying("DELETE", r"/pods/goes$") as rule:
        node.delete("goes")
        scene.await_death(rule)
        node.await_gone("goes", uid=first["metadata"]["uid"])
        second = node.create(pod("goes"))
        node.await_pod_ready("goes")
        uid = second["metadata"]["uid"]
        node.await_event("goes", "Started", lambda e: e["involvedObject"]["uid"] == uid)
    assert not processes_of(container)
    assert scene.events("goes", first["metadata"]["uid"])["Killing"] == 1
    assert scene.events("goes", uid)["Started"] == 1


def test_the_creation_of_the_node(scene):
    """The node is made once, and said once to be ready."""
    node = scene.node
    node.create(pod("stays"))
    before = container_of(node.await_pod_ready("stays")["status"])["containerID"]
    made = node.admin.get(node.path)["metadata"]["uid"]
    with scene.dying("POST", r"/api/v1/nodes") as rule:
        node.admin.delete(node.path)
        scene.await_death(rule)
        found = node.await_ready()
    uid = found["metadata"]["uid"]
    assert uid != made
    reason, where = "NodeReady", "default"
    node.await_event(
        node.name, reason, lambda e: e["involvedObject"]["uid"] == uid, namespace=where
    )
    chosen = f"involvedObject.uid={uid}"
    events = node.admin.get(f"/api/v1/namespaces/{where}/events", fieldSelector=chosen)["items"]
    told = collections.Counter({e["reason"]: 0 for e in events})
    for event in events:
        told[event["reason"]] += event["count"]
    assert told["NodeReady"] == 1, told
    assert max(told.values()) == 1, told
    assert container_of(node.await_pod_ready("stays")["status"])["containerID"] == before


def test_a_mirror(scene):
    """There is one mirror, with the status of what runs."""
    node = scene.node
    name = f"seen-{node.name}"
    with scene.dying("POST", rf"/namespaces/{node.namespace}/pods$") as rule:
        node.kubelet.write(pod("seen", meta={"namespace": node.namespace}))
        scene.await_death(rule)
        first = node.await_pod_ready(name)
    assert len(scene.witness.states) == 1
    with scene.dying("DELETE", rf"/pods/{name}$") as rule:
        node.kubelet.remove("seen")
        scene.await_death(rule)
        node.await_gone(name, uid=first["metadata"]["uid"])


def test_a_token(scene):
    """The pod has its token, and was not started without."""
    node = scene.node
    script = "cat /var/run/secrets/kubernetes.io/serviceaccount/token; echo"
    with scene.dying("POST", r"/serviceaccounts/default/token") as rule:
        node.create(pod("asks", sh(script), restartPolicy="Never"))
        scene.await_death(rule)
        node.await_phase("asks", "Succeeded")
    token = node.output("asks").strip()
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", token)
    assert scene.events("asks")["Started"] == 1


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_an_event(scene, method):
    """It is told once, and counted right."""
    node = scene.node
    path = rf"/namespaces/{node.namespace}/events"
    with scene.dying(method, path) as rule:
        node.create(pod("told", sh(GO_ON)))
        node.await_pod_ready("told")
        tell(node, "told")
        scene.await_death(rule)
        node.await_event("told", "Started", lambda e: e["count"] == 2)
    counts = scene.events("told")
    assert (counts["Created"], counts["Started"]) == (2, 2)


@pytest.mark.parametrize(("method", "path"), [("PUT", "/leases/"), ("PATCH", "/nodes/")])
def test_a_heartbeat(scene, method, path):
    """The next one follows, and the node is ready."""
    node = scene.node
    with scene.dying(method, path) as rule:
        if method == "PATCH":
            node.admin.patch(f"{node.path}/status", {"status": {"capacity": {"cpu": "1"}}})
        scene.await_death(rule)
        before = node.admin.get(node.lease_path)["spec"]["renewTime"]
        node.admin.wait_one("a renewal", node.lease_path, lambda o: o["spec"]["renewTime"] > before)
    node.await_ready()


def test_a_config_map(scene):
    """A death while it is first read only makes it come later."""
    node = scene.node
    path = f"/api/v1/namespaces/{node.namespace}/configmaps"
    node.admin.create(path, {"metadata": {"name": "words"}, "data": {"text": "hello"}})
    mounts = [{"name": "v", "mountPath": "/v"}]
    volumes = [{"name": "v", "configMap": {"name": "words"}}]
    document = pod("reads", sh("cat /v/text", volumeMounts=mounts), restartPolicy="Never")
    document["spec"]["volumes"] = volumes
    with scene.dying("GET", r"/configmaps\?.*words") as rule:
        node.create(document)
        scene.await_death(rule)
        node.await_phase("reads", "Succeeded")
    assert node.output("reads") == "hello\n"
