"""The node's object and lease, as an administrator sees them."""

from __future__ import annotations

import os
import platform
import re
import socket

import pytest

from tests.cluster.admin import Refused
from tests.cluster.cluster_node import GO, under_test
from tests.node import images
from tests.node.pod_node import is_ready, pod
from tests.node.shared import condition

CONFIG = {
    "nodeStatusUpdateFrequency": "1s",
    "nodeLeaseDurationSeconds": 8,  # renewed each 2 s
    "maxPods": 42,
    "systemReserved": {"cpu": "200m", "memory": "100Mi", "ephemeral-storage": "1Gi"},
    "kubeReserved": {"cpu": "100m", "memory": "50Mi"},
    "registerWithTaints": [{"key": "dedicated", "value": "tests", "effect": "PreferNoSchedule"}],
}
ARGUMENTS = ("--node-labels=rack=r1,node.kubernetes.io/pool=blue",)
MIB = 1 << 20


def meminfo(field):
    """A line of /proc/meminfo, in KiB."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def first_address():
    """The address that this machine speaks to others from."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("203.0.113.1", 9))
        return sock.getsockname()[0]


def test_a_node_registers_with_its_labels_and_taints(node):
    """Default labels, those of the command line, the annotation and the taint (N-2..N-4)."""
    found = node.await_ready()
    arch = images.architecture()
    wanted = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": arch,
        "rack": "r1",
        "node.kubernetes.io/pool": "blue",
    }
    assert found["metadata"]["labels"] == wanted
    attach = "volumes.kubernetes.io/controller-managed-attach-detach"
    assert found["metadata"]["annotations"][attach] == "true"
    taint = {"key": "dedicated", "value": "tests", "effect": "PreferNoSchedule"}
    assert found["spec"]["taints"] == [taint]


def test_a_ready_node_says_so_and_nothing_else(node):
    """Four conditions with their reasons and messages (N-14)."""
    found = node.await_ready()["status"]["conditions"]
    said = {c["type"]: (c["status"], c["reason"], c["message"]) for c in found}
    assert said == {
        "MemoryPressure": (
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
    }
    for entry in found:
        assert entry["lastTransitionTime"] <= entry["lastHeartbeatTime"]


def test_capacity_is_the_machines_and_allocatable_is_less(node):
    """Capacity as the kernel has it; allocatable without what is reserved (N-16, N-17)."""
    status = node.await_ready()["status"]
    memory, cores = meminfo("MemTotal"), os.cpu_count()
    disk = os.statvfs(node.kubelet.root_dir)
    storage = disk.f_blocks * disk.f_frsize
    capacity, allocatable = status["capacity"], status["allocatable"]
    assert (capacity["cpu"], capacity["pods"]) == (str(cores), "42")
    assert capacity["memory"] == f"{memory}Ki"
    assert capacity["ephemeral-storage"] == f"{storage // 1024}Ki"
    assert (allocatable["cpu"], allocatable["pods"]) == (f"{cores * 1000 - 300}m", "42")
    assert allocatable["memory"] == f"{memory - (100 + 50 + 50) * 1024}Ki"
    left = storage - (1 << 30) - storage * 0.01  # reserved, and the bar of eviction
    assert int(allocatable["ephemeral-storage"]) == pytest.approx(left, abs=MIB)


def test_addresses_and_the_port_are_how_the_node_is_reached(node):
    """InternalIP is the address that others see; Hostname comes last (N-19)."""
    status = node.await_ready()["status"]
    assert status["addresses"] == [
        {"type": "InternalIP", "address": first_address()},
        {"type": "Hostname", "address": node.name},
    ]
    assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == node.kubelet.config["port"]


def test_node_info_names_the_machine_and_its_software(node):
    """Kernel, boot, system, runtime and versions (N-15)."""
    info = node.await_ready()["status"]["nodeInfo"]
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        assert info["bootID"] == file.read().strip()
    assert info["kernelVersion"] == platform.release()
    assert (info["operatingSystem"], info["architecture"]) == ("linux", images.architecture())
    assert info["containerRuntimeVersion"] == "containerd://2.4.2"
    assert re.fullmatch(r"v1\.\d+\.\d+.*", info["kubeletVersion"])
    assert info["kubeProxyVersion"] == ""
    assert info["machineID"]
    assert info["systemUUID"]
    assert info["osImage"]


def test_the_images_of_the_node_are_listed(node):
    """The largest first, with their names (N-18)."""
    found = node.await_ready()["status"]["images"]
    named = [image["names"][-1] for image in found]
    assert named == [images.BUSYBOX, images.PAUSE]
    sizes = [image["sizeBytes"] for image in found]
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes) > 0


def test_get_nodes_shows_the_usual_columns(node):
    """``kubectl get nodes -o wide`` has a word for each column."""
    head, line = node.kubectl("get", "nodes", node.name, "-o", "wide").splitlines()
    assert head.split() == [
        "NAME",
        "STATUS",
        "ROLES",
        "AGE",
        "VERSION",
        "INTERNAL-IP",
        "EXTERNAL-IP",
        "OS-IMAGE",
        "KERNEL-VERSION",
        "CONTAINER-RUNTIME",
    ]
    words = line.split()
    assert words[:3] == [node.name, "Ready", "<none>"]
    assert words[5:7] == [first_address(), "<none>"]
    assert words[-1] == "containerd://2.4.2"


def test_describe_node_has_every_part(node):
    """``kubectl describe node`` shows lease, conditions, resources and pods."""
    node.create(pod("seen"))
    node.await_pod_ready("seen")
    node.admin.wait_one("the lease", node.lease_path, bool)
    text = node.kubectl("describe", "node", node.name)
    assert re.search(rf"Lease:\n +HolderIdentity: +{node.name}\n", text), text
    assert re.search(r"Ready +True .* KubeletReady +kubelet is posting ready status", text)
    assert re.search(r"Unschedulable: +false", text)
    assert re.search(rf"{node.namespace} +seen +0 \(0%\)", text)
    assert re.search(r"Non-terminated Pods: +\(1 in total\)", text)


def test_the_lease_is_the_nodes_own_and_is_renewed(node):
    """Holder, duration and owner; a quarter of the duration later it is renewed (N-30)."""
    lease = node.admin.wait_one("the lease", node.lease_path, lambda lease: lease)
    spec = lease["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (node.name, 8)
    (owner,) = lease["metadata"]["ownerReferences"]
    uid = node.admin.get(node.path)["metadata"]["uid"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", node.name, uid)
    node.admin.wait_one(
        "the lease is renewed",
        node.lease_path,
        lambda lease: lease["spec"]["renewTime"] > spec["renewTime"],
        seconds=8,
    )


def test_a_lease_that_is_deleted_comes_back(node):
    """Somebody deletes the lease; the node is not taken for dead."""
    before = node.admin.wait_one("the lease", node.lease_path, lambda lease: lease)
    node.admin.delete(node.lease_path)

    def renewed(lease):
        return lease and lease["metadata"]["uid"] != before["metadata"]["uid"]

    node.admin.wait_one("another lease", node.lease_path, renewed, seconds=15)
    assert is_ready(node.admin.get(node.path)["status"])


def test_a_cordoned_node_says_so(node):
    """NodeNotSchedulable and NodeSchedulable are events of the node (N-23)."""
    node.kubectl("cordon", node.name)
    node.await_event(node.name, "NodeNotSchedulable", namespace="default")
    node.kubectl("uncordon", node.name)
    node.await_event(node.name, "NodeSchedulable", namespace="default")


def test_labels_of_the_machine_are_put_right(node):
    """What others make of the labels for system and architecture does not stay (N-8)."""
    wrong = {"kubernetes.io/os": "plan9", "kubernetes.io/arch": "pdp11"}
    node.admin.patch(node.path, {"metadata": {"labels": wrong}})

    def right(found):
        labels = found["metadata"]["labels"]
        names = (labels["kubernetes.io/os"], labels["kubernetes.io/arch"])
        return names == ("linux", images.architecture())

    node.await_node("the labels are right", right, seconds=20)


def test_what_the_administrator_says_survives_a_restart(node):
    """A restart changes no foreign label, annotation or taint, and no flag comes back (N-5)."""
    changes = {"labels": {"team": "a", "rack": None}, "annotations": {"note": "x"}}
    node.admin.patch(node.path, {"metadata": changes, "spec": {"taints": None}})
    node.kubectl("taint", "node", node.name, "mine=1:PreferNoSchedule")
    before = node.admin.get(node.path)["metadata"]
    heartbeat = condition_time(node.await_ready())
    node.kubelet.stop()
    node.kubelet.start()
    found = node.await_node(
        "a new heartbeat",
        lambda n: n if is_ready(n["status"]) and condition_time(n) > heartbeat else None,
    )
    labels = found["metadata"]["labels"]
    assert labels["team"] == "a"
    assert "rack" not in labels
    assert found["metadata"]["annotations"]["note"] == "x"
    assert [t["key"] for t in found["spec"]["taints"]] == ["mine"]
    assert found["metadata"]["uid"] == before["uid"]


def condition_time(found):
    """When a node last spoke of its being ready."""
    return next(
        c["lastHeartbeatTime"] for c in found["status"]["conditions"] if c["type"] == "Ready"
    )


def test_a_deleted_node_registers_again(node):
    """A node whose object is deleted comes back by itself, ready, and runs pods."""
    if under_test() == GO:
        pytest.skip("the Go kubelet registers once, when it starts")
    before = node.await_ready()["metadata"]["uid"]
    node.admin.delete(node.path)

    def back(found):
        return found and found["metadata"]["uid"] != before and is_ready(found["status"])

    node.await_node("another node object", back, seconds=30)
    node.await_schedulable()
    node.create(pod("later"))
    node.await_pod_ready("later")
    (owner,) = node.admin.wait_one(
        "a lease of the new node",
        node.lease_path,
        lambda lease: [
            o
            for o in lease.get("metadata", {}).get("ownerReferences", ())
            if o["uid"] not in {before, ""}
        ],
    )
    assert owner["uid"] == node.admin.get(node.path)["metadata"]["uid"]


def test_a_node_may_not_speak_for_others(node):
    """The certificate is a node's: NodeRestriction and the Node authorizer are on."""
    certificate = node.plane.user_files(f"node-{node.name}")
    own = type(node.admin)(node.plane.server, node.plane.ca, *certificate)
    assert own.get(node.path)["metadata"]["name"] == node.name
    with pytest.raises(Refused) as refused:
        own.get("/api/v1/secrets")
    assert refused.value.status == 403
    node.admin.ensure("/api/v1/nodes", {"metadata": {"name": "another"}})
    try:
        with pytest.raises(Refused) as refused:
            own.patch("/api/v1/nodes/another", {"metadata": {"labels": {"x": "y"}}})
        assert refused.value.status == 403
    finally:
        node.admin.delete("/api/v1/nodes/another")


def test_conditions_of_others_are_kept(node):
    """A condition that somebody else put into the status stays there."""
    other = {"type": "Cooled", "status": "True", "reason": "Fan", "message": "it turns"}
    path = f"{node.path}/status"
    node.admin.patch(path, {"status": {"conditions": [other]}}, "strategic")
    heartbeat = condition_time(node.admin.get(node.path))
    # Any change makes the node write all of its own.
    node.kubectl("cordon", node.name)
    node.kubelet.stop()
    node.kubelet.start()
    found = node.await_node(
        "a new heartbeat", lambda n: n if condition_time(n) > heartbeat else None
    )
    node.kubectl("uncordon", node.name)
    assert condition(found["status"], "Cooled") == ("True", "Fan")
    assert is_ready(found["status"])
