"""The life of pods on real containerds: restarts, back-off, ends, and what happens to them."""

from __future__ import annotations

import os
import signal

import pytest

from kubelet.pods.runtime import ContainerState, SandboxState
from tests.node import images
from tests.node.module_nodes import (
    Notes,
    condition,
    container_of,
    each_node,
    node24,
    nodes,
    note,
    pod,
    running,
    state_of,
)
from tests.node.pod_node import is_ready, sh, sleeper
from tests.processes.node import alive, wait_for

__all__ = ["each_node", "node24", "nodes"]


# How pods end, and how containers begin again.


@pytest.mark.parametrize(
    ("policy", "code", "phase", "reason"),
    [
        ("Never", 0, "Succeeded", "Completed"),
        ("Never", 3, "Failed", "Error"),
        ("OnFailure", 0, "Succeeded", "Completed"),
    ],
)
def test_a_pod_whose_work_is_done(node24, policy, code, phase, reason):
    """Phase and exit code stand there, the sandbox is stopped, logs and containers stay (P-113)."""
    name = node24.write(pod("done", sh(f"echo did it; exit {code}"), restartPolicy=policy))
    status = node24.await_phase(name, phase)
    container = container_of(status)
    assert container["state"]["terminated"]["exitCode"] == code
    assert container["state"]["terminated"]["reason"] == reason
    assert (container["restartCount"], container["ready"]) == (0, False)
    wanted = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    assert condition(status, "Ready") == ("False", wanted)
    assert condition(status, "ContainersReady") == ("False", wanted)
    record = node24.record(name)
    assert [s.state for s in record.sandboxes] == [SandboxState.NOT_READY]
    assert [c.state for c in record.containers] == [ContainerState.EXITED]
    assert node24.output(name) == "did it\n"
    assert node24.reasons(name) == ["Pulled", "Created", "Started"]
    logs = node24.logs / f"default_{name}_{node24.uid(name)}"
    node24.remove("done")
    node24.await_gone(name)
    assert not logs.exists()


@pytest.mark.parametrize(("policy", "code"), [("Always", 0), ("Always", 3), ("OnFailure", 3)])
def test_a_container_that_is_started_again(node24, policy, code):
    """The pod stays Running, the restart is counted, and the last end is told (P-80, P-113)."""
    once = f"[ -e /notes/once ] || {{ touch /notes/once; exit {code}; }}; {sleeper()['command'][2]}"
    notes = Notes(node24, f"again-{policy}-{code}")
    name = node24.write(
        pod("again", sh(once, **notes.mounts), restartPolicy=policy, volumes=notes.volumes)
    )
    status = node24.await_status(name, "it is back", lambda s: restarts(s) == 1 and is_ready(s))
    container = container_of(status)
    assert status["phase"] == "Running"
    assert container["lastState"]["terminated"]["exitCode"] == code
    first, second = sorted(node24.record(name).containers, key=lambda c: c.attempt)
    assert container["lastState"]["terminated"]["containerID"] == f"containerd://{first.id}"
    assert container["containerID"] == f"containerd://{second.id}"
    assert "BackOff" not in node24.reasons(name)  # the first restart is at once (P-90)


def test_a_crash_loop(each_node):
    """The second restart waits: reason, message and event as everybody knows them (P-92)."""
    name = each_node.write(pod("crash", sh("echo again; exit 7")))
    uid = each_node.uid(name)
    status = each_node.await_status(
        name, "it is in back-off", lambda s: "waiting" in state_of(s) and restarts(s) >= 1
    )
    container = container_of(status)
    waiting = container["state"]["waiting"]
    text = f"back-off 1s restarting failed container=c pod={name}_default({uid})"
    assert waiting == {"reason": "CrashLoopBackOff", "message": text}
    assert container["lastState"]["terminated"]["exitCode"] == 7
    assert status["phase"] == "Running"
    event = each_node.await_event(name, "BackOff")
    assert (event["type"], event["message"]) == ("Warning", text)
    each_node.await_status(name, "it goes on", lambda s: restarts(s) >= 3)
    assert each_node.output(name, attempt=3 - 1) == "again\n"
    kept = [c for c in each_node.record(name).containers if c.state is ContainerState.EXITED]
    assert len(kept) <= 3  # old ones are taken away meanwhile


def restarts(status):
    """How often a container was started again."""
    return container_of(status).get("restartCount", 0)


def test_a_container_killed_from_outside_comes_back(each_node):
    """Whoever killed it: its end is told, and another one runs in the same sandbox."""
    name = each_node.write(pod("killed"))
    each_node.await_ready(name)
    before = each_node.record(name)
    os.kill(each_node.pid_of(name), signal.SIGKILL)
    status = each_node.await_status(
        name, "it runs again", lambda s: running()(s) and restarts(s) == 1 and is_ready(s)
    )
    ended = container_of(status)["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")
    assert each_node.record(name).sandboxes[0].id == before.sandboxes[0].id
    assert "SandboxChanged" not in each_node.reasons(name)


def test_a_command_that_is_not_there(each_node):
    """RunContainerError, StartError and the runtime's own words say what is wrong (P-103)."""
    container = {"name": "c", "image": images.BUSYBOX, "command": ["/no/such/program"]}
    name = each_node.write(pod("nothing", container))
    event = each_node.await_event(name, "Failed")
    assert event["message"].startswith("Error: failed to create containerd task")
    assert "/no/such/program" in event["message"]
    assert "no such file or directory" in event["message"]
    status = each_node.await_status(
        name, "its end is told", lambda s: "terminated" in container_of(s).get("lastState", {})
    )
    ended = container_of(status)["lastState"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    assert "/no/such/program" in ended["message"]
    each_node.await_status(
        name,
        "the reason is told",
        lambda s: state_of(s).get("waiting", {}).get("reason") == "RunContainerError",
    )
    each_node.await_status(
        name,
        "it is in back-off",
        lambda s: state_of(s).get("waiting", {}).get("reason") == "CrashLoopBackOff",
    )


def test_a_command_that_is_not_there_and_never_restarts(node24):
    """Such a pod is Failed, with the runtime's reason."""
    container = {"name": "c", "image": images.BUSYBOX, "command": ["/no/such/program"]}
    name = node24.write(pod("nothing", container, restartPolicy="Never"))
    status = node24.await_phase(name, "Failed")
    assert state_of(status)["terminated"]["reason"] == "StartError"


def test_a_deadline(node24):
    """A pod that is active for too long is ended and Failed, and says why (P-117)."""
    name = node24.write(pod("late", activeDeadlineSeconds=2))
    pid = node24.pid_of(name)
    status = node24.await_phase(name, "Failed")
    assert status["reason"] == "DeadlineExceeded"
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert "terminated" in state_of(status)
    assert not alive(pid)
    assert {"DeadlineExceeded", "Killing"} <= set(node24.reasons(name))


# Several containers, and the pod's sandbox.


def test_containers_of_one_pod_live_for_themselves(node24):
    """One that ends and comes back leaves the others alone; they share their network."""
    name = node24.write(pod("both", sleeper("a"), sleeper("b")))
    node24.await_ready(name)
    a, b = node24.pid_of(name, "a"), node24.pid_of(name, "b")
    assert os.readlink(f"/proc/{a}/ns/net") == os.readlink(f"/proc/{b}/ns/net")
    os.kill(a, signal.SIGKILL)
    status = node24.await_status(
        name, "a is back", lambda s: container_of(s, "a").get("restartCount") == 1 and is_ready(s)
    )
    assert container_of(status, "b")["restartCount"] == 0
    assert node24.pid_of(name, "b") == b
    assert alive(b)


def test_a_pod_with_one_container_that_ended(node24):
    """It runs until the last one ends; one that failed makes it Failed (P-112, P-113)."""
    notes = Notes(node24, "mixed")
    waits = sh("until [ -e /notes/go ]; do sleep 0.1; done", "waits", **notes.mounts)
    name = node24.write(
        pod("mixed", sh("exit 1", "bad"), waits, restartPolicy="Never", volumes=notes.volumes)
    )
    status = node24.await_status(name, "one ended", lambda s: "terminated" in state_of(s, "bad"))
    status = node24.await_status(name, "one runs", running("waits"))
    assert status["phase"] == "Running"
    assert condition(status, "Ready") == ("False", "ContainersNotReady")
    (notes.directory / "go").touch()
    status = node24.await_phase(name, "Failed")
    assert state_of(status, "waits")["terminated"]["exitCode"] == 0


def test_a_pod_in_the_network_of_the_node(node24):
    """It has the node's network and addresses, and no other."""
    name = node24.write(pod("host", hostNetwork=True))
    status = node24.await_ready(name)
    assert status["podIP"] == status["hostIP"]
    assert status["podIPs"][0] == status["hostIPs"][0]
    pid = node24.pid_of(name)
    assert os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")


def test_a_sandbox_that_dies(each_node):
    """Another one is made, and all containers start anew in it (P-70)."""
    name = each_node.write(pod("box"))
    each_node.await_ready(name)
    old = each_node.record(name).sandboxes[0].id
    os.kill(each_node.sandbox_pid(name), signal.SIGKILL)
    event = each_node.await_event(name, "SandboxChanged")
    assert event["message"] == "Pod sandbox changed, it will be killed and re-created."
    each_node.await_status(
        name, "it runs again", lambda s: restarts(s) == 1 and running()(s) and is_ready(s)
    )
    record = each_node.record(name)
    assert record.sandboxes[0].id != old
    assert record.sandboxes[0].attempt == 1
    newest = next(c for c in record.containers if c.state is ContainerState.RUNNING)
    assert newest.sandbox_id == record.sandboxes[0].id
    assert [s.state for s in record.sandboxes].count(SandboxState.READY) == 1


def test_a_sandbox_that_dies_in_a_pod_that_never_restarts(node24):
    """Such a pod ran once, and has failed (P-71)."""
    script = "trap 'exit 5' TERM; while true; do sleep 0.1; done"
    name = node24.write(pod("brief", sh(script), restartPolicy="Never"))
    node24.await_ready(name)
    os.kill(node24.sandbox_pid(name), signal.SIGKILL)
    status = node24.await_phase(name, "Failed")
    assert restarts(status) == 0
    assert len(node24.record(name).sandboxes) == 1
    assert "SandboxChanged" not in node24.reasons(name)


def test_a_container_that_is_done_stays_so(node24):
    """With OnFailure, what ended well is not started again beside what is (P-80)."""
    notes = Notes(node24, "part")
    done = sh(note("done"), "done", **notes.mounts)
    name = node24.write(
        pod("part", done, sleeper(), restartPolicy="OnFailure", volumes=notes.volumes)
    )
    node24.await_status(name, "one is done", lambda s: "terminated" in state_of(s, "done"))
    node24.await_status(name, "one runs", running())
    os.kill(node24.pid_of(name), signal.SIGKILL)
    status = node24.await_status(name, "it is back", lambda s: restarts(s) == 1 and running()(s))
    assert notes.lines() == ["done"]
    assert state_of(status, "done")["terminated"]["reason"] == "Completed"
    assert status["phase"] == "Running"


def test_another_image(node24):
    """A pod with another image gets a new container in the same sandbox (P-78)."""
    second = "kubelet.test/busybox:2"
    node24.containerd.load(images.busybox(Labels={"version": "2"}), second)
    name = node24.apply(pod("image"))
    node24.await_ready(name)
    before = node24.record(name)
    node24.apply(pod("image", sleeper(image=second)))
    status = node24.await_status(
        name, "the new one runs", lambda s: restarts(s) == 1 and running()(s) and is_ready(s)
    )
    assert container_of(status)["image"] == second
    assert node24.record(name).sandboxes[0].id == before.sandboxes[0].id
    killing = next(e for e in node24.events(name) if e["reason"] == "Killing")
    assert killing["message"] == "Container c definition changed, will be restarted"


def test_other_labels_restart_nothing(node24):
    """A change that the containers have no part in leaves them alone (P-78)."""
    name = node24.apply(pod("labels", meta={"labels": {"a": "1"}}))
    node24.await_ready(name)
    pid = node24.pid_of(name)
    node24.apply(pod("labels", meta={"labels": {"a": "2"}}))
    wait_for("it is known", lambda: node24.pods()[name].pod.metadata.labels == {"a": "2"})
    assert node24.pid_of(name) == pid
    assert restarts(node24.status(name)) == 0
