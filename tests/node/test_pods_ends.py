"""The end of pods on real containerds, and restarts of the kubelet while they run."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from kubelet.cri.client import RuntimeClient
from tests.node import pods
from tests.node.module_nodes import (
    Notes,
    container_of,
    each_node,
    node24,
    nodes,
    note,
    pod,
    running,
)
from tests.node.pod_node import PAUSE, SECONDS, is_ready, sh
from tests.processes.node import alive, wait_for

__all__ = ["each_node", "node24", "nodes"]

STUBBORN = "trap '' TERM; while true; do sleep 0.1; done"


def with_client(node, work):
    """Do something with a client of a node's runtime."""

    async def main():
        async with await RuntimeClient.connect(node.containerd.endpoint) as client:
            return await work(client)

    return asyncio.run(main())


def restarts(status):
    """How often a container was started again."""
    return container_of(status).get("restartCount", 0)


# The end of a pod.


def test_a_container_that_ends_when_told(each_node):
    """It is told once and waited for; nobody kills what ends by itself (P-141)."""
    notes = Notes(each_node, "told")
    script = f"trap '{note('bye')}; exit 0' TERM; while true; do sleep 0.1; done"
    name = each_node.write(
        pod(
            "told",
            sh(script, **notes.mounts),
            volumes=notes.volumes,
            terminationGracePeriodSeconds=600,
        )
    )
    each_node.await_ready(name)
    each_node.remove("told")
    each_node.await_gone(name)
    assert notes.lines() == ["bye"]


def test_a_container_that_does_not_want_to_end(node24):
    """It hears of it, has its grace, and is killed then."""
    notes = Notes(node24, "stubborn")
    script = f"trap '{note('term')}' TERM; while true; do sleep 0.1; {note('alive')}; done"
    name = node24.write(
        pod(
            "stubborn",
            sh(script, **notes.mounts),
            volumes=notes.volumes,
            terminationGracePeriodSeconds=3,
        )
    )
    node24.await_ready(name)
    pid = node24.pid_of(name)
    node24.remove("stubborn")
    node24.await_gone(name)
    assert not alive(pid)
    lines = notes.lines()
    assert lines.count("term") == 1
    assert lines[-1] == "alive"  # it lived on after it was told


@pytest.mark.parametrize("grace", [0, 1])
def test_hardly_any_grace(node24, grace):
    """What does not want to end is killed soon, whatever it does."""
    name = node24.write(pod("short", sh(STUBBORN), terminationGracePeriodSeconds=grace))
    node24.await_ready(name)
    pid = node24.pid_of(name)
    node24.remove("short")
    node24.await_gone(name)
    assert not alive(pid)


def test_a_shorter_grace_while_it_ends(node24):
    """Asked again with less, a pod that is ending ends sooner (P-30, P-37)."""
    name = node24.apply(pod("hurry", sh(STUBBORN), terminationGracePeriodSeconds=600))
    node24.await_ready(name)
    node24.delete(name)
    node24.await_event(name, "Killing")
    node24.delete(name, "--grace-period=1")
    node24.await_gone(name)


def test_nothing_of_a_removed_pod_stays(each_node):
    """Containers, sandbox, cgroup, directories, logs: all of it goes."""
    name = each_node.write(pod("trace", volumes=[{"name": "v", "emptyDir": {}}]))
    each_node.await_ready(name)
    uid = each_node.uid(name)
    assert cgroups(uid)
    each_node.remove("trace")
    each_node.await_gone(name)
    wait_for("the runtime has nothing", lambda: uid not in each_node.cache.uids(), SECONDS, PAUSE)
    assert cgroups(uid) == []
    assert not (each_node.root_dir / "pods" / uid).exists()
    assert not list(each_node.logs.iterdir())


def cgroups(uid):
    """The cgroups of a pod, in whichever hierarchy."""
    return [path for path, _, _ in os.walk("/sys/fs/cgroup") if uid in path]


def test_a_pod_that_nobody_wants(each_node):
    """A pod of a kubelet that is in no source is ended and removed (P-35)."""
    each_node.stop()  # or it would be ended while it is made
    parent = each_node.containerd.cgroup_parent
    made = with_client(each_node, lambda c: pods.make_pod(c, "lost", cgroup_parent=parent))
    pid = with_client(each_node, lambda c: pods.pid_of(c, made.container_id))
    each_node.start()

    async def sandboxes(client):
        return [s.metadata.uid for s in await client.list_pod_sandbox()]

    wait_for("it is ended", lambda: not alive(pid), SECONDS, PAUSE)
    wait_for("it is gone", lambda: made.uid not in with_client(each_node, sandboxes), SECONDS, 0.2)
    wait_for("its row is gone", lambda: not each_node.pods(), SECONDS, PAUSE)


# The kubelet's own restarts.


def test_a_kubelet_that_is_restarted(each_node):
    """Pods run on: the same containers, no restart, ready all the time; what ended stays so."""
    name = each_node.write(pod("stays"))
    done = each_node.write(pod("ended", sh("exit 0"), restartPolicy="Never"))
    local = each_node.apply(pod("applied"))
    status = each_node.await_ready(name)
    each_node.await_ready(local)
    applied = each_node.pid_of(local)
    each_node.await_phase(done, "Succeeded")
    pid, id_ = each_node.pid_of(name), container_of(status)["containerID"]
    ended = container_of(each_node.status(done))["containerID"]
    each_node.stop()
    assert alive(pid)
    each_node.start()
    seen = each_node.await_status(name, "its status", lambda s: "containerStatuses" in s)
    assert is_ready(seen), seen
    each_node.await_settled()
    status = each_node.status(name)
    assert is_ready(status)
    container = container_of(status)
    assert (container["containerID"], container["restartCount"]) == (id_, 0)
    assert each_node.pid_of(name) == pid
    assert len(each_node.record(name).containers) == 1
    assert each_node.pid_of(local) == applied
    assert is_ready(each_node.status(local))
    after = each_node.await_phase(done, "Succeeded")
    assert container_of(after)["containerID"] == ended
    assert len(each_node.record(done).containers) == 1


def test_a_container_that_ends_while_the_kubelet_is_away(node24):
    """The kubelet finds it ended, and starts another one."""
    name = node24.write(pod("away"))
    node24.await_ready(name)
    pid = node24.pid_of(name)
    node24.stop()
    os.kill(pid, signal.SIGKILL)
    wait_for("it is dead", lambda: not alive(pid))
    node24.start()
    status = node24.await_status(name, "it runs again", lambda s: restarts(s) == 1 and running()(s))
    assert container_of(status)["lastState"]["terminated"]["exitCode"] == 137
