"""Static pods as the cluster sees them: mirror pods."""

from __future__ import annotations

from tests.node.pod_node import is_ready, pod, sleeper
from tests.node.shared import container_of

CONFIG = {"fileCheckFrequency": "1s"}
MIRROR = "kubernetes.io/config.mirror"


def place(node, name, **more):
    """Write a manifest; the name of the mirror."""
    spec = {"terminationGracePeriodSeconds": 2, **more}
    document = pod(name, meta={"namespace": node.namespace}, **spec)
    node.kubelet.write(document)
    return f"{name}-{node.name}"


def test_a_static_pod_has_a_mirror(node):
    """Its annotation, owner, status and address are there, and it is what runs (P-10, P-13)."""
    name = place(node, "seen")
    found = node.await_pod_ready(name)
    meta = found["metadata"]
    assert meta["annotations"][MIRROR] == meta["annotations"]["kubernetes.io/config.hash"]
    assert meta["annotations"]["kubernetes.io/config.source"] == "file"
    assert meta["annotations"]["kubernetes.io/config.seen"]
    (owner,) = meta["ownerReferences"]
    uid = node.admin.get(node.path)["metadata"]["uid"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", node.name, uid)
    assert owner["controller"] is True
    assert found["spec"]["nodeName"] == node.name
    assert {t.get("operator") for t in found["spec"]["tolerations"]} == {"Exists"}
    assert found["status"]["podIP"]


def test_a_deleted_mirror_comes_back(node):
    """To delete the mirror does not end the pod (P-15)."""
    name = place(node, "stays")
    first = node.await_pod_ready(name)
    node.delete(name)

    def another(found):
        new = found and found["metadata"]["uid"] != first["metadata"]["uid"]
        return found if new and is_ready(found["status"]) else None

    second = node.await_pod(name, "another mirror", another)
    assert (
        container_of(second["status"])["containerID"]
        == container_of(first["status"])["containerID"]
    )


def test_a_changed_manifest_changes_the_mirror(node):
    """Another hash is another mirror, and another pod (P-11)."""
    name = place(node, "moves")
    first = node.await_pod_ready(name)
    place(node, "moves", containers=[sleeper(env=[{"name": "A", "value": "1"}])])

    def another(found):
        new = found and found["metadata"]["annotations"][MIRROR] != hash_of(first)
        return found if new and is_ready(found["status"]) else None

    second = node.await_pod(name, "another mirror", another)
    assert second["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert (
        container_of(second["status"])["containerID"]
        != container_of(first["status"])["containerID"]
    )


def hash_of(found):
    """What a mirror says that it is of."""
    return found["metadata"]["annotations"][MIRROR]


def test_a_removed_manifest_removes_the_mirror(node):
    """No manifest, no pod, no mirror; also when nobody was there to see (P-14)."""
    name, other = place(node, "goes"), place(node, "vanishes")
    node.await_pod_ready(name)
    node.await_pod_ready(other)
    node.kubelet.remove("goes")
    node.await_gone(name)
    node.kubelet.stop()
    node.kubelet.remove("vanishes")
    node.kubelet.start()
    node.await_gone(other)


def test_a_mirror_that_lost_its_pod_meanwhile_is_made_anew(node):
    """A mirror deleted while no kubelet ran is there again after its start (P-12)."""
    name = place(node, "returns")
    first = node.await_pod_ready(name)
    node.kubelet.stop()
    node.delete(name, gracePeriodSeconds=0)
    node.kubelet.start()
    second = node.await_pod_ready(name)
    assert (
        container_of(second["status"])["containerID"]
        == container_of(first["status"])["containerID"]
    )
