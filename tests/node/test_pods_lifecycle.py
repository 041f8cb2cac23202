"""The life of pods on real containerds: restarts, back-off, ends, and what happens to them."""

from __future__ import annotations

import os
import signal

import pytest

from kubelet.pods.runtime import ContainerState, SandboxState
from tests.node import images
from tests.node.pod_node import is_ready, sh, sleeper
from tests.node.shared import (
    Notes,
    condition,
    container_of,
    note,
    pod,
    restarts,
    running,
    state_of,
)
from tests.processes.node import alive, wait_for

# How pods end, and how containers begin again.


@pytest.mark.parametrize(
    ("policy", "code", "phase", "reason"),
    [
        ("Never", 0, "Succeeded", "Completed"),
        ("Never", 3, "Failed", "Error"),
        ("OnFailure", 0, "Succeeded", "Completed"),
    ],
)
def test_a_pod_whose_work_is_done(node, policy, code, phase, reason):
    """Phase and exit code stand there, the sandbox is stopped, logs and containers stay (P-113)."""
    name = node.write(pod("done", sh(f"echo did it; exit {code}"), restartPolicy=policy))
    status = node.await_phase(name, phase)
    container = container_of(status)
    assert container["state"]["terminated"]["exitCode"] == code
    assert container["state"]["terminated"]["reason"] == reason
    assert (container["restartCount"], container["ready"]) == (0, False)
    wanted = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    assert condition(status, "Ready") == ("False", wanted)
    assert condition(status, "ContainersReady") == ("False", wanted)
    record = node.record(name)
    assert [s.state for s in record.sandboxes] == [SandboxState.NOT_READY]
    assert [c.state for c in record.containers] == [ContainerState.EXITED]
    assert node.output(name) == "did it\n"
    assert node.reasons(name) == ["Pulled", "Created", "Started"]
    logs = node.logs / f"default_{name}_{node.uid(name)}"
    node.remove("done")
    node.await_gone(name)
    assert not logs.exists()


@pytest.mark.parametrize(("policy", "code"), [("Always", 0), ("Always", 3), ("OnFailure", 3)])
def test_a_container_that_is_started_again(node, policy, code):
    """The pod stays Running, the restart is counted, and the last end is told (P-80, P-113)."""
    once = f"[ -e /notes/once ] || {{ touch /notes/once; exit {code}; }}; {sleeper()['command'][2]}"
    notes = Notes(node, f"again-{policy}-{code}")
    name = node.write(
        pod("again", sh(once, **notes.mounts), restartPolicy=policy, volumes=notes.volumes)
    )
    status = node.await_status(name, "it is back", lambda s: restarts(s) == 1 and is_ready(s))
    container = container_of(status)
    assert status["phase"] == "Running"
    assert container["lastState"]["terminated"]["exitCode"] == code
    first, second = sorted(node.record(name).containers, key=lambda c: c.attempt)
    assert container["lastState"]["terminated"]["containerID"] == f"containerd://{first.id}"
    assert container["containerID"] == f"containerd://{second.id}"
    assert "BackOff" not in node.reasons(name)  # the first restart is at once (P-90)


@pytest.mark.both_versions
def test_a_crash_loop(node):
    """The second restart waits: reason, message and event as everybody knows them (P-92)."""
    name = node.write(pod("crash", sh("echo again; exit 7")))
    uid = node.uid(name)
    reason = "CrashLoopBackOff"
    status = node.await_status(
        name,
        "it is in back-off",
        lambda s: state_of(s).get("waiting", {}).get("reason") == reason and restarts(s) >= 1,
    )
    container = container_of(status)
    waiting = container["state"]["waiting"]
    text = f"back-off 1s restarting failed container=c pod={name}_default({uid})"
    assert waiting["message"] == text
    assert container["lastState"]["terminated"]["exitCode"] == 7
    assert status["phase"] == "Running"
    event = node.await_event(name, "BackOff")
    said = f"Back-off restarting failed container c in pod {name}_default({uid})"
    assert (event["type"], event["message"]) == ("Warning", said)
    status = node.await_status(name, "it goes on", lambda s: restarts(s) >= 3)
    logs = {node.output(name, attempt=number) for number in range(restarts(status) + 1)}
    assert "again\n" in logs  # those of instances that were taken away are gone with them
    kept = [c for c in node.record(name).containers if c.state is ContainerState.EXITED]
    assert len(kept) <= 3  # old ones are taken away meanwhile


@pytest.mark.both_versions
def test_a_container_killed_from_outside_comes_back(node):
    """Whoever killed it: its end is told, and another one runs in the same sandbox."""
    name = node.write(pod("killed"))
    node.await_ready(name)
    before = node.record(name)
    os.kill(node.pid_of(name), signal.SIGKILL)
    status = node.await_status(
        name, "it runs again", lambda s: running()(s) and restarts(s) == 1 and is_ready(s)
    )
    ended = container_of(status)["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")
    assert node.record(name).sandboxes[0].id == before.sandboxes[0].id
    assert "SandboxChanged" not in node.reasons(name)


@pytest.mark.both_versions
def test_a_command_that_is_not_there(node):
    """RunContainerError, StartError and the runtime's own words say what is wrong (P-103)."""
    container = {"name": "c", "image": images.BUSYBOX, "command": ["/no/such/program"]}
    name = node.write(pod("nothing", container))
    event = node.await_event(name, "Failed")
    assert event["message"].startswith("Error: failed to create containerd task")
    assert "/no/such/program" in event["message"]
    assert "no such file or directory" in event["message"]
    status = node.await_status(
        name, "its end is told", lambda s: "terminated" in container_of(s).get("lastState", {})
    )
    ended = container_of(status)["lastState"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    assert "/no/such/program" in ended["message"]
    node.await_status(
        name,
        "the reason is told",
        lambda s: state_of(s).get("waiting", {}).get("reason") == "RunContainerError",
    )
    node.await_status(
        name,
        "it is in back-off",
        lambda s: state_of(s).get("waiting", {}).get("reason") == "CrashLoopBackOff",
    )


def test_a_command_that_is_not_there_and_never_restarts(node):
    """Such a pod is Failed, with the runtime's reason."""
    container = {"name": "c", "image": images.BUSYBOX, "command": ["/no/such/program"]}
    name = node.write(pod("nothing", container, restartPolicy="Never"))
    status = node.await_phase(name, "Failed")
    assert state_of(status)["terminated"]["reason"] == "StartError"


def test_a_deadline(node):
    """A pod that is active for too long is ended and Failed, and says why (P-117)."""
    name = node.write(pod("late", activeDeadlineSeconds=2))
    pid = node.pid_of(name)
    status = node.await_phase(name, "Failed")
    assert status["reason"] == "DeadlineExceeded"
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert "terminated" in state_of(status)
    assert not alive(pid)
    assert {"DeadlineExceeded", "Killing"} <= set(node.reasons(name))


# Several containers, and the pod's sandbox.


def test_containers_of_one_pod_live_for_themselves(node):
    """One that ends and comes back leaves the others alone; they share their network."""
    name = node.write(pod("both", sleeper("a"), sleeper("b")))
    node.await_ready(name)
    a, b = node.pid_of(name, "a"), node.pid_of(name, "b")
    assert os.readlink(f"/proc/{a}/ns/net") == os.readlink(f"/proc/{b}/ns/net")
    os.kill(a, signal.SIGKILL)
    status = node.await_status(
        name, "a is back", lambda s: container_of(s, "a").get("restartCount") == 1 and is_ready(s)
    )
    assert container_of(status, "b")["restartCount"] == 0
    assert node.pid_of(name, "b") == b
    assert alive(b)


def test_a_pod_with_one_container_that_ended(node):
    """It runs until the last one ends; one that failed makes it Failed (P-112, P-113)."""
    notes = Notes(node, "mixed")
    waits = sh("until [ -e /notes/go ]; do sleep 0.1; done", "waits", **notes.mounts)
    name = node.write(
        pod("mixed", sh("exit 1", "bad"), waits, restartPolicy="Never", volumes=notes.volumes)
    )
    status = node.await_status(name, "one ended", lambda s: "terminated" in state_of(s, "bad"))
    status = node.await_status(name, "one runs", running("waits"))
    assert status["phase"] == "Running"
    assert condition(status, "Ready") == ("False", "ContainersNotReady")
    (notes.directory / "go").touch()
    status = node.await_phase(name, "Failed")
    assert state_of(status, "waits")["terminated"]["exitCode"] == 0


def test_a_pod_in_the_network_of_the_node(node):
    """It has the node's network and addresses, and no other."""
    name = node.write(pod("host", hostNetwork=True))
    status = node.await_ready(name)
    assert status["podIP"] == status["hostIP"]
    assert status["podIPs"][0] == status["hostIPs"][0]
    pid = node.pid_of(name)
    assert os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")


@pytest.mark.both_versions
def test_a_sandbox_that_dies(node):
    """Another one is made, and all containers start anew in it (P-70)."""
    name = node.write(pod("box"))
    node.await_ready(name)
    old = node.record(name).sandboxes[0].id
    os.kill(node.sandbox_pid(name), signal.SIGKILL)
    event = node.await_event(name, "SandboxChanged")
    assert event["message"] == "Pod sandbox changed, it will be killed and re-created."
    node.await_status(
        name, "it runs again", lambda s: restarts(s) == 1 and running()(s) and is_ready(s)
    )
    record = node.record(name)
    assert record.sandboxes[0].id != old
    assert record.sandboxes[0].attempt == 1
    newest = next(c for c in record.containers if c.state is ContainerState.RUNNING)
    assert newest.sandbox_id == record.sandboxes[0].id
    assert [s.state for s in record.sandboxes].count(SandboxState.READY) == 1


def test_a_sandbox_that_dies_in_a_pod_that_never_restarts(node):
    """Such a pod ran once, and has failed (P-71)."""
    script = "trap 'exit 5' TERM; while true; do sleep 0.1; done"
    name = node.write(pod("brief", sh(script), restartPolicy="Never"))
    node.await_ready(name)
    os.kill(node.sandbox_pid(name), signal.SIGKILL)
    status = node.await_phase(name, "Failed")
    assert restarts(status) == 0
    assert len(node.record(name).sandboxes) == 1
    assert "SandboxChanged" not in node.reasons(name)


def test_a_container_that_is_done_stays_so(node):
    """With OnFailure, what ended well is not started again beside what is (P-80)."""
    notes = Notes(node, "part")
    done = sh(note("done"), "done", **notes.mounts)
    name = node.write(
        pod("part", done, sleeper(), restartPolicy="OnFailure", volumes=notes.volumes)
    )
    node.await_status(name, "one is done", lambda s: "terminated" in state_of(s, "done"))
    node.await_status(name, "one runs", running())
    os.kill(node.pid_of(name), signal.SIGKILL)
    status = node.await_status(name, "it is back", lambda s: restarts(s) == 1 and running()(s))
    assert notes.lines() == ["done"]
    assert state_of(status, "done")["terminated"]["reason"] == "Completed"
    assert status["phase"] == "Running"


def test_another_image(node):
    """A pod with another image gets a new container in the same sandbox (P-78)."""
    second = "kubelet.test/busybox:2"
    node.containerd.load(images.busybox(Labels={"version": "2"}), second)
    name = node.apply(pod("image"))
    node.await_ready(name)
    before = node.record(name)
    node.apply(pod("image", sleeper(image=second)))
    status = node.await_status(
        name, "the new one runs", lambda s: restarts(s) == 1 and running()(s) and is_ready(s)
    )
    assert container_of(status)["image"] == second
    assert node.record(name).sandboxes[0].id == before.sandboxes[0].id
    killing = next(e for e in node.events(name) if e["reason"] == "Killing")
    assert killing["message"] == "Container c definition changed, will be restarted"


def test_other_labels_restart_nothing(node):
    """A change that the containers have no part in leaves them alone (P-78)."""
    name = node.apply(pod("labels", meta={"labels": {"a": "1"}}))
    node.await_ready(name)
    pid = node.pid_of(name)
    node.apply(pod("labels", meta={"labels": {"a": "2"}}))
    wait_for("it is known", lambda: node.pods()[name].pod.metadata.labels == {"a": "2"})
    assert node.pid_of(name) == pid
    assert restarts(node.status(name)) == 0
