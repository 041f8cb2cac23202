"""Deaths in a cluster: every process of the kubelet, under load.

Pods come, crash, finish and go all the time (``traffic``), and an administrator watches every
state of every object. Whoever dies: the node stays ready, no status goes back, no pod is missed,
no event is told twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import time

import pytest

from tests.cluster.cluster_node import processes_of
from tests.cluster.control_plane import control_plane
from tests.cluster.traffic import STAYS, Traffic
from tests.node.pod_node import PAUSE, SECONDS, sh
from tests.node.shared import container_of, pod
from tests.node.test_pods_faults import crash
from tests.processes.node import wait_for

KILLS = int(os.environ.get("KUBELET_NODE_KILLS", "15"))
ROUNDS = int(os.environ.get("KUBELET_FAULT_ROUNDS", "1"))
OUTAGE = float(os.environ.get("KUBELET_OUTAGE_SECONDS", "20"))

LEASE_SECONDS = 8
CONFIG = {
    "nodeLeaseDurationSeconds": LEASE_SECONDS,  # renewed each two seconds
    "nodeStatusUpdateFrequency": "2s",
    "fileCheckFrequency": "1s",
    "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
}
GRACE = 40.0  # seconds of silence after which the cluster gives a node up
START_SECONDS = 10.0  # of an API server
SOON = 6.0  # seconds: the longest pause of those who look for an API server, and a little
SLOW_END = "trap 'sleep 3; exit 0' TERM; sleep 100000 & wait"
OTHERS = ("syncloop", "pleg", "volumes", "eviction", "api", "prober")


@pytest.fixture(scope="module")
def plane(plane):
    """The session's control plane, or one that is patient enough for a long outage."""
    if OUTAGE + START_SECONDS < GRACE:
        yield plane
        return
    with control_plane(plane.tools, node_grace=OUTAGE + GRACE) as patient:
        yield patient


def kill(node, *kinds):
    """Kill processes at one moment, and wait until their successors work."""
    kubelet = node.kubelet
    pids = {kind: kubelet.pids()[kind] for kind in kinds}
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    for kind, pid in pids.items():
        wait_for(f"{kind} is back", lambda k=kind, p=pid: kubelet.beating(k, p), SECONDS)


def counter(node, name):
    """A counter of the node process, over all its lives."""
    row = node.kubelet.row("node")
    return row.counters.get(name, 0) if row is not None else 0


def died(node):
    """How often each process was replaced."""
    return {name: p["restarts"] for name, p in node.kubelet.processes().items()}


def test_node_is_killed_at_random(node):
    """So often, at any moment: the node stays ready, and nothing is lost or said twice."""
    traffic = Traffic(node)
    before, patches = died(node), counter(node, "status_patches")
    with traffic.running():
        for _ in range(KILLS):
            time.sleep(traffic.chance.uniform(0, 0.6))  # the moment of the next death
            kill(node, "node")
    traffic.never_unready(LEASE_SECONDS)
    # A patch that was under way is made again, and changes nothing.
    print(
        "PATCHES",
        counter(node, "status_patches") - patches,
        traffic.status_changes(),
        {s[0]["metadata"]["name"]: len(s) for s in traffic.pods.states.values()},
    )
    import shutil

    shutil.copy(node.kubelet.log_path, "/tmp/kk.log")
    assert counter(node, "status_patches") - patches <= traffic.status_changes() + KILLS
    after = died(node)
    assert after.pop("node") == before.pop("node") + KILLS
    assert after == before


def test_others_are_killed(node):
    """Each of the others, alone and together with node."""
    traffic = Traffic(node)
    with traffic.running(cut_off=True):
        alone, together = [(kind,) for kind in OTHERS], [("node", kind) for kind in OTHERS]
        for kinds in (*alone, *together) * ROUNDS:
            time.sleep(traffic.chance.uniform(0, 0.5))  # the moment of the next death
            kill(node, *kinds)
    traffic.never_unready(LEASE_SECONDS)


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_the_whole_kubelet_is_killed(node, lost):
    """With its tables or without: containers are left alone, and what was missed is made good."""
    traffic = Traffic(node)
    with traffic.running(forgetful=lost, cut_off=True):
        leaves = traffic.add(STAYS)
        node.await_pod_ready(leaves)
        time.sleep(traffic.chance.uniform(0.5, 1.5))  # the moment of its death
        crash(node.kubelet)
        try:
            if lost:
                shutil.rmtree(node.kubelet.run_dir)
            traffic.drop(leaves)
            traffic.add(STAYS)
        finally:
            node.kubelet.start()
        time.sleep(traffic.chance.uniform(0.5, 1.5))  # and some more traffic
    traffic.never_unready()


# The control plane.


def static(node, name, **more):
    """Write a manifest of the test's namespace; the name of the pod."""
    node.kubelet.write(pod(name, meta={"namespace": node.namespace}, **more))
    return f"{name}-{node.name}"


@pytest.fixture
def cluster(node):
    """The node's control plane, of which the rest is as quick after an outage as it was before."""
    yield node.plane
    node.plane.manager.kill()  # it would look for the API server again in a minute
    node.plane.manager.start()


@dataclasses.dataclass
class Away:
    """How the API server is missed."""

    since: float
    seconds: float = 0.0  # in all
    requests: int = 0  # that nobody answered


@contextlib.contextmanager
def without_api_server(node, cluster):
    """Have no API server for a while."""
    cluster.api_server.kill()
    away, before = Away(time.monotonic()), counter(node, "api_requests")
    try:
        yield away
        away.requests = counter(node, "api_requests") - before
    finally:
        cluster.start_api_server()
        away.seconds = time.monotonic() - away.since


def test_the_api_server_is_away(node, cluster):
    """Everything goes on without it; on its return all is said, soon, once and without a storm."""
    traffic = Traffic(node)
    went = static(node, "went")
    node.await_pod_ready(went)
    with traffic.running():
        crasher, slow = traffic.add(STAYS), "slow"
        node.create(pod(slow, sh(SLOW_END), terminationGracePeriodSeconds=30))
        ended = container_of(node.await_pod_ready(slow)["status"])["containerID"]
        victim = container_of(node.await_pod_ready(crasher)["status"])["containerID"]
        node.delete(slow)
        wait_for("it is heard of", lambda: node.kubelet.pods()[slow].ending, SECONDS, PAUSE)
        with without_api_server(node, cluster) as away:
            # What was asked for before goes on, and what happens here is answered here.
            came = static(node, "came")
            node.kubelet.remove("went")
            os.kill(min(processes_of(victim)), signal.SIGKILL)
            node.kubelet.await_ready(came)
            node.kubelet.await_gone(went)
            wait_for("a restart", lambda: traffic.starts(crasher) == 2, SECONDS, PAUSE)
            node.await_end(ended)
            time.sleep(max(0.0, OUTAGE - (time.monotonic() - away.since)))
        back, before = time.time(), counter(node, "api_requests")
        wait_for("a renewal", lambda: traffic.renewed()[-1] > back - 1, SECONDS, PAUSE)
        renewed = time.time() - back
        traffic.expect_restarts(crasher, 1)
        node.await_gone(slow)
        node.await_gone(went)
        node.await_pod_ready(came)
        converged = time.time() - back
        after = counter(node, "api_requests") - before
        node.kubelet.remove("came")
        node.await_gone(came)
    assert renewed < SOON
    assert converged < OUTAGE
    assert away.requests < 30 + 8 * away.seconds
    assert after < 50 + 15 * len(traffic.pods.states)
    traffic.never_unready()


def test_the_store_is_killed(node, cluster):
    """The API server without its store, and with it again."""
    traffic = Traffic(node)
    with traffic.running():
        time.sleep(1)  # of traffic
        cluster.etcd.kill()
        for left in cluster.directory.glob("etcd*:*"):
            left.unlink()  # its sockets: it does not take them over
        time.sleep(3)  # that nobody can do anything
        cluster.etcd.start()
        cluster.await_ready()
        time.sleep(1)  # of traffic
    traffic.never_unready()


def test_the_api_server_is_restarted_again_and_again(node, cluster):
    """Three times in a row, each as soon as it works."""
    traffic = Traffic(node)
    with traffic.running():
        for _ in range(3):
            time.sleep(traffic.chance.uniform(0, 1))  # the moment of its death
            cluster.restart_api_server()
    traffic.never_unready()
