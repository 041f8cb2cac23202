"""Pods that the API server knows: scheduled, run, rolled, finished, deleted, made anew."""

from __future__ import annotations

from tests.cluster.cluster_node import processes_of
from tests.cluster.documents import template
from tests.node.images import BUSYBOX
from tests.node.pod_node import is_ready, sh, sleeper
from tests.node.shared import condition, container_of, pod, restarts, state_of

SLOW_END = "trap 'sleep 3; exit 0' TERM; sleep 100000 & wait"


def replicas(node, app):
    """The pods of an application that are not being deleted."""
    found = node.admin.get(node.pods_path, labelSelector=f"app={app}")["items"]
    return {p["metadata"]["name"] for p in found if "deletionTimestamp" not in p["metadata"]}


def test_kubectl_run(node):
    """``kubectl run``: the scheduler puts the pod here, and it becomes ready."""
    command = ("--command", "--", "sleep", "100000")
    node.kubectl("run", "hello", f"--image={BUSYBOX}", "-n", node.namespace, *command)
    node.kubectl("wait", "--for=condition=Ready", "pod/hello", "-n", node.namespace)
    line = node.kubectl("get", "pod", "hello", "-n", node.namespace, "-o", "wide").splitlines()[1]
    found = node.pod("hello")
    words = line.split()
    assert words[:4] == ["hello", "1/1", "Running", "0"]
    assert words[5:7] == [found["status"]["podIP"], node.name]
    node.kubectl("delete", "pod", "hello", "-n", node.namespace, "--grace-period=1")
    assert node.admin.find(node.pod_path("hello")) is None


def test_the_status_has_every_field(node):
    """A running pod's status names addresses, times, class, conditions and container."""
    made = node.create(pod("full"))
    status = node.await_pod_ready("full")["status"]
    inner = next(
        a["address"]
        for a in node.admin.get(node.path)["status"]["addresses"]
        if a["type"] == "InternalIP"
    )
    assert (status["phase"], status["qosClass"]) == ("Running", "BestEffort")
    assert (status["hostIP"], status["hostIPs"]) == (inner, [{"ip": inner}])
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["startTime"] >= made["metadata"]["creationTimestamp"]
    assert status["observedGeneration"] == made["metadata"]["generation"]
    kinds = {
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    }
    assert {c["type"] for c in status["conditions"]} == kinds
    assert {c["status"] for c in status["conditions"]} == {"True"}
    (container,) = status["containerStatuses"]
    assert container["containerID"].startswith("containerd://")
    assert (container["image"], container["restartCount"]) == (BUSYBOX, 0)
    assert (container["ready"], container["started"]) == (True, True)
    assert container["imageID"].startswith("sha256:")
    assert list(container["state"]) == ["running"]
    assert container["lastState"] == {}


def test_a_deployment_is_rolled(node):
    """A new version replaces the old one pod by pod, and a deletion ends them all."""
    spec = template("web", sleeper(env=[{"name": "VERSION", "value": "1"}]))
    strategy = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "strategy": strategy, **spec},
    }
    node.kubectl.apply(deployment, namespace=node.namespace)
    rollout = ("rollout", "status", "deployment/web", "-n", node.namespace, "--timeout=60s")
    node.kubectl(*rollout)
    first = replicas(node, "web")
    assert len(first) == 2
    node.kubectl("set", "env", "deployment/web", "VERSION=2", "-n", node.namespace)
    node.kubectl(*rollout)
    second = replicas(node, "web")
    assert len(second) == 2
    assert not first & second
    node.await_pods("the old ones are gone", lambda pods: set(pods) == second)
    node.kubectl("delete", "deployment", "web", "-n", node.namespace)
    node.await_pods("all are gone", lambda pods: not pods)


def test_a_job_completes(node):
    """Two pods to their good end, of which the job hears."""
    spec = {"completions": 2, "parallelism": 2, **template("sum", sh("exit 0"), job=True)}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": spec}
    node.kubectl.apply(job, namespace=node.namespace)
    node.kubectl(
        "wait", "--for=condition=Complete", "job/sum", "-n", node.namespace, "--timeout=60s"
    )
    status = node.admin.get(f"/apis/batch/v1/namespaces/{node.namespace}/jobs/sum")["status"]
    assert status["succeeded"] == 2
    phases = {p["status"]["phase"] for p in node.admin.get(node.pods_path)["items"]}
    assert phases == {"Succeeded"}


def test_a_daemon_set_runs_here(node):
    """A pod of it is on this node, and another one when that is deleted."""
    daemons = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": template("agent", sleeper()),
    }
    node.kubectl.apply(daemons, namespace=node.namespace)
    rollout = ("rollout", "status", "daemonset/agent", "-n", node.namespace, "--timeout=60s")
    node.kubectl(*rollout)
    (first,) = replicas(node, "agent")
    node.delete(first)

    def another(pods):
        return [n for n, p in pods.items() if n != first and is_ready(p.get("status", {}))]

    node.await_pods("another one", another)
    node.await_gone(first)


def test_a_failed_pod_says_how(node):
    """Phase, reason and exit code of a container that failed for good."""
    script = "echo bad > /dev/termination-log; exit 3"
    node.create(pod("fails", sh(script), restartPolicy="Never"))
    status = node.await_phase("fails", "Failed")["status"]
    ended = state_of(status)["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "bad\n")
    assert condition(status, "Ready") == ("False", "PodFailed")
    assert condition(status, "ContainersReady") == ("False", "PodFailed")


def test_a_crash_is_counted(node):
    """A container that ends is started again: its count, its last state and the crash loop."""
    node.create(pod("crash", sh("sleep 0.3; exit 7")))
    status = node.await_status("crash", "restarts twice", lambda s: restarts(s) >= 2)["status"]
    last = container_of(status)["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (7, "Error")

    def looping(status):
        return state_of(status).get("waiting", {}).get("reason") == "CrashLoopBackOff"

    node.await_status("crash", "is in a crash loop", looping)


def test_deletion_lets_the_pod_end_first(node):
    """The object stays until the container has ended in its own time, and no longer."""
    node.create(pod("slow", sh(SLOW_END), terminationGracePeriodSeconds=30))
    found = node.await_pod_ready("slow")
    container = container_of(found["status"])["containerID"]
    node.delete("slow")
    deleted = node.pod("slow")["metadata"]
    assert deleted["deletionGracePeriodSeconds"] == 30
    assert processes_of(container)
    node.await_gone("slow", seconds=20)
    assert not processes_of(container)


def test_a_stubborn_pod_is_killed_when_its_time_is_up(node):
    """Who ignores TERM is killed after the grace, which a deletion may shorten."""
    script = "trap '' TERM; echo up; while true; do sleep 0.1; done"
    node.create(pod("stubborn", sh(script), terminationGracePeriodSeconds=3600))
    found = node.await_pod_ready("stubborn")
    container = container_of(found["status"])["containerID"]
    node.delete("stubborn", gracePeriodSeconds=2)
    assert processes_of(container)
    node.await_gone("stubborn", seconds=20)
    assert not processes_of(container)


def test_a_forced_deletion_leaves_no_process(node):
    """The object is gone at once; the container follows."""
    node.create(pod("forced", terminationGracePeriodSeconds=3600))
    found = node.await_pod_ready("forced")
    container = container_of(found["status"])["containerID"]
    force = ("--force", "--grace-period=0")
    node.kubectl("delete", "pod", "forced", "-n", node.namespace, *force)
    assert node.admin.find(node.pod_path("forced")) is None
    node.create(pod("witness"))
    node.await_pod_ready("witness")
    node.await_end(container)


def test_a_name_is_used_again(node):
    """A pod of the same name right after the deletion is another pod, with its own container."""
    first = node.create(pod("again", sh(SLOW_END)))
    node.await_pod_ready("again")
    node.delete("again", gracePeriodSeconds=0)  # the object goes, the container is still there
    second = node.create(pod("again"))
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    found = node.await_pod_ready("again")
    assert found["metadata"]["uid"] == second["metadata"]["uid"]
    assert restarts(found["status"]) == 0
    node.delete("again", gracePeriodSeconds=1)
    node.await_gone("again")
    third = node.create(pod("again"))
    found = node.await_pod_ready("again")
    assert found["metadata"]["uid"] == third["metadata"]["uid"]


def test_readiness_gates(node):
    """A pod is ready when others say so, too (P-124)."""
    gate = "tests.kubelet/served"
    node.create(pod("gated", readinessGates=[{"conditionType": gate}]))
    found = node.await_status(
        "gated", "containers are ready", lambda s: condition(s, "ContainersReady")[0] == "True"
    )
    assert condition(found["status"], "Ready") == ("False", "ReadinessGatesNotReady")
    path = f"{node.pod_path('gated')}/status"
    for value in ("True", "False", "True"):
        change = {"status": {"conditions": [{"type": gate, "status": value}]}}
        node.admin.patch(path, change, "strategic")
        node.await_status(
            "gated", f"ready is {value}", lambda s, v=value: condition(s, "Ready")[0] == v
        )
    assert condition(node.pod("gated")["status"], gate)[0] == "True"


def test_a_pod_that_does_not_belong_here_is_refused(node):
    """A pod that was bound here by hand against its own selector fails with a reason."""
    node.create(pod("astray", nodeSelector={"disk": "floppy"}))
    status = node.await_phase("astray", "Failed")["status"]
    assert status["reason"] == "NodeAffinity"
    assert status["message"]


def test_a_restart_of_the_kubelet_is_not_noticed(node):
    """Pods run on over it, their status does not waver, and a deletion meanwhile is done after."""
    node.create(pod("stays"))
    node.create(pod("leaves", sh(SLOW_END)))
    before = node.await_pod_ready("stays")
    node.await_pod_ready("leaves")
    node.kubelet.stop()
    node.delete("leaves")
    node.create(pod("comes"))
    node.kubelet.start()
    node.await_pod_ready("comes")
    node.await_gone("leaves")
    after = node.pod("stays")
    for status in (before["status"], after["status"]):
        status.pop("resources", None)  # of the group, which has none at first
    assert after["status"] == before["status"]
