"""Sandboxes and containers of the simulator, through its socket."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request

import grpc
import pytest

from kubelet.cri import api_pb2 as pb


def until(stream, kind: int, thing: str) -> pb.ContainerEventResponse:
    """The next event of a kind about a container or sandbox."""
    for event in stream:
        if event.container_event_type == kind and event.container_id == thing:
            return event
    raise AssertionError("the stream ended")


def refused(call, *arguments) -> grpc.RpcError:
    """The error of a call that fails."""
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments)
    return caught.value


def test_a_pod_goes_through_its_life(cri):
    """Ready, created, running, exited by SIGTERM, not ready, gone."""
    pod = cri.run_pod()
    container = cri.create(pod, "top")
    assert cri.status(container).state == pb.CONTAINER_CREATED
    cri.start(container)
    status = cri.status(container)
    assert status.state == pb.CONTAINER_RUNNING
    assert 0 < status.created_at <= status.started_at
    cri.stop(container)
    status = cri.status(container)
    assert (status.state, status.exit_code, status.reason) == (pb.CONTAINER_EXITED, 143, "Error")
    assert status.finished_at >= status.started_at
    cri.runtime.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=pod))
    assert cri.sandboxes()[0].state == pb.SANDBOX_NOTREADY
    cri.runtime.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=pod))
    assert cri.sandboxes() == cri.containers() == []


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        (("sh", "-c", "sleep 0.05; exit 3"), 3, "Error"),
        (("true",), 0, "Completed"),
        (("oom",), 137, "OOMKilled"),
        (("crash", "0.05"), 1, "Error"),
    ],
)
def test_programs_end_as_they_say(cri, command, code, reason):
    """A program's code and reason are the container's."""
    events = cri.events()
    container = cri.run(cri.run_pod(), *command)
    event = until(events, pb.CONTAINER_STOPPED_EVENT, container)
    status = cri.status(container)
    assert (status.state, status.exit_code, status.reason) == (pb.CONTAINER_EXITED, code, reason)
    assert event.containers_statuses[0] == status
    assert event.pod_sandbox_status.metadata.name == "pod"


def test_a_program_that_ignores_sigterm_is_killed_when_its_time_is_up(cri):
    """StopContainer takes the whole grace period, and the code is that of SIGKILL."""
    container = cri.run(cri.run_pod(), "sh", "-c", "trap '' TERM; sleep 1000")
    cri.stop(container, timeout=1)
    status = cri.status(container)
    assert status.exit_code == 137
    assert status.finished_at - status.started_at >= 1_000_000_000


def test_start_and_create_can_fail(cri):
    """A container that cannot start is Exited with 128 and says why, as with containerd."""
    pod = cri.run_pod()
    container = cri.create(pod, annotations={"sim/program": "fail-start no such file"})
    error = refused(cri.start, container)
    assert "no such file" in error.details()
    status = cri.status(container)
    assert (status.exit_code, status.reason, status.message) == (128, "StartError", "no such file")
    assert "broken" in refused(lambda: cri.create(pod, "fail-create", "broken", name="d")).details()


def test_refusals_are_those_of_a_runtime(cri):
    """What is not there, what is taken and what is in the wrong state is refused in words."""
    pod = cri.run_pod()
    assert "is reserved for" in refused(cri.run_pod).details()
    container = cri.create(pod, "top")
    assert refused(cri.exec_sync, container, "true").code() == grpc.StatusCode.UNKNOWN
    cri.start(container)
    assert "CONTAINER_RUNNING" in refused(cri.start, container).details()
    assert refused(cri.status, "nobody").code() == grpc.StatusCode.NOT_FOUND
    cri.stop("nobody")  # no error: it does not run
    handler = pb.RunPodSandboxRequest(runtime_handler="kata")
    assert "no runtime for" in refused(cri.runtime.RunPodSandbox, handler).details()


def test_lists_are_filtered(cri):
    """By ID or its beginning, sandbox, state and labels."""
    one, two = cri.run_pod("one"), cri.run_pod("two")
    running = cri.run(one, "top", name="a")
    created = cri.create(two, "top", name="b")
    assert {c.id for c in cri.containers()} == {running, created}
    assert [c.id for c in cri.containers(pod_sandbox_id=two)] == [created]
    state = pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)
    assert [c.id for c in cri.containers(state=state)] == [running]
    assert [c.id for c in cri.containers(id=created[:10])] == [created]
    wanted = {"io.kubernetes.container.name": "a"}
    assert [c.id for c in cri.containers(label_selector=wanted)] == [running]
    streamed = cri.runtime.StreamContainers(pb.StreamContainersRequest())
    assert {c.id for part in streamed for c in part.containers} == {running, created}


def test_logs_are_in_the_cri_format(cri, tmp_path):
    """Each line has its time, its stream and F; after a rotation a new file is written."""
    pod = cri.run_pod(log_directory=str(tmp_path))
    events = cri.events()
    container = cri.run(pod, "sh", "-c", "echo out; echo err >&2", log_path="c/0.log")
    until(events, pb.CONTAINER_STOPPED_EVENT, container)
    assert cri.status(container).log_path == str(tmp_path / "c/0.log")
    lines = (tmp_path / "c/0.log").read_text().splitlines()
    assert [re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ", "", line) for line in lines] == [
        "stdout F out",
        "stderr F err",
    ]
    flood = cri.run(pod, "flood", "2000", name="f", log_path="f/0.log")
    (tmp_path / "f/0.log").rename(tmp_path / "f/0.log.1")
    cri.runtime.ReopenContainerLog(pb.ReopenContainerLogRequest(container_id=flood))
    assert (tmp_path / "f/0.log").exists()


def test_exec_sees_the_container(cri, tmp_path):
    """Environment, hostname, files of the program, mounts of the host, codes and a time-out."""
    (tmp_path / "key").write_text("secret")
    mount = pb.Mount(container_path="/etc/secret", host_path=str(tmp_path), readonly=True)
    pod = cri.run_pod(hostname="web-0", dns_config=pb.DNSConfig(servers=["10.0.0.10"]))
    program = "touch /tmp/healthy; run"
    env = [pb.KeyValue(key="A", value=b"b")]
    container = cri.run(pod, "sh", "-c", program, mounts=[mount], envs=env)
    assert cri.exec_sync(container, "sh", "-c", "echo -n $A").stdout == b"b"
    assert cri.exec_sync(container, "hostname").stdout == b"web-0\n"
    assert cri.exec_sync(container, "cat", "/tmp/healthy").exit_code == 0
    assert cri.exec_sync(container, "cat", "/etc/secret/key").stdout == b"secret"
    assert cri.exec_sync(container, "cat", "/etc/resolv.conf").stdout == b"nameserver 10.0.0.10\n"
    assert cri.exec_sync(container, "sh", "-c", "exit 9").exit_code == 9
    missing = cri.exec_sync(container, "cat", "/nothing")
    assert missing.exit_code == 1
    assert b"No such file" in missing.stderr
    late = refused(lambda: cri.exec_sync(container, "sleep", "60", timeout=1))
    assert late.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def test_pods_can_be_reached(cri):
    """A program that listens answers HTTP on the address of its pod."""
    pod = cri.run_pod()
    cri.run(pod, "sh", "-c", "listen 18080; run")
    request = pb.PodSandboxStatusRequest(pod_sandbox_id=pod)
    address = cri.runtime.PodSandboxStatus(request).status.network.ip
    with urllib.request.urlopen(f"http://{address}:18080/", timeout=5) as page:
        assert page.status == 200


def test_statistics_grow(cri, sim):
    """A running container uses CPU and memory; images use the image file system."""
    container = cri.run(cri.run_pod(), "top")
    request = pb.ContainerStatsRequest(container_id=container)
    first = cri.runtime.ContainerStats(request).stats
    second = cri.runtime.ContainerStats(request).stats
    used = [s.cpu.usage_core_nano_seconds.value for s in (first, second)]
    assert 0 < used[0] < used[1]
    assert first.memory.working_set_bytes.value > 0
    assert first.attributes.metadata.name == "c"
    pods = cri.runtime.ListPodSandboxStats(pb.ListPodSandboxStatsRequest()).stats
    assert [c.attributes.id for c in pods[0].linux.containers] == [container]
    before = cri.images.ImageFsInfo(pb.ImageFsInfoRequest()).image_filesystems[0]
    sim.control.image("big", size=123 << 30)
    cri.pull("registry/big:1")
    after = cri.images.ImageFsInfo(pb.ImageFsInfoRequest()).image_filesystems[0]
    assert after.used_bytes.value - before.used_bytes.value == 123 << 30


def test_pulls_take_time_and_fail_as_told(cri, sim):
    """A private image needs credentials; a missing one is not found; a slow one is slow."""
    assert "401" in refused(cri.pull, "sim/private:1").details()
    spec = pb.ImageSpec(image="sim/private:1")
    given = pb.PullImageRequest(image=spec, auth=pb.AuthConfig(username="u", password="p"))
    assert cri.images.PullImage(given).image_ref.startswith("sha256:")
    assert refused(cri.pull, "sim/pull-error:1").code() == grpc.StatusCode.NOT_FOUND
    sim.control.image("slow", pull_seconds=60)
    with pytest.raises(grpc.RpcError) as caught:
        cri.images.PullImage(pb.PullImageRequest(image=pb.ImageSpec(image="slow")), timeout=0.2)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_made_up_pid_is_nobodys(cri):
    """Without real processes the number in the verbose status is one that no process can have."""
    container = cri.run(cri.run_pod(), "top")
    pid = json.loads(cri.info(container).info["info"])["pid"]
    with pytest.raises(OSError):
        os.kill(pid, 0)


def test_a_real_process_stands_for_a_container(make_sim, connect):
    """Killing it from outside ends the container with 137; ending the container ends it."""
    sim = make_sim("--real-pids")
    cri = connect(sim)
    events = cri.events()
    pod = cri.run_pod()
    one, two = cri.run(pod, "top", name="one"), cri.run(pod, "top", name="two")
    pids = [json.loads(cri.info(c).info["info"])["pid"] for c in (one, two)]
    pidfds = [os.pidfd_open(pid) for pid in pids]
    try:
        signal.pidfd_send_signal(pidfds[0], signal.SIGKILL)
        until(events, pb.CONTAINER_STOPPED_EVENT, one)
        assert cri.status(one).exit_code == 137
        cri.stop(two)
        with pytest.raises(ProcessLookupError):
            signal.pidfd_send_signal(pidfds[1], 0)
    finally:
        for pidfd in pidfds:
            os.close(pidfd)
