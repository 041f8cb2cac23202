"""A kubelet in a real cluster, on a private containerd: ours, or the Go one to compare with.

``KUBELET_UNDER_TEST=go`` runs the Go kubelet of the same build as the control plane instead, so
that a test of what can be seen from outside says what it should: it must pass with both.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cluster.admin import SECONDS, Found, Json, Objects
from tests.cluster.control_plane import ControlPlane
from tests.node.containerd import Containerd
from tests.node.leftovers import CGROUPS, _all_processes, _read
from tests.node.pod_node import PodNode, is_ready, remove_links, unmount_below
from tests.processes.node import wait_for

OURS, GO = "ours", "go"
ENVIRONMENT = "KUBELET_UNDER_TEST"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
# What the Go kubelet makes outside its own directories, whatever it is told.
GO_DIRECTORY = Path("/var/lib/kubelet/device-plugins")
GO_FILES = ("kubelet.sock", "kubelet_internal_checkpoint")


def under_test() -> str:
    """Which kubelet is to be tested."""
    which = os.environ.get(ENVIRONMENT, OURS)
    assert which in {OURS, GO}, f"{ENVIRONMENT}={which} is not known: {OURS} or {GO}"
    return which


def quiet_port() -> int:
    """A port that the kernel gives to no client: it is free again after a restart."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first = int(file.read().split()[0])
    while True:
        port = random.randrange(10000, first)
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("", port))
            return port


def configuration(plane: ControlPlane, **changes: Any) -> dict[str, Any]:
    """The configuration file of both: what kubeadm writes, on ports of our own."""
    return {
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(plane.ca)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "port": quiet_port(),
        "healthzPort": 0,
        "clusterDNS": ["192.0.2.53"],
        "clusterDomain": "cluster.local",
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
        "makeIPTablesUtilChains": False,
        # The state of this machine's disks is no matter here.
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        **changes,
    }


class Kubelet(PodNode):
    """Our kubelet with a kubeconfig."""

    kind = OURS

    def __init__(
        self,
        plane: ControlPlane,
        containerd: Containerd,
        root: Path,
        name: str,
        *,
        kubeconfig: Path | None = None,
        config: Mapping[str, Any] | None = None,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self.node_name = name
        certificates = containerd.directory / f"kubelet-{name}" / "pki"
        self.kubeconfig = kubeconfig or plane.node_kubeconfig(name)
        flags = (
            f"--hostname-override={name}",
            f"--kubeconfig={self.kubeconfig}",
            f"--cert-dir={certificates}",
            *arguments,
        )
        given = configuration(plane, **(config or {}))
        super().__init__(root, name, flags, containerd=containerd, config=given)
        self.certificates = certificates


class GoKubelet(Kubelet):
    """The Go kubelet, told the same."""

    kind = GO

    def __init__(self, plane: ControlPlane, containerd: Containerd, *more: Any, **kw: Any) -> None:
        super().__init__(plane, containerd, *more, **kw)
        self._program = (str(plane.tools / "kubelet"),)
        self._found = GO_DIRECTORY.exists()
        self.write_config(volumePluginDir=str(self.disk / "plugins"))
        # It refuses to begin without the group that everything is to be in.
        for controller in CGROUPS.iterdir():
            (controller / containerd.cgroup_parent.lstrip("/")).mkdir(exist_ok=True)

    @property
    def command(self) -> list[str]:
        """The command line, without what only ours knows."""
        return [*self._program, f"--config={self.config_path}", *self._arguments]

    def assert_nothing_left(self) -> None:
        """Nothing is left, also not where it was not told to be."""
        super().assert_nothing_left()
        if not self._found:
            for name in GO_FILES:
                (GO_DIRECTORY / name).unlink(missing_ok=True)
            for directory in (GO_DIRECTORY, GO_DIRECTORY.parent):
                with suppress(OSError):  # not there, or somebody else's
                    directory.rmdir()


KINDS: dict[str, type[Kubelet]] = {OURS: Kubelet, GO: GoKubelet}


class ClusterNode:
    """A node of a cluster as its administrator sees it, and the kubelet that makes it."""

    def __init__(self, plane: ControlPlane, kubelet: Kubelet) -> None:
        self.plane = plane
        self.admin = plane.admin
        self.kubectl = plane.kubectl
        self.kubelet = kubelet
        self.name = kubelet.node_name
        self.namespace = "default"

    # The node.

    @property
    def path(self) -> str:
        """Where its object is."""
        return f"/api/v1/nodes/{self.name}"

    @property
    def lease_path(self) -> str:
        """Where its lease is."""
        return f"{LEASES}/{self.name}"

    def start(self) -> ClusterNode:
        """Start the kubelet, and return when pods can be scheduled here."""
        self.kubelet.start()
        self.await_schedulable()
        return self

    def await_node(
        self, what: str, check: Callable[[Json], Found], seconds: float = SECONDS
    ) -> Found:
        """Wait until a check of the node's object finds something; it is empty if there is none."""
        return self._complaining(lambda: self.admin.wait_one(what, self.path, check, seconds))

    def await_ready(self, seconds: float = SECONDS) -> Json:
        """Wait until the node is ready; its object."""

        def look(node: Json) -> Json | None:
            return node if is_ready(node.get("status", {})) else None

        found = self.await_node(f"node {self.name} is ready", look, seconds)
        assert found is not None
        return found

    def await_schedulable(self, seconds: float = SECONDS) -> None:
        """Wait until the node is ready, and nothing keeps pods away that is there for a new one."""

        def look(node: Json) -> bool:
            taints = {t["key"] for t in node.get("spec", {}).get("taints", ())}
            return is_ready(node.get("status", {})) and "node.kubernetes.io/not-ready" not in taints

        self.await_node(f"pods can run on {self.name}", look, seconds)

    # Pods.

    @property
    def pods_path(self) -> str:
        """Where the pods of the test are."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def pod_path(self, name: str) -> str:
        """Where a pod is."""
        return f"{self.pods_path}/{name}"

    def create(self, document: Json) -> Json:
        """Make a pod that is bound to this node; its object."""
        spec = {"nodeName": self.name, **document["spec"]}
        return self.admin.create(self.pods_path, {**document, "spec": spec})

    def delete(self, name: str, **options: Any) -> None:
        """Delete a pod."""
        self.admin.delete(self.pod_path(name), **options)

    def pod(self, name: str) -> Json:
        """A pod as it is now."""
        return self.admin.get(self.pod_path(name))

    def await_pod(
        self, name: str, what: str, check: Callable[[Json], Found], seconds: float = SECONDS
    ) -> Found:
        """Wait until a check of a pod finds something; while there is none, it is empty."""
        title = f"{name}: {what}"
        return self._complaining(
            lambda: self.admin.wait_one(title, self.pod_path(name), check, seconds)
        )

    def await_status(
        self, name: str, what: str, check: Callable[[Json], Any], seconds: float = SECONDS
    ) -> Json:
        """Wait until a check likes a pod's status; the pod."""

        def look(pod: Json) -> Json | None:
            return pod if pod and check(pod.get("status", {})) else None

        found = self.await_pod(name, what, look, seconds)
        assert found is not None
        return found

    def await_pod_ready(self, name: str, seconds: float = SECONDS) -> Json:
        """Wait until a pod is ready; the pod."""
        return self.await_status(name, "is ready", is_ready, seconds)

    def await_phase(self, name: str, phase: str, seconds: float = SECONDS) -> Json:
        """Wait for a phase of a pod; the pod."""
        return self.await_status(name, phase, lambda s: s.get("phase") == phase, seconds)

    def await_gone(self, name: str, seconds: float = SECONDS, uid: str = "") -> None:
        """Wait until a pod is no more."""
        path = self.pod_path(name)
        self._complaining(lambda: self.admin.wait_gone(path, seconds, uid))

    def await_pods(
        self, what: str, check: Callable[[Objects], Found], seconds: float = SECONDS, **query: str
    ) -> Found:
        """Wait until a check of all pods of the test finds something."""
        return self._complaining(
            lambda: self.admin.wait_for(what, self.pods_path, check, seconds, **query)
        )

    def output(self, name: str, container: str = "c", attempt: int = 0) -> str:
        """What a container has written so far."""
        uid = self.pod(name)["metadata"]["uid"]
        directory = self.kubelet.logs / f"{self.namespace}_{name}_{uid}" / container
        path = directory / f"{attempt}.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return "".join(line.split(" ", 3)[3] + "\n" for line in lines)

    def run(self, document: Json, seconds: float = SECONDS) -> str:
        """Run a pod with one container to its good end; what it wrote."""
        name = document["metadata"]["name"]
        self.create({**document, "spec": {"restartPolicy": "Never", **document["spec"]}})
        ends = ("Succeeded", "Failed")
        pod = self.await_status(name, "ends", lambda s: s.get("phase") in ends, seconds)
        written = self.output(name)
        assert pod["status"]["phase"] == "Succeeded", f"{written}\n{json.dumps(pod, indent=1)}"
        return written

    def await_end(self, container_id: str) -> None:
        """Wait until no process of a container is left; a poll, for nobody tells."""
        wait_for(f"{container_id} has ended", lambda: not processes_of(container_id), SECONDS, 0.02)

    def volume_dir(self, name: str, plugin: str, volume: str) -> Path:
        """Where a volume of a pod is on this machine."""
        uid = self.pod(name)["metadata"]["uid"]
        escaped = f"kubernetes.io~{plugin}"
        return self.kubelet.root_dir / "pods" / uid / "volumes" / escaped / volume

    def events(self, name: str) -> list[Json]:
        """The events about an object of the test, in the order of their first mention."""
        chosen = f"involvedObject.name={name}"
        path = f"/api/v1/namespaces/{self.namespace}/events"
        found = self.admin.get(path, fieldSelector=chosen)["items"]
        return sorted(found, key=lambda e: (e["firstTimestamp"] or "", _number(e)))

    def await_event(
        self,
        name: str,
        reason: str,
        check: Callable[[Json], bool] = bool,
        seconds: float = SECONDS,
        namespace: str | None = None,
    ) -> Json:
        """Wait for an event about an object."""

        def look(events: Objects) -> Json | None:
            fitting = (e for e in events.values() if e["reason"] == reason and check(e))
            return next(fitting, None)

        path = f"/api/v1/namespaces/{namespace or self.namespace}/events"
        chosen = {"fieldSelector": f"involvedObject.name={name}"}
        found = self._complaining(
            lambda: self.admin.wait_for(f"{reason} of {name}", path, look, seconds, **chosen)
        )
        assert found is not None
        return found

    def _complaining(self, wait: Callable[[], Found]) -> Found:
        """Wait for something; the failure to come shows the end of the kubelet's log."""
        try:
            return wait()
        except AssertionError as err:
            tail = "\n".join(self.kubelet.log().splitlines()[-40:])
            raise AssertionError(f"{err}\nThe end of the kubelet's log:\n{tail}") from None

    # The end.

    def clear(self) -> None:
        """Have every pod of this node end, and wait until the API server has forgotten them."""
        chosen = {"fieldSelector": f"spec.nodeName={self.name}"}
        kept = (self.kubelet.manifests.iterdir()) if self.kubelet.manifests.exists() else ()
        for manifest in kept:
            manifest.unlink()
        for pod in self.admin.get("/api/v1/pods", **chosen)["items"]:
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            self.admin.delete(path, gracePeriodSeconds=1)
        self._complaining(
            lambda: self.admin.wait_for("no pods", "/api/v1/pods", lambda o: not o, **chosen)
        )

    def forget(self) -> None:
        """Have the API server forget the node."""
        self.admin.delete(self.path)
        self.admin.delete(self.lease_path)


@contextmanager
def cluster_node(
    plane: ControlPlane,
    containerd: Containerd,
    root: Path,
    name: str,
    *,
    kind: str | None = None,
    **options: Any,
) -> Iterator[ClusterNode]:
    """A node in a cluster, not started yet; at the end nothing of it is left."""
    kubelet = KINDS[kind or under_test()](plane, containerd, root, name, **options)
    node = ClusterNode(plane, kubelet)
    try:
        yield node
    finally:
        kubelet.end()
        unmount_below(kubelet.disk)
        kubelet.assert_nothing_left()
        shutil.rmtree(kubelet.disk)
        remove_links(kubelet.disk)
        node.forget()


def processes_of(container_id: str) -> list[int]:
    """The processes of a container, as a status names it."""
    plain = container_id.partition("://")[2].encode()
    return [pid for pid in _all_processes() if plain in _read(f"/proc/{pid}/cgroup")]


def _number(event: Json) -> int:
    return int(event["metadata"]["resourceVersion"])
