"""The Go kubelet and ours, one after the other: what each asks a CSI driver for the same pods.

Each call that a driver gets for a volume is compared, with its request and its answer, in order.
What is made the same first, and why:

- NodeGetCapabilities and NodeGetVolumeStats are left out: they change nothing, and how often a
  kubelet asks is its own affair (the Go kubelet asks for capabilities before each other call).
- The calls of one volume are in order, those of different volumes are not compared with each other:
  both kubelets work on several volumes at once.
- Volumes, pods, staging directories and the kubelet's root go by names of ours: they are others in
  each cluster.
- Of secrets and tokens the driver writes down only that they were there.

`REMAINING` is the list of what differs, with reasons; a difference that is not there fails, and so
does an entry that is no difference any more.
"""

from __future__ import annotations

import fnmatch
import json
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest

from tests.cluster.cluster_node import GO, cluster_node, quiet_port, under_test
from tests.cluster.csi_scene import BOTH_WAYS, Attacher, Csi, of_claim, user
from tests.cluster.documents import secret
from tests.cluster.fixtures import make_namespace
from tests.cluster.test_cluster_compare import flat
from tests.csi.process import needs_mounts
from tests.node.pod_node import PAUSE, SECONDS, sleeper
from tests.node.shared import pod
from tests.processes.node import wait_for

pytestmark = needs_mounts

NODE = "csi-same"
REGISTRATION = ("GetInfo", "NodeGetInfo", "NotifyRegistrationStatus")
STAGE, PUBLISH, UNPUBLISH, UNSTAGE = BOTH_WAYS
# Field, and why it differs.
REMAINING: dict[str, str] = {}


class Story:
    """What happens to volumes of a node; each is known by the name of its claim."""

    def __init__(self, node, near, far):
        self.node = node
        self.near = near
        self.far = far
        self.handles = {}
        self.uids = {}

    def claim(self, name, driver=None, **more):
        """A claim of a volume of the driver whose volumes need no attachment, unless told so."""
        self.handles[name] = (driver or self.near).claim(name, **more)
        return self.handles[name]

    def create(self, document):
        """A pod, whose name stands for its uid."""
        name = document["metadata"]["name"]
        self.uids[name] = self.node.create(document)["metadata"]["uid"]

    def run(self):
        """Do all that is compared."""
        self.prepare()
        for name in ("one", "brings", "raw", "still", "grows", "refused", "unsure", "far"):
            self.node.await_pod_ready(name)
        self.create(user("two", of_claim("files")))
        self.node.await_pod_ready("two")
        self.near.grow("grows", self.handles["grows"], "128Mi")
        self.near.driver.await_call("NodeExpandVolume", seconds=SECONDS)
        for name in sorted(self.uids):
            if name != "one":
                self.node.delete(name, gracePeriodSeconds=1)
        wait_for("one of two", lambda: self.count("files", UNPUBLISH) == 1, SECONDS, PAUSE)
        self.node.delete("one", gracePeriodSeconds=1)
        for name in sorted(self.uids):
            self.node.await_gone(name)
        for csi in (self.near, self.far):
            csi.await_nothing_left()

    def prepare(self):
        """Make the pods, all at once but for those whose calls are to go wrong."""
        namespace, near = self.node.namespace, self.near
        self.node.kubectl.apply(
            secret("stages", a="1"), secret("gives", b="2"), namespace=namespace
        )
        refs = {
            "nodeStageSecretRef": {"name": "stages", "namespace": namespace},
            "nodePublishSecretRef": {"name": "gives", "namespace": namespace},
        }
        for name, method, code in (("refused", PUBLISH, 13), ("unsure", STAGE, 4)):
            self.claim(name)
            near.driver.fault(method, "fail", code=code)
            self.create(user(name, of_claim(name)))
            self.node.await_pod_ready(name)
        attributes = {"colour": "green"}
        options = {"mountOptions": ["noatime"], "csi": {**refs, "volumeAttributes": attributes}}
        self.claim("files", **options)
        self.create(user("one", of_claim("files"), securityContext={"fsGroup": 4711}))
        self.create(user("brings", {"csi": {"driver": near.name, "volumeAttributes": attributes}}))
        self.claim("device", volumeMode="Block", size="1Mi")
        raw = sleeper(volumeDevices=[{"name": "data", "devicePath": "/dev/raw"}])
        self.create(pod("raw", raw, volumes=[{"name": "data", **of_claim("device")}]))
        self.claim("still", accessModes=["ReadOnlyMany"])
        self.create(user("still", of_claim("still", read_only=True)))
        self.claim("grows", grows=True, csi={"fsType": "tmpfs"})
        self.create(user("grows", of_claim("grows")))
        handle = self.claim("far", driver=self.far)
        self.create(user("far", of_claim("far")))
        Attacher(self.far).attach(handle, path="/dev/somewhere")

    def count(self, name, method):
        """How often a method was called for a volume."""
        return self.near.methods(self.handles[name]).count(method)

    def calls(self):
        """The calls of each volume, made comparable."""
        every = [call for csi in (self.near, self.far) for call in csi.driver.calls()]
        every_id = {c["request"].get("volume_id", "") for c in every}
        (inline,) = every_id - {*self.handles.values(), ""}
        names = {**self.handles, "inline": inline}
        found = {}
        for name, handle in names.items():
            for csi in (self.near, self.far):
                calls = csi.calls(handle)
                if calls:
                    found[name] = [self.plain(call) for call in calls]
        return found

    def plain(self, call):
        """A call without what is another one each time."""
        text = json.dumps({"request": call["request"], "code": call["code"]})
        for name, handle in self.handles.items():
            text = text.replace(sha256(handle.encode()).hexdigest(), f"<stage of {name}>")
            text = text.replace(handle, f"<{name}>")
        for name, uid in self.uids.items():
            text = text.replace(uid, f"<uid of {name}>")
        text = text.replace(str(self.near.root), "<root>").replace(self.node.namespace, "<ns>")
        plain = json.loads(text)
        handle = plain["request"]["volume_id"]
        if handle.startswith("csi-"):
            plain["request"]["volume_id"] = "<inline>"
        return {"method": call["method"], **plain}


def registered(csi):
    """The calls of a registration, each where it was made first."""
    return list(dict.fromkeys(m for m in csi.driver.methods() if m in REGISTRATION))


def observe(node):
    """Run the story with a kubelet; what its drivers were asked."""
    node.start()
    spec = {
        "podInfoOnMount": True,
        "tokenRequests": [{"audience": "vault"}],
        "volumeLifecycleModes": ["Persistent", "Ephemeral"],
        "fsGroupPolicy": "File",
    }
    with (
        Csi(node, "near.csi.test", **spec) as near,
        Csi(node, "far.csi.test", attachRequired=True) as far,
    ):
        story = Story(node, near, far)
        try:
            story.run()
            attacher = Attacher(far)
            attacher.await_unwanted(story.handles["far"])
            attacher.detach(story.handles["far"])
        finally:
            node.clear()
        return {"registration": registered(near), **story.calls()}


@pytest.fixture(scope="module")
def seen(plane, shared_containerd):
    """What the drivers were asked by the Go kubelet, and by the one under test."""
    config = {"port": quiet_port(), "syncFrequency": "2s"}  # how soon Go sees that a claim grows
    both = []
    for kind in (GO, under_test()):
        root = Path(tempfile.mkdtemp(prefix="kt-", dir="/dev/shm"))
        root.chmod(0o755)
        try:
            with cluster_node(
                plane, shared_containerd, root, NODE, kind=kind, config=config
            ) as node:
                node.namespace = f"csi-compare-{len(both)}"
                make_namespace(plane, node.namespace)
                try:
                    both.append(observe(node))
                finally:
                    plane.admin.delete(f"/api/v1/namespaces/{node.namespace}")
        finally:
            shutil.rmtree(root)
        shared_containerd.reset()
    return tuple(both)


def fields(calls):
    """Each field of each call by its path: volume, number of the call, method, field."""
    found = {}
    for volume, made in calls.items():
        for number, call in enumerate(made):
            if isinstance(call, str):
                found[f"{volume}.{number}"] = call
                continue
            path = f"{volume}.{number}.{call['method']}"
            found |= flat(call, path)
    return found


def differences(seen):
    """Each field that differs, with both values."""
    go, other = (fields(calls) for calls in seen)
    return {
        path: (go.get(path), other.get(path))
        for path in sorted({*go, *other})
        if go.get(path) != other.get(path)
    }


def test_the_same_calls_are_made_for_the_same_pods(seen):
    """L-42 to L-47: methods, order, requests and repetitions, but for the list."""
    found = {
        path: values
        for path, values in differences(seen).items()
        if not any(fnmatch.fnmatch(path, pattern) for pattern in REMAINING)
    }
    shown = "\n".join(f"{p}: Go {g!r}, ours {o!r}" for p, (g, o) in found.items())
    methods = [{v: [c["method"] for c in m if "method" in c] for v, m in s.items()} for s in seen]
    assert not found, f"these differ and are not listed:\n{shown}\n{json.dumps(methods, indent=1)}"


def test_every_listed_difference_is_one(seen):
    """The list holds nothing that is the same by now."""
    if under_test() == GO:
        pytest.skip("the Go kubelet does not differ from itself")
    stale = [p for p in REMAINING if not fnmatch.filter(differences(seen), p)]
    assert stale == []


def test_every_kind_of_volume_was_seen(seen):
    """The comparison is not one of nothing with nothing."""
    kinds = {"files", "device", "still", "grows", "refused", "unsure", "far", "inline"}
    for calls in seen:
        assert kinds <= {*calls}
        assert calls["registration"] == [*REGISTRATION]
