"""The runtimes under test do what tests of a kubelet rely on, in both versions."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import ImageClient, RuntimeClient
from kubelet.cri.errors import CriError, TimedOut
from tests.node import images, pods
from tests.node.containerd import Containerd, live_instances, sweep
from tests.node.fixtures import Instances
from tests.node.registry import Registry
from tests.processes.node import free_port

# Serves one word on port 80; ends at SIGTERM.
SERVE = ("sh", "-c", "mkdir /w; echo hello >/w/index.html; exec httpd -f -p 80 -h /w")

# What each version reports of a process that died while the runtime was away: 2.x drops a task
# that it finds without processes when it loads the shim, and has no exit code to tell then; when
# the shim is quicker to report than the runtime to look, it has.
KILLED = ("Error", 128 + signal.SIGKILL)
DIED_UNSEEN = {"1.6": {KILLED}, "2.4": {KILLED, ("Unknown", 255)}}


def run(containerd: Containerd, work: Callable[[RuntimeClient], Coroutine[Any, Any, Any]]) -> Any:
    """Do something with a client of this runtime."""

    async def main() -> Any:
        async with await RuntimeClient.connect(containerd.endpoint) as client:
            return await work(client)

    return asyncio.run(main())


async def make(client: RuntimeClient, containerd: Containerd, name: str, **more: Any) -> pods.Pod:
    return await pods.make_pod(client, name, cgroup_parent=containerd.cgroup_parent, **more)


def pull(containerd: Containerd, name: str, auth: pb.AuthConfig | None = None) -> str:
    """Pull an image as a kubelet does."""

    async def main() -> str:
        async with await ImageClient.connect(containerd.endpoint) as client:
            return await client.pull_image(pb.ImageSpec(image=name), auth)

    return asyncio.run(main())


def image_ids(containerd: Containerd) -> set[str]:
    """Every image that the runtime shows."""

    async def main() -> set[str]:
        async with await ImageClient.connect(containerd.endpoint) as client:
            return {image.id for image in await client.list_images()}

    return asyncio.run(main())


def cgroups_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


def get(host: str, port: int) -> bytes:
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read()
    finally:
        connection.close()


def test_version_is_the_one_asked_for(containerd: Containerd) -> None:
    """Each instance is of the version in its name, and speaks runtime.v1."""
    answer = run(containerd, lambda client: client.version())
    assert answer.runtime_version.lstrip("v").startswith(containerd.version + ".")


def test_pod_runs_in_its_network_and_cgroup(containerd: Containerd) -> None:
    """A pod has an address in the instance's subnet, answers there, and is in its own cgroup."""

    async def work(client: RuntimeClient) -> None:
        pod = await make(client, containerd, "web", command=SERVE)
        status = (await client.pod_sandbox_status(pod.sandbox_id)).status
        assert status.network.ip.startswith(containerd.place.subnet.removesuffix("0/24"))
        assert await asyncio.to_thread(_until_answered, status.network.ip, 80) == b"hello\n"
        pid = await pods.pid_of(client, pod.container_id)
        expected = f"{containerd.cgroup_parent}/pod{pod.uid}/{pod.container_id}"
        assert expected in cgroups_of(pid)
        listed = await client.list_containers()
        assert [c.labels[pods.POD_UID] for c in listed] == [pod.uid]

    run(containerd, work)


def _until_answered(host: str, port: int) -> bytes:
    """The server in the container needs a moment after its start, of which nobody tells."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return get(host, port)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_kill_is_reported(containerd: Containerd) -> None:
    """A process killed behind the runtime's back is reported with its exit code, and soon."""

    async def work(client: RuntimeClient) -> float:
        pod = await make(client, containerd, "victim")
        at = await pods.kill_container(client, pod.container_id)
        status = await pods.wait_exited(client, pod.container_id)
        took = time.monotonic() - at
        assert status.exit_code == 128 + signal.SIGKILL
        again = await pods.add_container(client, pod, "main", attempt=1)
        assert await pods.pid_of(client, again)
        return took

    assert run(containerd, work) < 2.0


def test_sandbox_stops_at_once(containerd: Containerd) -> None:
    """Our pause program obeys SIGTERM: a pod without containers stops without the grace period."""

    async def work(client: RuntimeClient) -> float:
        pod = await make(client, containerd, "empty", containers={"main": ("true",)})
        await pods.wait_exited(client, pod.container_id)
        began = time.monotonic()
        await pods.remove_pod(client, pod)
        assert await client.list_pod_sandbox() == []
        return time.monotonic() - began

    assert run(containerd, work) < 5.0


def test_pause_without_compiler(containerd: Containerd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox image of a machine without gcc holds a pod and obeys SIGTERM as well."""
    compiled = images.pause()
    monkeypatch.setattr(images, "_compiled_pause", lambda: None)
    scripted = images.pause()
    assert isinstance(compiled, images.Image)
    assert isinstance(scripted, images.Image)
    containerd.load(scripted)

    async def work(client: RuntimeClient) -> float:
        pod = await make(client, containerd, "scripted")
        status = (await client.pod_sandbox_status(pod.sandbox_id, verbose=True)).status
        assert status.state == pb.SANDBOX_READY
        began = time.monotonic()
        await pods.remove_pod(client, pod)
        return time.monotonic() - began

    assert run(containerd, work) < 5.0
    containerd.reset()
    assert compiled.image_id in image_ids(containerd)
    assert scripted.image_id not in image_ids(containerd)


def test_host_port(containerd: Containerd) -> None:
    """A host port leads to the pod, and its rules go with the pod."""
    port = free_port()

    async def work(client: RuntimeClient) -> None:
        mapping = pb.PortMapping(protocol=pb.TCP, container_port=80, host_port=port)
        pod = await make(client, containerd, "port", command=SERVE, port_mappings=[mapping])
        address = (await client.pod_sandbox_status(pod.sandbox_id)).status.network.ip
        await asyncio.to_thread(_until_answered, address, 80)
        assert await asyncio.to_thread(get, containerd.place.gateway, port) == b"hello\n"
        assert any("iptables rule" in left for left in containerd.leftovers())
        await pods.remove_pod(client, pod)
        assert not any("iptables rule" in left for left in containerd.leftovers())

    run(containerd, work)


def test_pull_from_plain_registry(containerd: Containerd, registry: Registry) -> None:
    """An image comes from the loopback registry by plain HTTP, under its own ID."""
    image = images.build("kubelet.test/pulled:1", (images.Entry("hello", b"hi"),), Cmd=["/hello"])
    name = registry.push(image)
    assert pull(containerd, name) == image.image_id
    assert image.image_id in image_ids(containerd)
    assert f"{name} " in containerd.ctr("images", "ls")


def test_run_pulled_image(containerd: Containerd, registry: Registry) -> None:
    """A pod runs from an image that came from the registry."""
    name = f"{registry.host}/busybox:1"
    pull(containerd, name)

    async def work(client: RuntimeClient) -> None:
        pod = await make(client, containerd, "pulled", image=name)
        assert await pods.pid_of(client, pod.container_id)

    run(containerd, work)


def test_pull_from_private_registry(containerd: Containerd, private_registry: Registry) -> None:
    """The private registry serves its login alone, and the runtime says what it was told."""
    name = f"{private_registry.host}/busybox:1"
    login = private_registry.login
    assert login is not None
    with pytest.raises(CriError, match=r"(?i)authorization failed|401|no basic auth credentials"):
        pull(containerd, name)
    wrong = pb.AuthConfig(username=login.user, password="wrong")
    with pytest.raises(CriError, match="401 Unauthorized"):
        pull(containerd, name, wrong)
    right = pb.AuthConfig(username=login.user, password=login.password)
    assert pull(containerd, name, right).startswith("sha256:")


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_restart_keeps_pods(containerd: Containerd, kill: bool) -> None:
    """Containers run on while the runtime is away, and it knows them when it is back."""

    async def before(client: RuntimeClient) -> tuple[pods.Pod, int, int]:
        pod = await make(client, containerd, "kept", containers={"a": pods.SLEEP, "b": pods.SLEEP})
        a, b = pod.container_ids
        return pod, await pods.pid_of(client, a), await pods.pid_of(client, b)

    pod, a, b = run(containerd, before)
    old = containerd.pid
    (containerd.kill if kill else containerd.stop)()
    os.kill(a, 0)
    os.kill(b, signal.SIGKILL)
    containerd.start()
    assert containerd.pid != old

    async def after(client: RuntimeClient) -> None:
        assert await pods.pid_of(client, pod.containers["a"]) == a
        status = await pods.wait_exited(client, pod.containers["b"])
        assert (status.reason, status.exit_code) in DIED_UNSEEN[containerd.version]
        assert [s.id for s in await client.list_pod_sandbox()] == [pod.sandbox_id]

    run(containerd, after)


def test_frozen_runtime_does_not_answer(containerd: Containerd) -> None:
    """While frozen the runtime takes calls and answers none; thawed, it answers at once."""

    async def work(client: RuntimeClient) -> None:
        await client.version()
        containerd.freeze()
        client.timeout = 0.5
        with pytest.raises(TimedOut):
            await client.list_containers()
        containerd.thaw()
        client.timeout = 5.0
        assert await client.list_containers() == []

    run(containerd, work)


def test_pod_of_nobody(containerd: Containerd) -> None:
    """A pod without a kubelet's labels can be made, for tests of what a kubelet leaves alone."""

    async def work(client: RuntimeClient) -> None:
        await make(client, containerd, "foreign", labels={})
        (listed,) = await client.list_containers()
        assert pods.POD_UID not in listed.labels

    run(containerd, work)


def test_crictl(containerd: Containerd, crictl: Path) -> None:
    """Both crictl and ctr speak to this instance and to no other."""
    assert crictl.is_dir()
    pod = run(containerd, lambda client: make(client, containerd, "seen"))
    assert pod.container_id in containerd.crictl("ps", "--quiet")
    assert pod.sandbox_id in containerd.ctr("tasks", "ls")


def test_close_removes_everything(containerds: Instances, containerd: Containerd) -> None:
    """An instance killed with pods running, one of them paused, leaves nothing on the machine."""
    doomed = Containerd(containerd.version, containerd.tools)
    try:
        doomed.start()
        doomed.keep(images.pause(), images.busybox())

        async def work(client: RuntimeClient) -> None:
            mapping = pb.PortMapping(container_port=80, host_port=free_port())
            first = await make(client, doomed, "one", port_mappings=[mapping])
            await pods.make_pod(client, "two")  # in a cgroup that the runtime chooses
            doomed.ctr("tasks", "pause", first.container_id)

        run(doomed, work)
        doomed.kill()
        kinds = {left.partition(":")[0] for left in doomed.leftovers()}
        assert kinds >= {"process", "mount", "cgroup", "link", "iptables rule", "CNI result"}
    finally:
        doomed.close()
    assert doomed.leftovers() == []
    assert containerds.get(containerd.version) is containerd


ABANDON = """
import asyncio, os, signal, sys
from pathlib import Path
from kubelet.cri.client import RuntimeClient
from tests.node import images, pods
from tests.node.containerd import Containerd

instance = Containerd(sys.argv[1], Path(sys.argv[2]) if sys.argv[2] else None).start()
for image in (images.pause(), images.busybox()):
    instance.load(image)

async def main():
    async with await RuntimeClient.connect(instance.endpoint) as client:
        await pods.make_pod(client, "orphan", cgroup_parent=instance.cgroup_parent)

asyncio.run(main())
print(instance.directory, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_sweep_after_a_killed_session(containerd: Containerd) -> None:
    """What a test session that was killed left behind, the next one removes; and only that."""
    command = [sys.executable, "-c", ABANDON, containerd.version, str(containerd.tools or "")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    directory = Path(done.stdout.strip())
    assert directory.is_dir()
    assert directory not in live_instances()
    assert directory.name in sweep()
    assert not directory.exists()
    assert containerd.directory in live_instances()
    containerd.await_ready()
    processes = subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout
    assert directory.name not in processes
