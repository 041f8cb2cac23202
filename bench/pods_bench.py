"""Pods on a node without an API server, next to the same calls made directly to the runtime.

The floor makes exactly the calls that a pod needs, with the configurations that the kubelet itself
would send, one pod after the other in turn with the kubelet's, in the same run. Moments are those
that the containers' own files show.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubelet.api import codec
from kubelet.api.container import Container
from kubelet.api.defaults import with_defaults
from kubelet.api.pod import Pod
from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import RuntimeClient
from kubelet.cri.info import init_pid
from kubelet.pods.rows import VolumeRow
from procs.syncloop.configs import files
from procs.syncloop.configs.container import ContainerContext, ImageInfo, container_config
from procs.syncloop.configs.sandbox import sandbox_config
from procs.syncloop.site import Site
from tests.node.containerd import Containerd
from tests.node.fixtures import Instances
from tests.node.images import BUSYBOX
from tests.node.pod_node import PodNode, pod, pod_node, sh
from tests.processes.node import wait_for

from .measure import directory

ROUNDS = 8
BURST = 30


def run() -> dict[str, float]:
    """Measure on containerd 2.4."""
    instances = Instances(print)
    try:
        return _measure(instances.get("2.4"))
    finally:
        instances.close()


def _measure(containerd: Containerd) -> dict[str, float]:
    figures: dict[str, float] = {}
    with directory() as place, pod_node(containerd, place) as node:
        node.start()
        diary = node.disk / "diary"
        diary.mkdir()
        with floor(containerd, node, diary) as direct:
            ours = Ours(node, diary)
            warm(ours, direct)
            singles = {"floor": [], "kubelet": []}
            for number in range(ROUNDS):
                singles["floor"].append(direct.life(f"f{number}"))
                singles["kubelet"].append(ours.life(f"k{number}"))
            for index, what in enumerate(("running", "crash", "gone")):
                base = statistics.median(times[index] for times in singles["floor"])
                own = statistics.median(times[index] for times in singles["kubelet"])
                figures |= _pair(what, base, own)
            bases, owns = [], []
            for number in range(2):
                bases.append(direct.burst(f"fb{number}"))
                owns.append(ours.burst(f"kb{number}"))
            figures |= _pair("burst", min(bases), min(owns))
    return figures


def _pair(what: str, base: float, own: float) -> dict[str, float]:
    names = {
        "running": "manifest written to process running",
        "crash": "crash to new process",
        "gone": "manifest removed to all gone",
        "burst": f"{BURST} pods at once, all running",
    }
    name = names[what]
    return {
        f"{name}, ms": own * 1000,
        f"{name}, ms directly": base * 1000,
        f"{name}, x floor": own / base,
    }


def document(name: str, diary: Path) -> dict[str, Any]:
    """A pod that says when it runs."""
    script = f"echo x >> /diary/{name}; trap 'exit 0' TERM; sleep 100000 & wait"
    mounts = [{"name": "diary", "mountPath": "/diary"}]
    volumes = [{"name": "diary", "hostPath": {"path": str(diary)}}]
    return pod(name, sh(script, volumeMounts=mounts), volumes=volumes)


def written(diary: Path, name: str, lines: int) -> float:
    """Wait until a container has written so many lines; when it wrote the last."""
    path = diary / name

    def look() -> float:
        if not path.exists():
            return 0.0
        found = path.stat()
        return found.st_mtime if found.st_size >= 2 * lines else 0.0

    return float(wait_for(f"{name} writes", look, 60))


class Ours:
    """The kubelet."""

    def __init__(self, node: PodNode, diary: Path) -> None:
        self.node = node
        self.diary = diary

    def life(self, name: str) -> tuple[float, float, float]:
        """Seconds to run, to run again after a crash, and to be gone."""
        began = time.time()
        full = self.node.write(document(name, self.diary))
        ran = written(self.diary, name, 1) - began
        self.node.await_ready(full)
        began = time.time()
        os.kill(self.node.pid_of(full), signal.SIGKILL)
        again = written(self.diary, name, 2) - began
        self.node.await_status(full, "it runs again", lambda s: _restarts(s) == 1 and _runs(s))
        began = time.time()
        self.node.remove(name)
        self.node.await_gone(full)
        return ran, again, time.time() - began

    def burst(self, prefix: str) -> float:
        """Seconds until all of many run."""
        names = [f"{prefix}-{i}" for i in range(BURST)]
        began = time.time()
        for name in names:
            self.node.write(document(name, self.diary))
        ended = max(written(self.diary, name, 1) for name in names)
        for name in names:
            self.node.remove(name)
        for name in names:
            self.node.await_gone(f"{name}-testnode", 60)
        return ended - began


def _restarts(status: dict[str, Any]) -> int:
    return int(status["containerStatuses"][0]["restartCount"])


def _runs(status: dict[str, Any]) -> bool:
    return "running" in status["containerStatuses"][0]["state"]


class Floor:
    """The same calls, directly."""

    def __init__(
        self,
        run: Callable[[Any], Any],
        client: RuntimeClient,
        image: str,
        site: Site,
        diary: Path,
    ) -> None:
        self._run = run
        self._client = client
        self._image = image
        self._site = site
        self._diary = diary

    def _configs(self, name: str) -> tuple[pb.PodSandboxConfig, Callable[..., pb.ContainerConfig]]:
        found, _ = codec.decode(Pod, document(name, self._diary))
        found = with_defaults(found)
        meta = {"name": name, "namespace": "default", "uid": f"floor-{name}"}
        whole = codec.read(Pod, {**codec.encode(found), "metadata": meta})
        config = sandbox_config(whole, 0, self._site).config
        config.labels.clear()  # nobody's: the kubelet leaves it alone
        container: Container = whole.spec.containers[0]

        def of(sandbox_id: str, attempt: int) -> pb.ContainerConfig:
            volumes = {"diary": VolumeRow("diary", host_path=str(self._diary))}
            context = ContainerContext(sandbox_id, config, ("10.0.0.1",), volumes)
            files.prepare(whole, container, attempt, ("10.0.0.1",), self._site)
            info = ImageInfo(self._image, container.image, uid=0)
            built = container_config(whole, container, attempt, info, context, self._site)
            built.labels.clear()
            return built

        files.make_pod_dirs(whole, self._site)
        files.ensure_log_directory(whole, self._site)
        return config, of

    async def _start(self, name: str) -> tuple[pb.PodSandboxConfig, Any, str, str]:
        config, of = self._configs(name)
        sandbox = await self._client.run_pod_sandbox(config)
        container = await self._client.create_container(sandbox, of(sandbox, 0), config)
        await self._client.start_container(container)
        return config, of, sandbox, container

    async def _life(self, name: str) -> tuple[float, float, float]:
        began = time.time()
        config, of, sandbox, container = await self._start(name)
        ran = written(self._diary, name, 1) - began
        status = await self._client.container_status(container, verbose=True)
        began = time.time()
        os.kill(init_pid(status), signal.SIGKILL)
        await self._exit(container)
        other = await self._client.create_container(sandbox, of(sandbox, 1), config)
        await self._client.start_container(other)
        again = written(self._diary, name, 2) - began
        began = time.time()
        await self._client.stop_container(other, 30)
        await self._remove(sandbox)
        return ran, again, time.time() - began

    async def _exit(self, container: str) -> None:
        """Wait until the runtime says that a container has ended; it tells only who asks."""
        for _ in range(5000):
            status = await self._client.container_status(container)
            if status.status.state == pb.CONTAINER_EXITED:
                return
            await asyncio.sleep(0.002)
        raise AssertionError(f"{container} does not end")

    async def _remove(self, sandbox: str) -> None:
        await self._client.stop_pod_sandbox(sandbox)
        await self._client.remove_pod_sandbox(sandbox)

    async def _burst(self, prefix: str) -> float:
        names = [f"{prefix}-{i}" for i in range(BURST)]
        began = time.time()
        made = await asyncio.gather(*(self._start(name) for name in names))
        ended = max(written(self._diary, name, 1) for name in names)
        await asyncio.gather(*(self._client.stop_container(m[3], 30) for m in made))
        await asyncio.gather(*(self._remove(m[2]) for m in made))
        return ended - began

    def life(self, name: str) -> tuple[float, float, float]:
        """As the kubelet's."""
        found: tuple[float, float, float] = self._run(self._life(name))
        return found

    def burst(self, prefix: str) -> float:
        """As the kubelet's."""
        return float(self._run(self._burst(prefix)))


@contextmanager
def floor(containerd: Containerd, node: PodNode, diary: Path) -> Iterator[Floor]:
    """A client of its own beside the kubelet."""
    with asyncio.Runner() as runner:
        client = runner.run(RuntimeClient.connect(containerd.endpoint))
        site = Site(
            node="floor",
            ips=("127.0.0.1",),
            root_dir=str(node.disk / "floor"),
            logs_dir=str(node.disk / "floor-logs"),
            cgroup_root=containerd.cgroup_parent,
        )
        try:
            yield Floor(runner.run, client, BUSYBOX, site, diary)
        finally:
            runner.run(client.close())


def warm(ours: Ours, direct: Floor) -> None:
    """One of each, unmeasured."""
    direct.life("fw")
    ours.life("kw")
