"""The end of pods on real containerds, and restarts of the kubelet while they run."""

from __future__ import annotations

import os
import signal

import pytest

from tests.node import pods
from tests.node.pod_node import PAUSE, SECONDS, is_ready, sh
from tests.node.shared import (
    STUBBORN,
    Notes,
    container_of,
    note,
    pod,
    restarts,
    running,
    with_client,
)
from tests.processes.node import alive, wait_for

# The end of a pod.


@pytest.mark.both_versions
def test_a_container_that_ends_when_told(node):
    """It is told once and waited for; nobody kills what ends by itself (P-141)."""
    notes = Notes(node, "told")
    script = f"trap '{note('bye')}; exit 0' TERM; while true; do sleep 0.1; done"
    name = node.write(
        pod(
            "told",
            sh(script, **notes.mounts),
            volumes=notes.volumes,
            terminationGracePeriodSeconds=600,
        )
    )
    node.await_ready(name)
    node.remove("told")
    node.await_gone(name)
    assert notes.lines() == ["bye"]


def test_a_container_that_does_not_want_to_end(node):
    """It hears of it, has its grace, and is killed then."""
    notes = Notes(node, "stubborn")
    script = f"trap '{note('term')}' TERM; while true; do sleep 0.1; {note('alive')}; done"
    name = node.write(
        pod(
            "stubborn",
            sh(script, **notes.mounts),
            volumes=notes.volumes,
            terminationGracePeriodSeconds=3,
        )
    )
    node.await_ready(name)
    pid = node.pid_of(name)
    node.remove("stubborn")
    node.await_gone(name)
    assert not alive(pid)
    lines = notes.lines()
    assert lines.count("term") == 1
    assert lines[-1] == "alive"  # it lived on after it was told


@pytest.mark.parametrize("grace", [0, 1])
def test_hardly_any_grace(node, grace):
    """What does not want to end is killed soon, whatever it does."""
    name = node.write(pod("short", sh(STUBBORN), terminationGracePeriodSeconds=grace))
    node.await_ready(name)
    pid = node.pid_of(name)
    node.remove("short")
    node.await_gone(name)
    assert not alive(pid)


def test_a_shorter_grace_while_it_ends(node):
    """Asked again with less, a pod that is ending ends sooner (P-30, P-37)."""
    name = node.apply(pod("hurry", sh(STUBBORN), terminationGracePeriodSeconds=600))
    node.await_ready(name)
    node.delete(name)
    node.await_event(name, "Killing")
    node.delete(name, "--grace-period=1")
    node.await_gone(name)


@pytest.mark.both_versions
def test_nothing_of_a_removed_pod_stays(node):
    """Containers, sandbox, cgroup, directories, logs: all of it goes."""
    name = node.write(pod("trace", volumes=[{"name": "v", "emptyDir": {}}]))
    node.await_ready(name)
    uid = node.uid(name)
    assert cgroups(uid)
    node.remove("trace")
    node.await_gone(name)
    wait_for("the runtime has nothing", lambda: uid not in node.cache.uids(), SECONDS, PAUSE)
    assert cgroups(uid) == []
    assert not (node.root_dir / "pods" / uid).exists()
    assert not list(node.logs.iterdir())


def cgroups(uid):
    """The cgroups of a pod, in whichever hierarchy."""
    return [path for path, _, _ in os.walk("/sys/fs/cgroup") if uid in path]


@pytest.mark.both_versions
def test_a_pod_that_nobody_wants(node):
    """A pod of a kubelet that is in no source is ended and removed (P-35)."""
    node.stop()  # or it would be ended while it is made
    parent = node.containerd.cgroup_parent
    made = with_client(node.containerd, lambda c: pods.make_pod(c, "lost", cgroup_parent=parent))
    pid = with_client(node.containerd, lambda c: pods.pid_of(c, made.container_id))
    node.start()

    async def sandboxes(client):
        return [s.metadata.uid for s in await client.list_pod_sandbox()]

    wait_for("it is ended", lambda: not alive(pid), SECONDS, PAUSE)
    wait_for(
        "it is gone", lambda: made.uid not in with_client(node.containerd, sandboxes), SECONDS, 0.2
    )
    wait_for("its row is gone", lambda: not node.pods(), SECONDS, PAUSE)


# The kubelet's own restarts.


@pytest.mark.both_versions
def test_a_kubelet_that_is_restarted(node):
    """Pods run on: the same containers, no restart, ready all the time; what ended stays so."""
    name = node.write(pod("stays"))
    done = node.write(pod("ended", sh("exit 0"), restartPolicy="Never"))
    local = node.apply(pod("applied"))
    status = node.await_ready(name)
    node.await_ready(local)
    applied = node.pid_of(local)
    node.await_phase(done, "Succeeded")
    pid, id_ = node.pid_of(name), container_of(status)["containerID"]
    ended = container_of(node.status(done))["containerID"]
    node.stop()
    assert alive(pid)
    node.start()
    seen = node.await_status(name, "its status", lambda s: "containerStatuses" in s)
    assert is_ready(seen), seen
    node.await_settled()
    status = node.status(name)
    assert is_ready(status)
    container = container_of(status)
    assert (container["containerID"], container["restartCount"]) == (id_, 0)
    assert node.pid_of(name) == pid
    assert len(node.record(name).containers) == 1
    assert node.pid_of(local) == applied
    assert is_ready(node.status(local))
    after = node.await_phase(done, "Succeeded")
    assert container_of(after)["containerID"] == ended
    assert len(node.record(done).containers) == 1


def test_a_container_that_ends_while_the_kubelet_is_away(node):
    """The kubelet finds it ended, and starts another one."""
    name = node.write(pod("away"))
    node.await_ready(name)
    pid = node.pid_of(name)
    node.stop()
    os.kill(pid, signal.SIGKILL)
    wait_for("it is dead", lambda: not alive(pid))
    node.start()
    status = node.await_status(name, "it runs again", lambda s: restarts(s) == 1 and running()(s))
    assert container_of(status)["lastState"]["terminated"]["exitCode"] == 137
