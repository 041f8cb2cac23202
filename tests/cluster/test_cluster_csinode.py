"""What is said and heard about volumes, with a real API server: CSINode, drivers, claims, secrets.

Requests come from the process that mounts; here they are put to the same handlers, which speak
with the rights of a node.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from types import SimpleNamespace

import pytest

from kubelet.channels.messages import (
    Attachment,
    ClaimNoted,
    CsiDriverNoted,
    GetAttachment,
    NoteClaimResize,
    RegisterCsiDriver,
    UnregisterCsiDriver,
)
from kubelet.cluster.rows import (
    CLUSTER,
    OBJECTS,
    ClaimRow,
    CsiDriverRow,
    ObjectRow,
    TokenRow,
    driver_key,
    token_key,
)
from procs.node.apiserver.client import Client
from procs.node.apiserver.connection import Connection
from procs.node.apiserver.kubeconfig import read_endpoint
from procs.node.apiserver.limiter import Limits
from procs.node.kit import Kit
from procs.node.ledger import Ledger
from procs.node.storage.attachments import Attachments
from procs.node.storage.claims import ClaimStatus
from procs.node.storage.csinode import NODE_IDS
from procs.node.storage.drivers import CsiNode
from procs.node.troubles import Troubles
from procs.node.view import NodeView
from shm.codec import unpack
from shm.table import Reader
from shm.tables import BY_NAME
from tests.cluster.cluster_node import OURS, under_test
from tests.cluster.documents import secret
from tests.cluster.fixtures import make_namespace
from tests.node.pod_node import SECONDS, pod, sleeper
from tests.processes.node import wait_for
from tests.unit.node.events_scene import Standing

CSINODES = "/apis/storage.k8s.io/v1/csinodes"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
VOLUMES = "/api/v1/persistentvolumes"
MIGRATED = (
    "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,"
    "kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"
)


def row(node, table, key):
    """A row of a table of the node; None while there is none."""
    path = node.kubelet.run_dir / "tables"
    with contextlib.closing(Reader.attach(path, BY_NAME[table])) as reader:
        entry = reader.get(key)
        return None if entry is None else unpack(entry.payload)


def await_row(node, table, key):
    """Wait for a row: a poll, for no one tells a test."""
    return wait_for(f"row {key} of {table}", lambda: row(node, table, key), SECONDS, 0.05)


def volume(name, claim, namespace, **csi):
    """A volume of a CSI driver that is meant for one claim."""
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": claim},
            "csi": {"driver": "none.example.com", "volumeHandle": name, **csi},
        },
    }


def make_claim(admin, namespace, name, bound_to):
    """A claim for a volume that is there."""
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeName": bound_to,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    admin.create(path, {"metadata": {"name": name}, "spec": spec})
    admin.wait_one(f"{name} is bound", f"{path}/{name}", is_bound)
    return f"{path}/{name}"


def is_bound(claim):
    return claim.get("status", {}).get("phase") == "Bound"


def test_a_node_has_its_csinode_from_the_start(node):
    """L-41, N-14: owned by the Node, annotated, without drivers, before the node is ready."""
    found = node.admin.get(f"{CSINODES}/{node.name}")
    metadata = found["metadata"]
    uid = node.admin.get(node.path)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": uid}
    assert metadata["ownerReferences"] == [owner]
    assert metadata["annotations"] == {"storage.alpha.kubernetes.io/migrated-plugins": MIGRATED}
    assert not found["spec"]["drivers"]


@pytest.mark.skipif(under_test() != OURS, reason="only our kubelet has tables")
def test_what_a_claims_volume_and_driver_need_is_read(node):
    """L-45: driver, claim, volume, its secret and token, all with the rights of the node."""
    admin, namespace = node.admin, node.namespace
    asked = {"audience": "vault", "expirationSeconds": 700}
    spec = {"attachRequired": False, "tokenRequests": [asked], "podInfoOnMount": True}
    name = f"pv-{namespace}"
    stage = {"nodeStageSecretRef": {"name": "stage", "namespace": namespace}}
    admin.create(DRIVERS, {"metadata": {"name": "none.example.com"}, "spec": spec})
    try:
        node.kubectl.apply(secret("stage", key="s3cret"), namespace=namespace)
        admin.create(VOLUMES, volume(name, "data", namespace, **stage))
        make_claim(admin, namespace, "data", name)
        found = CsiDriverRow.from_wire(await_row(node, CLUSTER, driver_key("none.example.com")))
        assert (found.attach_required, found.pod_info_on_mount) == (False, True)
        volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
        uid = node.create(pod("uses", sleeper(), volumes=volumes))["metadata"]["uid"]
        read = ObjectRow.from_wire(await_row(node, OBJECTS, f"secret/{namespace}/stage"))
        assert (read.data, read.error) == ({"key": b"s3cret"}, "")
        claim = ClaimRow.from_wire(await_row(node, OBJECTS, f"claim/{namespace}/data"))
        assert json.loads(claim.volume)["metadata"]["name"] == name
        token = TokenRow.from_wire(await_row(node, OBJECTS, token_key(uid, "vault", 700)))
        assert token.token
        assert token.error == ""
    finally:
        node.clear()
        admin.delete(f"{DRIVERS}/none.example.com")
        admin.delete(f"{VOLUMES}/{name}")


# --- the handlers, with the rights of a node that no kubelet runs --------------------------------

NAME = "csi-words"


class Words:
    """The handlers of the process, as they are asked."""

    def __init__(self, process, connection):
        self.process = process
        view, troubles = NodeView(process), Troubles(process)
        client = Client(connection, Limits.of(process.config))
        self.kit = Kit(process, client, None, None, Ledger(process), view, troubles)
        self.drivers = CsiNode(self.kit)
        self.drivers.start()
        Attachments(self.kit).start()
        ClaimStatus(self.kit, lambda *_claim: None).start()

    async def ask(self, message, seconds=20.0):
        deadline = time.monotonic_ns() + int(seconds * 1e9)
        caller = SimpleNamespace(kind="volumes", uid=0, pid=1, deadline_ns=deadline)
        return await self.process.channels.ask(message, caller)


@pytest.fixture
def speak(plane, tmp_path):
    """Run a story of the handlers as a node, of which the administrator sees the objects."""
    path = f"/api/v1/nodes/{NAME}"
    plane.admin.create("/api/v1/nodes", {"metadata": {"name": NAME}})

    def run(story):
        async def work():
            endpoint = await read_endpoint(str(plane.node_kubeconfig(NAME)), None)
            connection = Connection(endpoint, lambda _error: None)
            process = Standing(tmp_path, "--kubeconfig=/k")
            process.node = NAME
            try:
                words = Words(process, connection)
                words.kit.view.heard(plane.admin.get(path))
                await story(words)
            finally:
                await process.end()
                await connection.close()

        asyncio.run(work())

    yield run
    plane.admin.delete(path)
    plane.admin.delete(f"{CSINODES}/{NAME}")


def test_a_node_may_name_its_csi_drivers(plane, speak):
    """L-41: the API server takes annotation, labels and CSINode from a node, and their removal."""
    first = RegisterCsiDriver("one.example.com", "id-1", 5, {"example.com/zone": "z1"})
    second = RegisterCsiDriver("two.example.com", "id-2")

    async def story(words):
        found = await asyncio.gather(words.ask(first), words.ask(second))
        assert found == [CsiDriverNoted(), CsiDriverNoted()]
        node = plane.admin.get(f"/api/v1/nodes/{NAME}")["metadata"]
        ids = {"one.example.com": "id-1", "two.example.com": "id-2"}
        assert json.loads(node["annotations"][NODE_IDS]) == ids
        assert node["labels"]["example.com/zone"] == "z1"
        drivers = {d["name"]: d for d in plane.admin.get(f"{CSINODES}/{NAME}")["spec"]["drivers"]}
        assert sorted(drivers) == sorted(ids)
        assert drivers["one.example.com"]["allocatable"] == {"count": 5}
        assert drivers["one.example.com"]["topologyKeys"] == ["example.com/zone"]
        version = plane.admin.get(f"{CSINODES}/{NAME}")["metadata"]["resourceVersion"]
        assert await words.ask(first) == CsiDriverNoted()
        again = plane.admin.get(f"{CSINODES}/{NAME}")["metadata"]["resourceVersion"]
        assert again == version, "nothing is written twice"
        assert await words.ask(UnregisterCsiDriver("one.example.com")) == CsiDriverNoted()
        left = plane.admin.get(f"{CSINODES}/{NAME}")["spec"]["drivers"]
        assert [driver["name"] for driver in left] == ["two.example.com"]

    speak(story)


def test_a_node_may_tell_how_a_claim_grows(plane, speak):
    """L-16: each step is taken by the API server; the claim is as large as it says at the end."""
    namespace, admin = "grows", plane.admin
    make_namespace(plane, namespace)
    admin.create(VOLUMES, volume("pv-grows", "data", namespace))
    path = make_claim(admin, namespace, "data", "pv-grows")
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    document = pod("uses", sleeper(), volumes=volumes)
    document["spec"]["nodeName"] = NAME
    admin.create(f"/api/v1/namespaces/{namespace}/pods", document)

    def status():
        return admin.get(path)["status"]

    async def story(words):
        begun = NoteClaimResize(namespace, "data", "begun")
        while (noted := await words.ask(begun)).error:  # the authorizer hears of the pod
            assert "no relationship found" in noted.error
            await asyncio.sleep(0.05)
        assert status()["allocatedResourceStatuses"] == {"storage": "NodeResizeInProgress"}
        failed = NoteClaimResize(namespace, "data", "failed", error="no", infeasible=True)
        assert await words.ask(failed) == ClaimNoted()
        assert status()["allocatedResourceStatuses"] == {"storage": "NodeResizeInfeasible"}
        (condition,) = status()["conditions"]
        assert condition["type"] == "NodeResizeError"
        assert condition["message"] == "failed to expand pvc with no"
        assert await words.ask(begun) == ClaimNoted()
        done = NoteClaimResize(namespace, "data", "done", capacity="2Gi")
        assert await words.ask(done) == ClaimNoted()
        assert await words.ask(done) == ClaimNoted()
        found = status()
        assert found["capacity"] == {"storage": "2Gi"}
        assert not found.get("conditions")
        assert not found.get("allocatedResourceStatuses")

    try:
        speak(story)
    finally:
        admin.delete(f"/api/v1/namespaces/{namespace}/pods/uses", gracePeriodSeconds=0)
        admin.delete(f"/api/v1/namespaces/{namespace}")
        admin.delete(f"{VOLUMES}/pv-grows")


async def attached(words, name):
    """Ask until the authorizer has heard of an attachment, which nobody is told."""
    while True:
        found = await words.ask(GetAttachment(name))
        if found.attached:
            return found
        await asyncio.sleep(0.05)


def test_a_node_may_read_its_attachments(plane, speak):
    """L-44: that of its own once the API server knows of it; until then it says why not."""
    name, admin = "csi-words-1", plane.admin
    source = {"persistentVolumeName": "pv"}
    spec = {"attacher": "none.example.com", "nodeName": NAME, "source": source}

    async def story(words):
        early = await words.ask(GetAttachment(name))
        assert not early.found
        assert "no relationship found" in early.error
        admin.create(ATTACHMENTS, {"metadata": {"name": name}, "spec": spec})
        status = {"attached": True, "attachmentMetadata": {"path": "/dev/x"}}
        admin.patch(f"{ATTACHMENTS}/{name}/status", {"status": status})
        found = await attached(words, name)
        assert found == Attachment(True, attached=True, metadata={"path": "/dev/x"})

    try:
        speak(story)
    finally:
        admin.delete(f"{ATTACHMENTS}/{name}")
