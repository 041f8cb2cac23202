"""The life of pods on real containerds: restarts, back-off, ends, and what happens to them."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from kubelet.cri.client import RuntimeClient
from kubelet.cri.info import init_pid
from kubelet.pods.runtime import ContainerState, SandboxState
from tests.node import images, pods
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
from tests.node.pod_node import PAUSE, SECONDS, is_ready, sh, sleeper
from tests.processes.node import alive, wait_for

__all__ = ["each_node", "node24", "nodes"]

STUBBORN = "trap '' TERM; while true; do sleep 0.1; done"


def with_client(node, work):
    """Do something with a client of a node's runtime."""

    async def main():
        async with await RuntimeClient.connect(node.containerd.endpoint) as client:
            return await work(client)

    return asyncio.run(main())


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
    before = each_node.record(name)
    old = before.sandboxes[0].id

    async def pid_of_sandbox(client):
        return init_pid(await client.pod_sandbox_status(old, verbose=True))

    os.kill(with_client(each_node, pid_of_sandbox), signal.SIGKILL)
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
    each_node.await_settled()
    parent = each_node.containerd.cgroup_parent
    made = with_client(each_node, lambda c: pods.make_pod(c, "lost", cgroup_parent=parent))
    pid = with_client(each_node, lambda c: pods.pid_of(c, made.container_id))

    async def sandboxes(client):
        return [s.metadata.uid for s in await client.list_pod_sandbox()]

    wait_for("it is gone", lambda: made.uid not in with_client(each_node, sandboxes), SECONDS, 0.2)
    assert not alive(pid)
    wait_for("its row is gone", lambda: not each_node.pods(), SECONDS, PAUSE)


# The kubelet's own restarts.


def test_a_kubelet_that_is_restarted(each_node):
    """Pods run on: the same containers, no restart, ready all the time; what ended stays so."""
    name = each_node.write(pod("stays"))
    done = each_node.write(pod("ended", sh("exit 0"), restartPolicy="Never"))
    status = each_node.await_ready(name)
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
