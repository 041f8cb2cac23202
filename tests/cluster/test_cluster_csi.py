"""CSI drivers in a cluster: how they become known, and how pods get their volumes.

Everything is real: API server, controllers, containerd, and a driver that mounts. The same tests
pass with the Go kubelet but for what looks into our own tables.
"""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from kubelet.pods.rows import VolumeStatsRow
from procs.node.nodeobject.inuse import SETTLED_NS
from tests.cluster.cluster_node import OURS, under_test
from tests.cluster.csi_scene import (
    BOTH_WAYS,
    MIB,
    Attacher,
    Csi,
    drivers_of,
    of_claim,
    user,
)
from tests.cluster.documents import secret
from tests.csi.process import MockDriver, needs_mounts
from tests.csi.registrar import Registrar, socket_of
from tests.node.pod_node import PAUSE, SECONDS, sh
from tests.node.shared import pod
from tests.processes.node import wait_for
from tests.tools.install import Skip

pytestmark = needs_mounts
ours_only = pytest.mark.skipif(under_test() != OURS, reason="only our kubelet has it")

CONFIG = {"volumeStatsAggPeriod": "1s", "syncFrequency": "2s"}
NAME = "one.csi.test"
ZONE = "topology.csi.test/zone"
VOLUME_STAGE, VOLUME_PUBLISH, VOLUME_UNPUBLISH, VOLUME_UNSTAGE = BOTH_WAYS
TOKEN = {"audience": "vault", "expirationSeconds": 700}
INLINE = {"driver": NAME, "volumeAttributes": {"size": str(MIB)}}


@pytest.fixture(scope="module")
def drivers(shared_cluster_node):
    """The driver of most tests, whose volumes need no controller to attach them."""
    spec = {
        "podInfoOnMount": True,
        "tokenRequests": [TOKEN],
        "volumeLifecycleModes": ["Persistent", "Ephemeral"],
    }
    with drivers_of(shared_cluster_node) as make:
        yield make(NAME, **spec)


@pytest.fixture
def csi(node, drivers):
    """The driver, and a namespace of the test's own."""
    assert drivers.node is node
    return drivers


@pytest.fixture
def other(node):
    """Make other drivers, which are gone after the test."""
    with drivers_of(node) as make:
        yield make


# --- registration (L-40, L-41) -------------------------------------------------------------------


def test_a_driver_that_comes_and_goes_is_known_for_as_long(node, other):
    """L-41: CSINode, annotation and labels; after its socket is gone, only the labels stay."""
    made = other("comes.csi.test", "--max-volumes=7", f"--topology={ZONE}=z1")
    entry = made.entry()
    assert entry == {
        "name": made.name,
        "nodeID": f"id-of-{node.name}",
        "allocatable": {"count": 7},
        "topologyKeys": [ZONE],
    }
    assert made.node_ids()[made.name] == f"id-of-{node.name}"
    assert node.admin.get(node.path)["metadata"]["labels"][ZONE] == "z1"
    made.driver.stop()
    made.await_entry("it is gone", lambda found: found is None)
    node.await_node("no annotation", lambda _: made.name not in made.node_ids())
    assert node.admin.get(node.path)["metadata"]["labels"][ZONE] == "z1"
    made.driver.start()
    made.await_registered()


def test_a_driver_that_was_killed_registers_again_when_it_starts(csi):
    """Its sockets stay, so it stays known; what is made anew registers anew, with what is new."""
    before = len(csi.driver.calls("NodeGetInfo"))
    csi.driver.kill()
    assert csi.entry() is not None
    csi.driver.set(max_volumes=9)
    csi.driver.start()
    csi.await_entry("what is new", lambda e: e and e.get("allocatable") == {"count": 9})
    assert len(csi.driver.calls("NodeGetInfo")) > before
    noted = csi.driver.await_call("NotifyRegistrationStatus")[-1]["request"]
    assert noted["plugin_registered"]


@ours_only
def test_a_killed_volumes_process_finds_its_drivers(csi, node):
    """The sockets are enough: CSINode is not touched, and volumes are mounted as before."""
    version = csi.await_entry("registered", bool)["metadata"]["resourceVersion"]
    asked = len(csi.driver.calls("NodeGetInfo"))
    kill_volumes(node)
    csi.driver.await_call("NodeGetInfo", asked + 1)
    assert csi.await_entry("registered", bool)["metadata"]["resourceVersion"] == version
    csi.claim("after")
    assert node.run(user("after", of_claim("after"), "echo well")) == "well\n"


def kill_volumes(node):
    """Kill the process that mounts, and wait until its successor works."""
    kubelet = node.kubelet
    pid = kubelet.pids()["volumes"]
    os.kill(pid, signal.SIGKILL)
    wait_for("volumes is back", lambda: kubelet.beating("volumes", pid), SECONDS)


def test_a_second_socket_for_the_same_driver(csi):
    """L-41: refused with the same version of CSI, taken with a higher one."""
    socket = csi.registry / "second-reg.sock"
    with Registrar(str(socket), csi.name, csi.driver.endpoint) as second:
        registered, error = second.statuses.get(timeout=SECONDS)
        assert not registered
        assert csi.name in error
    with Registrar(str(socket), csi.name, csi.driver.endpoint, ("1.99.0",)) as third:
        refused = True
        while refused:  # the socket's predecessor may be heard once more
            registered, error = third.statuses.get(timeout=SECONDS)
            refused = not registered
        assert error == ""
    # The Go kubelet forgets a driver with whichever of its sockets; it registers anew.
    csi.driver.stop()
    csi.driver.start()
    csi.await_registered()


# --- volumes that nobody attaches (L-42 to L-47) -------------------------------------------------


def test_what_one_pod_writes_the_next_one_reads(csi, node):
    """Stage, publish, unpublish, unstage, twice; and nothing is left but the driver's content."""
    handle = csi.claim("kept")
    node.run(user("writes", of_claim("kept"), "echo content >/data/file"))
    csi.await_methods(handle, *BOTH_WAYS)
    assert node.run(user("reads", of_claim("kept"), "cat /data/file")) == "content\n"
    csi.await_methods(handle, *BOTH_WAYS, *BOTH_WAYS)
    csi.await_nothing_left()


def test_two_pods_share_a_stage(csi, node):
    """Staged for the first, unstaged after the last; each has a mount of its own."""
    handle = csi.claim("shared")
    for name in ("first", "second"):
        node.create(user(name, of_claim("shared")))
        node.await_pod_ready(name)
    csi.await_methods(handle, VOLUME_STAGE, VOLUME_PUBLISH, VOLUME_PUBLISH)
    assert len(csi.mounts(handle)) == 2
    csi.end("first")
    csi.await_methods(handle, VOLUME_STAGE, VOLUME_PUBLISH, VOLUME_PUBLISH, VOLUME_UNPUBLISH)
    csi.end("second")
    csi.await_methods(
        handle, VOLUME_STAGE, *[VOLUME_PUBLISH] * 2, *[VOLUME_UNPUBLISH] * 2, VOLUME_UNSTAGE
    )
    csi.await_nothing_left()


def test_a_driver_is_told_secrets_pod_and_tokens(csi, node):
    """L-45: each call has its own secret; publishing has the pod's names and tokens."""
    node.kubectl.apply(
        secret("stages", one="1111"), secret("publishes", two="2222"), namespace=node.namespace
    )
    refs = {
        f"node{step}SecretRef": {"name": name, "namespace": node.namespace}
        for step, name in (("Stage", "stages"), ("Publish", "publishes"))
    }
    csi_spec = {**refs, "volumeAttributes": {"colour": "green"}, "fsType": "tmpfs"}
    handle = csi.claim("told", csi=csi_spec, mountOptions=["noatime"])
    uid = node.create(user("told", of_claim("told")))["metadata"]["uid"]
    node.await_pod_ready("told")
    staged, published = (csi.request(handle, m) for m in (VOLUME_STAGE, VOLUME_PUBLISH))
    assert (staged["secrets"], published["secrets"]) == (["one"], ["two"])
    assert staged["volume_context"] == {"colour": "green"}
    assert published["volume_context"] == {
        "colour": "green",
        "csi.storage.k8s.io/pod.name": "told",
        "csi.storage.k8s.io/pod.namespace": node.namespace,
        "csi.storage.k8s.io/pod.uid": uid,
        "csi.storage.k8s.io/serviceAccount.name": "default",
        "csi.storage.k8s.io/ephemeral": "false",
        "csi.storage.k8s.io/serviceAccount.tokens": "<secret>",
    }
    capability = published["volume_capability"]
    assert capability["mount"] == {"fs_type": "tmpfs", "mount_flags": ["noatime"]}
    assert published["staging_target_path"] == staged["staging_target_path"]
    assert "2222" not in node.kubelet.log()


def test_a_volume_belongs_to_the_pods_group(csi, node):
    """L-33: a file system with a type that one node writes to is given to the group."""
    csi.claim("owned", csi={"fsType": "tmpfs"})
    script = "stat -c '%g %a' /data; touch /data/f; stat -c %g /data/f"
    context = {"fsGroup": 4711, "runAsUser": 1000}
    written = node.run(user("owned", of_claim("owned"), script, securityContext=context))
    assert written == "4711 3777\n4711\n"  # a tmpfs is sticky


def test_a_volume_that_is_only_read(csi, node):
    """The driver is told, and the container cannot write."""
    handle = csi.claim("still")
    script = "touch /data/f 2>/dev/null || echo refused"
    assert node.run(user("still", of_claim("still", read_only=True), script)) == "refused\n"
    assert csi.request(handle, VOLUME_PUBLISH)["readonly"] is True


def test_a_volume_that_a_pod_brings_along(csi, node):
    """L-47: published without a stage, gone with its pod."""
    document = user("brings", {"csi": INLINE}, "echo x >/data/f; cat /data/f")
    assert node.run(document) == "x\n"
    uid = node.pod("brings")["metadata"]["uid"]

    def target(call):
        return uid in call["request"].get("target_path", "")

    handle = next(c for c in csi.driver.calls(VOLUME_PUBLISH) if target(c))["request"]["volume_id"]
    csi.await_methods(handle, VOLUME_PUBLISH, VOLUME_UNPUBLISH)
    context = csi.request(handle, VOLUME_PUBLISH)["volume_context"]
    assert context["csi.storage.k8s.io/ephemeral"] == "true"
    assert context["size"] == str(MIB)


def test_a_volume_of_a_claim_that_is_made_with_the_pod(csi, node):
    """A generic ephemeral volume: its claim is the pod's own, and ends with it."""
    handle = csi.volume("generic-data")
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Mi"}},
    }
    source = {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    assert node.run(user("generic", source, "echo x >/data/f; cat /data/f")) == "x\n"
    csi.end("generic")
    csi.await_methods(handle, *BOTH_WAYS)
    node.admin.wait_gone(csi.claim_path("generic-data"))


def test_a_volume_that_is_a_device(csi, node):
    """L-34: staged and published as a device, which the container reads and writes."""
    handle = csi.claim("raw", volumeMode="Block", size="1Mi")
    script = "test -b /dev/raw && echo block >/dev/raw && head -c 5 /dev/raw"
    container = sh(script, volumeDevices=[{"name": "data", "devicePath": "/dev/raw"}])
    volumes = [{"name": "data", **of_claim("raw")}]
    assert node.run(pod("raw", container, volumes=volumes)) == "block\n"
    csi.await_methods(handle, *BOTH_WAYS)
    assert "block" in csi.request(handle, VOLUME_PUBLISH)["volume_capability"]
    csi.await_nothing_left()


@ours_only
def test_how_full_a_volume_is_comes_from_its_driver(csi, node):
    """L-50: capacity and use as the driver says, and its condition."""
    handle = csi.claim("full", csi={"fsType": "tmpfs"})
    csi.driver.set(conditions={handle: "it smells"})
    uid = node.create(user("full", of_claim("full")))["metadata"]["uid"]
    node.await_pod_ready("full")

    def look():
        value = node.kubelet._rows("volumestats").get(uid)
        found = VolumeStatsRow.from_wire(value).volumes if value is not None else ()
        return next((v for v in found if v.name == "data" and v.capacity > 0), None)

    stats = wait_for("statistics", look, SECONDS, PAUSE)
    assert stats.claim == f"{node.namespace}/full"
    assert stats.capacity == 64 * MIB
    assert (stats.abnormal, stats.message) == (True, "it smells")


def test_a_claim_that_grows_in_use(csi, node):
    """L-16: the driver grows it, the claim says so, and so do events; the pod is not disturbed."""
    handle = csi.claim("grows", grows=True, csi={"fsType": "tmpfs"})
    node.create(user("grows", of_claim("grows")))
    before = node.await_pod_ready("grows")["status"]["containerStatuses"]
    csi.grow("grows", handle, "128Mi")

    def grown(claim):
        status = claim.get("status", {})
        return status.get("capacity") == {"storage": "128Mi"} and not status.get("conditions")

    path = csi.claim_path("grows")
    node._complaining(lambda: node.admin.wait_one("the claim has grown", path, grown))
    asked = csi.request(handle, "NodeExpandVolume")
    assert asked["capacity_range"] == {"required_bytes": str(128 * MIB)}
    assert "allocatedResourceStatuses" not in node.admin.get(path)["status"]
    for kind in ("Pod", "PersistentVolumeClaim"):
        node.await_event(
            "grows",
            "FileSystemResizeSuccessful",
            lambda e, kind=kind: e["involvedObject"]["kind"] == kind,
        )
    (point,) = csi.mounts(handle)
    assert os.statvfs(point).f_blocks * os.statvfs(point).f_frsize == 128 * MIB
    assert node.pod("grows")["status"]["containerStatuses"] == before


# --- volumes that a controller attaches (L-13, L-44) ---------------------------------------------


def test_a_volume_is_attached_before_and_detached_after_its_use(node, other):
    """The pod waits for its attachment; the cluster waits with the detachment for the unstage."""
    csi = other("attached.csi.test", attachRequired=True)
    handle = csi.claim("far")
    attacher = Attacher(csi)
    device = f"kubernetes.io/csi/{csi.name}^{handle}"
    node.create(user("far", of_claim("far")))
    attacher.await_wanted(handle)
    if under_test() == OURS:
        look = waiting_words(node, "far")
        wait_for("it is not attached", lambda: "not attached" in look(), SECONDS, PAUSE)
        attacher.fail(handle, "the shelf is full")
        wait_for("why it is not", lambda: "the shelf is full" in look(), SECONDS, PAUSE)
    assert csi.methods(handle) == []
    node.await_node("in use", lambda n: device in n["status"].get("volumesInUse", ()))
    attacher.attach(handle, path="/dev/somewhere")
    node.await_pod_ready("far")
    for method in (VOLUME_STAGE, VOLUME_PUBLISH):
        assert csi.request(handle, method)["publish_context"] == {"path": "/dev/somewhere"}
    assert device in node.admin.get(node.path)["status"]["volumesInUse"]
    csi.driver.fault(VOLUME_UNSTAGE, "hang")
    node.delete("far", gracePeriodSeconds=1)
    csi.driver.await_call(VOLUME_UNSTAGE, ended=False)
    found = node.admin.get(attacher.path(handle))
    assert "deletionTimestamp" not in found["metadata"], "it is staged still"
    assert device in node.admin.get(node.path)["status"]["volumesInUse"]
    csi.driver.clear(VOLUME_UNSTAGE)
    attacher.await_unwanted(handle)
    csi.await_methods(handle, *BOTH_WAYS)
    attacher.detach(handle)
    node.await_node("not in use", lambda n: device not in n["status"].get("volumesInUse", ()))


def waiting_words(node, name):
    """Return a look at what kubeletctl says of why a pod waits."""
    return lambda: node.kubelet.ctl("why", f"{node.namespace}/{name}").stdout


@ours_only
def test_a_volume_stays_in_use_while_it_is_staged_whoever_dies(node, other):
    """L-13: a successor that finds a volume on disk has it in use until it is unstaged."""
    csi = other("attached.csi.test", attachRequired=True)
    handle = csi.claim("far")
    attacher = Attacher(csi)
    device = f"kubernetes.io/csi/{csi.name}^{handle}"
    node.create(user("far", of_claim("far")))
    attacher.attach(handle)
    node.await_pod_ready("far")
    csi.driver.fault(VOLUME_UNSTAGE, "hang")
    node.delete("far", gracePeriodSeconds=1)
    csi.driver.await_call(VOLUME_UNSTAGE, ended=False)
    kill_volumes(node)
    csi.driver.await_call(VOLUME_UNSTAGE, 2, ended=False)

    def free(found):
        return device not in found["status"].get("volumesInUse", ())

    with pytest.raises(AssertionError, match="not within"):
        node.admin.wait_one("it is not in use", node.path, free, SETTLED_NS / 1e9 + 2)
    assert "deletionTimestamp" not in node.admin.get(attacher.path(handle))["metadata"]
    csi.driver.clear(VOLUME_UNSTAGE)
    attacher.await_unwanted(handle)
    attacher.detach(handle)
    node.await_node("it is not in use", free)


# --- the published driver ------------------------------------------------------------------------


def test_the_published_mock_driver(node):
    """A driver that is not ours, and mounts nothing: all calls for a pod's volume, and no trace."""
    program = MockDriver.program()
    if isinstance(program, Skip):
        pytest.skip(program.reason)
    csi = Csi(node, "mock.csi.test")
    place = node.kubelet.root_dir / "plugins" / "mock"
    place.mkdir(parents=True)
    socket = socket_of(csi.registry, csi.name)
    with (
        contextlib.closing(Forgotten(csi)),
        MockDriver(place, "-disable-attach", name=csi.name) as driver,
        Registrar(socket, csi.name, driver.endpoint) as registrar,
    ):
        assert registrar.statuses.get(timeout=SECONDS) == (True, "")
        csi.claim("mock", csi={"volumeHandle": "1"})
        node.create(user("mock", of_claim("mock")))
        node.await_pod_ready("mock")
        csi.end("mock")

        def made():
            calls = [c for c in driver.calls("1") if "GetVolumeStats" not in c["Method"]]
            assert not [c for c in calls if c["Error"]]
            return [c["Method"].rpartition("/")[2] for c in calls]

        wait_for("all calls", lambda: made() == BOTH_WAYS, SECONDS, PAUSE)
        csi.await_nothing_left()


class Forgotten:
    """A driver that the cluster knows until this is closed."""

    def __init__(self, csi):
        csi.describe()
        self.close = csi.forget
