"""A CSI driver of a node in a cluster: its objects, its volumes, the pods that use them.

The driver is a process of its own with its sockets below the kubelet's root directory, as its pod
would have them. The test is the controllers that a cluster gets with a driver: it makes the
volumes, attaches them and grows them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from tests.cluster.admin import SECONDS, Json
from tests.cluster.cluster_node import ClusterNode
from tests.csi.process import CsiDriverProcess
from tests.node.pod_node import PAUSE, sh, sleeper
from tests.node.shared import pod
from tests.processes.node import wait_for

STORAGE = "/apis/storage.k8s.io/v1"
DRIVERS, CSINODES = f"{STORAGE}/csidrivers", f"{STORAGE}/csinodes"
ATTACHMENTS, CLASSES = f"{STORAGE}/volumeattachments", f"{STORAGE}/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
NODE_IDS = "csi.volume.kubernetes.io/nodeid"
MIB = 1 << 20
SIZE = "16Mi"
DETACHES = "external-attacher/test"  # as every external attacher has a finalizer
# What a kubelet asks as often as it likes.
ASIDE = ("NodeGetCapabilities", "NodeGetVolumeStats")
BOTH_WAYS = ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]

_numbers = itertools.count(1)


class Csi:
    """A driver of a node, and what the cluster knows of it."""

    def __init__(self, node: ClusterNode, name: str, *flags: str, **spec: Any) -> None:
        self.node = node
        self.admin = node.admin
        self.name = name
        self.root = node.kubelet.root_dir
        self.registry = self.root / "plugins_registry"
        given = ("--create-unknown", "--node-id", f"id-of-{node.name}", *flags)
        place = self.root / "plugins" / name
        self.driver = CsiDriverProcess(place, *given, registry=self.registry, name=name)
        self._spec = {"attachRequired": False, **spec}
        self._made: list[str] = []

    # The driver.

    def __enter__(self) -> Self:
        self.describe()
        self.driver.start()
        self.await_registered()
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.__exit__()
        self.forget()

    def describe(self) -> None:
        """Have the cluster know how the driver is to be treated."""
        self._create(DRIVERS, {"metadata": {"name": self.name}, "spec": self._spec})

    def forget(self) -> None:
        """Have the cluster forget the driver and its volumes."""
        for path in self._made:
            self.admin.delete(path)
        self._made = []

    def entry(self) -> Json | None:
        """What the node's CSINode says of the driver; None: nothing."""
        return _entry(self.admin.find(f"{CSINODES}/{self.node.name}") or {}, self.name)

    def await_entry(self, what: str, check: Callable[[Json | None], Any]) -> Json:
        """Wait until the driver's entry in the CSINode is right; the CSINode."""

        def look(found: Json) -> Json | None:
            return found if found and check(_entry(found, self.name)) else None

        path = f"{CSINODES}/{self.node.name}"
        found = self.node._complaining(lambda: self.admin.wait_one(what, path, look))
        assert found is not None
        return found

    def await_registered(self) -> None:
        """Wait until the cluster knows that the node has the driver."""
        self.await_entry(f"{self.name} is registered", bool)

    def node_ids(self) -> dict[str, str]:
        """What each driver calls the node, as the Node object says."""
        annotations = self.admin.get(self.node.path)["metadata"].get("annotations", {})
        found: dict[str, str] = json.loads(annotations.get(NODE_IDS, "{}"))
        return found

    # Volumes.

    def volume(self, name: str, *, grows: bool = False, size: str = SIZE, **spec: Any) -> str:
        """Make a persistent volume for a claim of that name to come; its handle."""
        handle = f"{self.node.namespace}-{name}-{next(_numbers)}"
        csi = {"driver": self.name, "volumeHandle": handle, **spec.pop("csi", {})}
        self._create(
            VOLUMES,
            {
                "metadata": {"name": handle},
                "spec": {
                    "capacity": {"storage": size},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": self._grower() if grows else "",
                    "persistentVolumeReclaimPolicy": "Retain",
                    "claimRef": {"namespace": self.node.namespace, "name": name},
                    "csi": csi,
                    **spec,
                },
            },
        )
        return handle

    def claim(self, name: str, **volume: Any) -> str:
        """Make a volume and a claim that is bound to it; the volume's handle."""
        handle = self.volume(name, **volume)
        pv = self.admin.get(f"{VOLUMES}/{handle}")["spec"]
        spec = {
            "accessModes": pv["accessModes"],
            "storageClassName": pv.get("storageClassName", ""),
            "volumeName": handle,
            "volumeMode": pv["volumeMode"],
            "resources": {"requests": dict(pv["capacity"])},
        }
        path = self.claim_path(name)
        collection = path.rpartition("/")[0]
        self.admin.create(collection, {"metadata": {"name": name}, "spec": spec})
        bound = {"phase": "Bound"}.items()
        self.admin.wait_one(
            f"claim {name} is bound", path, lambda c: bound <= c.get("status", {}).items()
        )
        return handle

    def claim_path(self, name: str) -> str:
        """Where a claim is."""
        return f"/api/v1/namespaces/{self.node.namespace}/persistentvolumeclaims/{name}"

    def grow(self, name: str, handle: str, size: str) -> None:
        """Have a claim ask for more, and do what the controllers do before the node's part."""
        path, amount = self.claim_path(name), {"storage": size}
        self.admin.patch(path, {"spec": {"resources": {"requests": amount}}})
        self.admin.patch(f"{VOLUMES}/{handle}", {"spec": {"capacity": amount}})
        condition = {"type": "FileSystemResizePending", "status": "True"}
        status = {
            "allocatedResources": amount,
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
            "conditions": [condition],
        }
        self.admin.patch(f"{path}/status", {"status": status})

    def _grower(self) -> str:
        name = f"{self.name}-grows"
        if f"{CLASSES}/{name}" not in self._made:
            document = {"provisioner": self.name, "allowVolumeExpansion": True}
            self._create(CLASSES, {"metadata": {"name": name}, **document})
        return name

    def _create(self, collection: str, document: Json) -> None:
        self.admin.create(collection, document)
        self._made.append(f"{collection}/{document['metadata']['name']}")

    # Calls.

    def calls(self, handle: str, *methods: str) -> list[Json]:
        """The calls about a volume, in order; of these methods, or all but those aside."""
        return [
            call
            for call in self.driver.calls()
            if call["request"].get("volume_id") == handle
            and (call["method"] in methods if methods else call["method"] not in ASIDE)
        ]

    def methods(self, handle: str) -> list[str]:
        """The names of the calls about a volume, in order."""
        return [call["method"] for call in self.calls(handle)]

    def await_methods(self, handle: str, *wanted: str) -> None:
        """Wait until these calls about a volume were made and ended well, in this order."""

        def look() -> bool:
            found = self.calls(handle)
            return [c["method"] for c in found] == [*wanted] and all(c["code"] == 0 for c in found)

        try:
            wait_for(f"{wanted}", look, SECONDS, PAUSE)
        except AssertionError as err:
            found = [(c["method"], c["code"]) for c in self.calls(handle)]
            tail = "\n".join(self.node.kubelet.log().splitlines()[-30:])
            raise AssertionError(f"{err}\nit was: {found}\n{tail}") from None

    def request(self, handle: str, method: str) -> Json:
        """The last request of a method about a volume."""
        found: Json = self.calls(handle, method)[-1]["request"]
        return found

    # The end of volumes.

    def end(self, name: str) -> None:
        """Delete a pod, and wait until it is gone."""
        self.node.delete(name, gracePeriodSeconds=1)
        self.node.await_gone(name)

    def await_nothing_left(self) -> None:
        """Wait until nothing of the driver's volumes is mounted or written down on the node."""
        try:
            wait_for("nothing is left", lambda: not self.leftovers(), SECONDS, PAUSE)
        except AssertionError as err:
            tail = "\n".join(self.node.kubelet.log().splitlines()[-30:])
            raise AssertionError(f"{err}\n{self.leftovers()}\n{tail}") from None

    def leftovers(self) -> list[str]:
        """What is left of the driver's volumes."""
        shared = self.root / "plugins" / "kubernetes.io" / "csi"
        staged = [shared / self.name, shared / "volumeDevices"]
        written = [file for place in staged for file in place.rglob("vol_data.json")]
        written += self.root.glob("pods/*/volumes/*csi/*")
        images = Path(self.driver.state, "volumes").glob("*.img")
        loops = [f"loop of {image}" for image in images if _loop(image)]
        return [*map(str, written), *self.mounts(), *loops]

    def mounts(self, needle: str = "") -> list[str]:
        """Where something of a CSI driver is mounted, once for each mount; it may name a volume."""
        places = (f"{self.root}/pods/", f"{self.root}/plugins/")
        parts = ("kubernetes.io~csi/", "kubernetes.io/csi/")
        return [
            point
            for point in points()
            if point.startswith(places) and any(p in point for p in parts) and needle in point
        ]


@contextlib.contextmanager
def drivers_of(node: ClusterNode) -> Iterator[Callable[..., Csi]]:
    """Make drivers; at the end the node has no pods, and nothing is left of any volume."""
    with contextlib.ExitStack() as stack:
        made: list[Csi] = []

        def make(name: str, *flags: str, **spec: Any) -> Csi:
            made.append(stack.enter_context(Csi(node, name, *flags, **spec)))
            return made[-1]

        yield make
        for csi in made:
            csi.driver.set(faults={})
        node.clear()
        for csi in made:
            csi.await_nothing_left()


def points() -> list[str]:
    """All mount points."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return [line.split()[4] for line in file]


def _loop(image: Path) -> bool:
    backing = Path("/sys/block").glob("loop*/loop/backing_file")
    found = False
    for file in backing:
        with contextlib.suppress(OSError):
            found |= file.read_text().strip() == os.path.realpath(image)
    return found


def _entry(csi_node: Json, name: str) -> Json | None:
    drivers = csi_node.get("spec", {}).get("drivers") or ()
    return next((driver for driver in drivers if driver["name"] == name), None)


# --- pods ----------------------------------------------------------------------------------------


def of_claim(name: str, *, read_only: bool = False) -> Json:
    """The source of a volume of a claim."""
    return {"persistentVolumeClaim": {"claimName": name, "readOnly": read_only}}


def user(name: str, source: Json, script: str = "", **spec: Any) -> Json:
    """A pod with a volume at /data: it runs a script, or until it is told to end."""
    mounts = [{"name": "data", "mountPath": "/data"}]
    container = sh(script, volumeMounts=mounts) if script else sleeper(volumeMounts=mounts)
    return pod(name, container, volumes=[{"name": "data", **source}], **spec)


# --- the external attacher -----------------------------------------------------------------------


class Attacher:
    """The test as a driver's external attacher."""

    def __init__(self, csi: Csi) -> None:
        self._csi = csi
        self._admin = csi.admin

    def path(self, handle: str) -> str:
        """Where the attachment of a volume to the node is (L-44)."""
        text = f"{handle}{self._csi.name}{self._csi.node.name}"
        return f"{ATTACHMENTS}/csi-{sha256(text.encode()).hexdigest()}"

    def await_wanted(self, handle: str) -> Json:
        """Wait until the cluster wants a volume attached; the attachment."""
        return self._admin.wait_one("the attachment", self.path(handle), lambda found: found)

    def attach(self, handle: str, **metadata: str) -> None:
        """Have a volume attached."""
        self.await_wanted(handle)
        path = self.path(handle)
        self._admin.patch(path, {"metadata": {"finalizers": [DETACHES]}})
        status = {"attached": True, "attachmentMetadata": metadata}
        self._admin.patch(f"{path}/status", {"status": status})

    def fail(self, handle: str, message: str) -> None:
        """Say that a volume could not be attached."""
        self.await_wanted(handle)
        status = {"attached": False, "attachError": {"message": message}}
        self._admin.patch(f"{self.path(handle)}/status", {"status": status})

    def await_unwanted(self, handle: str) -> None:
        """Wait until the cluster wants a volume detached."""

        def look(found: Json) -> bool:
            return "deletionTimestamp" in found.get("metadata", {})

        self._admin.wait_one("the attachment is deleted", self.path(handle), look)

    def detach(self, handle: str) -> None:
        """Have a volume detached."""
        path = self.path(handle)
        self._admin.patch(path, {"metadata": {"finalizers": None}})
        self._admin.wait_gone(path)
