"""Volumes as the users of a cluster have them: what they write, and what there must be of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.admin import SECONDS, Json
from tests.cluster.cluster_node import ClusterNode
from tests.cluster.documents import config_map, secret
from tests.node.shared import pod
from tests.processes.node import wait_for

VOLUMES = "/api/v1/persistentvolumes"
DISK_BYTES = 16 << 20
LONG = 100.0  # for a kubelet that tries again later and later
SETUP = 'MountVolume.SetUp failed for volume "{}" : {}'
PAUSE = 0.05  # between two looks at what nobody tells of


# What is written into a pod.


def volume(name: str, **source: Any) -> Json:
    """A volume of a pod."""
    return {"name": name, **source}


def claimed(name: str, claim: str = "", **more: Any) -> Json:
    """A volume that is a claim, by default of the same name."""
    return volume(name, persistentVolumeClaim={"claimName": claim or name, **more})


def mount(name: str, path: str = "", **more: Any) -> Json:
    """A volume in a container, by default below the root under its own name."""
    return {"name": name, "mountPath": path or f"/{name}", **more}


def mounts(volumes: list[Json]) -> list[Json]:
    """Every volume in a container under its own name."""
    return [mount(one["name"]) for one in volumes]


def items(**paths: str) -> list[Json]:
    """Keys of an object, each with the path of its file."""
    return [{"key": key, "path": path} for key, path in paths.items()]


def fields(**paths: str) -> list[Json]:
    """Files of the downward API, each with the field that it shows."""
    return [{"path": p, "fieldRef": {"fieldPath": path}} for p, path in paths.items()]


def give_objects(node: ClusterNode) -> None:
    """Make a secret and a configmap."""
    node.kubectl.apply(
        secret("keys", user="eve", password="s3cret"),
        config_map("settings", colour="green", size="7"),
        namespace=node.namespace,
    )


# What there must be of it.


def await_nothing_of(node: ClusterNode, uid: str, seconds: float = SECONDS) -> None:
    """Wait until a pod has no directory and no mount any more; a poll, for nobody tells."""
    directory = node.kubelet.root_dir / "pods" / uid
    wait_for(f"{directory} is gone", lambda: not directory.exists(), seconds, PAUSE)
    assert mounts_with(uid) == []


def mounts_with(text: str) -> list[str]:
    """The kernel's lines of mounts that have a text in them."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if text in line]


def end(node: ClusterNode, *names: str) -> None:
    """Delete pods, and see that nothing of them is left on disk or mounted."""
    uids = {name: node.pod(name)["metadata"]["uid"] for name in names}
    for name in names:
        node.delete(name, gracePeriodSeconds=1)
    for name, uid in uids.items():
        node.await_gone(name, uid=uid)
        await_nothing_of(node, uid)


def read(node: ClusterNode, name: str, container: Json, volumes: list[Json], **spec: Any) -> str:
    """What one container of a pod wrote, which is ended then and leaves nothing."""
    written = node.run(pod(name, container, volumes=volumes, **spec))
    end(node, name)
    return written


def failed_mount(node: ClusterNode, name: str, words: str) -> str:
    """Wait for the event that says why a volume of a pod is not mounted; its words."""
    event = node.await_event(name, "FailedMount", lambda e: words in e["message"])
    assert event["type"] == "Warning"
    assert node.pod(name)["status"]["phase"] == "Pending"
    return str(event["message"])


# What outlives pods.


@dataclass
class Store:
    """The persistent volumes and claims of a test, and places on this machine for them."""

    node: ClusterNode
    place: Path
    _volumes: list[str] = field(default_factory=list)

    def directory(self, name: str, **files: str) -> Path:
        """A directory with these files."""
        made = self.place / name
        made.mkdir(mode=0o755)
        for file, content in files.items():
            (made / file).write_text(content)
        return made

    def volume(self, name: str, *, claim: str = "", meta: Json | None = None, **spec: Any) -> str:
        """Make a persistent volume that only one claim can have; its name in the cluster."""
        full = f"{self.node.namespace}-{name}"
        reference = {"namespace": self.node.namespace, "name": claim or name}
        document = {
            "metadata": {"name": full, **(meta or {})},
            "spec": {
                "capacity": {"storage": "16Mi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": reference,
                **spec,
            },
        }
        self.node.admin.create(VOLUMES, document)
        self._volumes.append(full)
        return full

    def local(self, name: str, path: Path | str, *, on: str = "", **spec: Any) -> str:
        """Make a persistent volume of a path of this node, or of another one."""
        expression = {
            "key": "kubernetes.io/hostname",
            "operator": "In",
            "values": [on or self.node.name],
        }
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        local = {"path": str(path), **spec.pop("local", {})}
        return self.volume(name, local=local, nodeAffinity=affinity, **spec)

    def claim(self, name: str, volume_: str = "", **spec: Any) -> None:
        """Make a claim for the volume of the same name."""
        document = {
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "resources": {"requests": {"storage": "16Mi"}},
                "volumeName": volume_ or f"{self.node.namespace}-{name}",
                **spec,
            },
        }
        self.node.admin.create(self.claims, document)

    @property
    def claims(self) -> str:
        """Where the claims of the test are."""
        return f"/api/v1/namespaces/{self.node.namespace}/persistentvolumeclaims"

    def await_claim(self, name: str, phase: str = "Bound") -> None:
        """Wait until a claim has a phase."""
        self.node.admin.wait_one(
            f"claim {name} is {phase}",
            f"{self.claims}/{name}",
            lambda found: found.get("status", {}).get("phase") == phase,
        )

    def close(self) -> None:
        """Have the cluster forget them; what held them is gone, so they go at once."""
        self.node.admin.request("DELETE", self.claims)
        for name in self._volumes:
            self.node.admin.delete(f"{VOLUMES}/{name}")


@contextlib.contextmanager
def storage(node: ClusterNode) -> Iterator[Store]:
    """The persistent volumes of a test; pods are ended before they go."""
    place = node.kubelet.disk / "places" / node.namespace
    place.mkdir(parents=True)
    made = Store(node, place)
    try:
        yield made
    finally:
        node.clear()
        made.close()


# Real file systems.


def run(*argv: str) -> str:
    """Run a program to its good end; what it said."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
    return done.stdout.strip()


@contextlib.contextmanager
def loop_device(path: Path, content: bytes = b"") -> Iterator[str]:
    """A device with this at its beginning; it is free again at the end."""
    with path.open("wb") as file:
        file.truncate(DISK_BYTES)
        file.write(content)
    device = run("losetup", "-f", "--show", str(path))
    try:
        yield device
    finally:
        run("losetup", "-d", device)


@contextlib.contextmanager
def shared_tmpfs(path: Path) -> Iterator[Path]:
    """A file system of its own whose mounts others can be told of, as a node's root mostly is."""
    path.mkdir()
    run("mount", "-t", "tmpfs", "tmpfs", str(path))
    try:
        run("mount", "--make-shared", str(path))
        yield path
    finally:
        below = [line.split()[4] for line in mounts_with(f" {path}/")]
        for point in (*sorted(below, reverse=True), str(path)):
            run("umount", point)
        os.rmdir(path)
