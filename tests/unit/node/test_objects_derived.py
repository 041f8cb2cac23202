"""What pods refer to through claims and CSI drivers: rows, secrets and tokens (L-16, L-45)."""

from __future__ import annotations

import pytest
from objects_scene import later, on_stage, pod, secret, turns

from kubelet.cluster.rows import CsiDriverRow, ListedRow, TokenRequestRow, token_key
from procs.node.objects import claims, csidrivers, derived
from procs.node.objects.csidrivers import CsiDrivers
from procs.node.objects.listed import listed

CLAIM = "/api/v1/namespaces/ns/persistentvolumeclaims/data"
VOLUME = "/api/v1/persistentvolumes/pv-1"
USES = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}
INLINE = {"volumes": [{"name": "d", "csi": {"driver": "a.example.com"}}]}
STAGE = "secret/vault/stage"
TOKEN = token_key("u1", "vault", 3600)


def claim(phase="Bound", **status):
    metadata = {"name": "data", "resourceVersion": "1"}
    spec = {"volumeName": "pv-1", "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, **status}}


def volume(**csi):
    spec = {"claimRef": {"namespace": "ns", "name": "data"}, "capacity": {"storage": "1Gi"}}
    return {
        "metadata": {"name": "pv-1"},
        "spec": {**spec, "csi": {"driver": "a.example.com"} | csi},
    }


def driver(name="a.example.com", **spec):
    return {"metadata": {"name": name}, "spec": spec}


def asks(*audiences):
    return driver(tokenRequests=[{"audience": audience} for audience in audiences])


def tokens(scene):
    keys = scene.keys()
    return [key for key in keys if key.startswith("token/")]


STAGED = volume(nodeStageSecretRef={"name": "stage", "namespace": "vault"})


@pytest.mark.parametrize(
    ("spec", "row"),
    [
        ({}, CsiDriverRow("d")),
        (None, CsiDriverRow("d")),
        (
            {
                "attachRequired": False,
                "podInfoOnMount": True,
                "fsGroupPolicy": "File",
                "volumeLifecycleModes": ["Ephemeral", "Persistent"],
                "requiresRepublish": True,
                "tokenRequests": [{"audience": ""}, {"audience": "v", "expirationSeconds": 600}],
                "serviceAccountTokenInSecrets": True,
                "seLinuxMount": True,
                "nodeAllocatableUpdatePeriodSeconds": 60,
            },
            CsiDriverRow(
                "d",
                attach_required=False,
                pod_info_on_mount=True,
                fs_group_policy="File",
                lifecycle_modes=("Ephemeral", "Persistent"),
                requires_republish=True,
                token_requests=(TokenRequestRow(""), TokenRequestRow("v", 600)),
                tokens_in_secrets=True,
                selinux_mount=True,
                update_seconds=60,
            ),
        ),
        (
            {
                "attachRequired": "no",
                "fsGroupPolicy": 3,
                "volumeLifecycleModes": [],
                "tokenRequests": [7, {"audience": None}, {"audience": "v", "expirationSeconds": 0}],
                "nodeAllocatableUpdatePeriodSeconds": -1,
            },
            CsiDriverRow("d", token_requests=(TokenRequestRow("v"),)),
        ),
    ],
)
def test_the_row_of_a_csi_driver(spec, row):
    """L-45, L-47: what is absent or odd is as the API defaults it."""
    assert csidrivers.row_of({"metadata": {"name": "d"}, "spec": spec}) == row


@pytest.mark.parametrize("item", [{}, {"metadata": 5}, {"metadata": {"name": "x" * 300}}])
def test_csi_drivers_without_a_name_are_passed_over(item):
    """There is nothing to call them."""
    assert csidrivers.key_of(item) == ""


def test_csi_drivers_are_listed_and_followed(tmp_path):
    """Rows, that all are there, and the name of each that changes."""

    async def work(scene):
        scene.server.items = lambda _watched: [driver("a"), driver("b", podInfoOnMount=True)]
        told = []
        CsiDrivers(scene.kit, told.append).start()
        await turns()
        assert listed(scene.process) == ListedRow(csi_drivers=True)
        assert csidrivers.driver(scene.process, "b").pod_info_on_mount
        (watch,) = scene.server.watches
        assert watch.watched.path == "/apis/storage.k8s.io/v1/csidrivers"
        watch.watcher.changed(driver("a"))
        assert told == ["a", "b"], "what says the same is no change"
        watch.watcher.changed(driver("a", attachRequired=False))
        watch.watcher.deleted(driver("b"))
        assert told == ["a", "b", "a", "b"]
        assert csidrivers.driver(scene.process, "b") is None

    on_stage(tmp_path, work)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (
            {
                "csi": {
                    "nodeStageSecretRef": {"name": "a", "namespace": "x"},
                    "nodePublishSecretRef": {"name": "b", "namespace": "x"},
                    "nodeExpandSecretRef": {"name": "c", "namespace": "y"},
                    "controllerExpandSecretRef": {"name": "d", "namespace": "y"},
                }
            },
            {"secret/x/a", "secret/x/b", "secret/y/c"},
        ),
        ({"iscsi": {"secretRef": {"name": "a"}}}, {"secret/ns/a"}),
        ({"rbd": {"secretRef": {"name": "a", "namespace": "x"}}}, {"secret/x/a"}),
        ({"azureFile": {"secretName": "a"}}, {"secret/ns/a"}),
        ({"azureFile": {"secretName": "a", "secretNamespace": "x"}}, {"secret/x/a"}),
        ({"csi": {"nodeStageSecretRef": "a"}}, set()),
        ({"csi": {"nodeStageSecretRef": {"name": "a", "namespace": "x" * 64}}}, set()),
        ({"csi": 3, "iscsi": None}, set()),
    ],
)
def test_the_secrets_that_a_volume_names(spec, found):
    """Only those that a node may read; without a namespace it is the claim's."""
    item = {"spec": {"claimRef": {"namespace": "ns"}, **spec}}
    assert {reference.key for reference in derived.secrets_of(item)} == found


def test_a_volumes_secret_is_there_while_a_pod_uses_the_claim(tmp_path):
    """Read when the claim is bound, however late, and forgotten with the pod."""

    async def work(scene):
        scene.server.put("/api/v1/namespaces/vault/secrets/stage", secret("stage", key="value"))
        scene.server.objects |= {CLAIM: claim("Pending"), VOLUME: STAGED}
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        assert scene.object(STAGE) is None
        scene.server.objects[CLAIM] = claim()
        await later(0.21)
        assert scene.object(STAGE).data == {"key": b"value"}
        scene.pods.put(pod(uid="u2", **USES))
        scene.pods.remove("u1")
        await later(120)
        assert scene.object(STAGE), "another pod uses it"
        scene.pods.remove("u2")
        await later(61)
        assert scene.keys() == []

    on_stage(tmp_path, work)


def test_a_successor_keeps_what_claims_name(tmp_path):
    """What a predecessor had read of a claim is true until it is read again."""

    async def work(scene):
        scene.server.put("/api/v1/namespaces/vault/secrets/stage", secret("stage", key="value"))
        scene.server.objects |= {CLAIM: claim(), VOLUME: STAGED}
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        await scene.die()
        scene.objects.start()
        assert scene.object(STAGE).found
        await turns()
        assert scene.process.puts[STAGE] == 0

    on_stage(tmp_path, work)


@pytest.mark.parametrize("spec", [INLINE, USES])
def test_tokens_that_a_driver_asks_for(tmp_path, spec):
    """L-45: of inline and of bound volumes; when the driver changes, so do the tokens."""

    async def work(scene):
        scene.server.objects |= {CLAIM: claim(), VOLUME: volume()}
        scene.objects.start()
        scene.pods.put(pod(serviceAccountName="robot", **spec))
        await turns()
        assert not tokens(scene)
        scene.server.items = lambda watched: [asks("vault")] if "csi" in watched.path else []
        CsiDrivers(scene.kit, scene.objects.driver_changed).start()
        await turns()
        row = scene.token(TOKEN)
        assert (row.account, row.audience, row.token) == ("robot", "vault", "token-1")
        watch = next(w for w in scene.server.watches if "csidrivers" in w.watched.path)
        watch.watcher.changed(asks("vault", "other"))
        await turns()
        assert scene.token(token_key("u1", "other", 3600)).token == "token-2"
        watch.watcher.deleted(asks())
        assert not tokens(scene)
        watch.watcher.changed(asks("vault"))
        await turns()
        scene.pods.remove("u1")
        assert not tokens(scene)

    on_stage(tmp_path, work)


@pytest.mark.parametrize(
    ("there", "growing"),
    [
        (claim(capacity={"storage": "1Gi"}), False),
        (claim(capacity={"storage": "1024Mi"}), False),
        (claim(capacity={"storage": "512Mi"}), True),
        (claim(), False),
        (claim(capacity={"storage": "odd"}), False),
        (claim(allocatedResourceStatuses={"storage": "NodeResizePending"}), True),
        (
            claim(
                capacity={"storage": "1Mi"},
                allocatedResourceStatuses={"storage": "NodeResizeInfeasible"},
            ),
            False,
        ),
    ],
)
def test_whether_a_claim_grows(there, growing):
    """L-16: it, or its volume, is larger than its status says, and that can be helped."""
    assert claims.is_growing(there, volume()) is growing


def test_a_claim_that_grows_is_read_more_often(tmp_path):
    """The node's part is noticed soon after the controller's."""

    async def work(scene):
        scene.server.objects |= {CLAIM: claim(capacity={"storage": "1Mi"}), VOLUME: volume()}
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await later(50)
        assert 5 <= scene.server.count("GET", CLAIM) <= 10, "after 1, 2, 4, 8, 15 seconds"
        scene.server.objects[CLAIM] = claim(capacity={"storage": "1Gi"})
        await later(16)
        before = scene.server.count("GET", CLAIM)
        await later(50)
        assert scene.server.count("GET", CLAIM) == before
        scene.objects.read_claim("ns", "data")
        scene.objects.read_claim("ns", "nobodys")
        await turns()
        assert scene.server.count("GET", CLAIM) == before + 1

    on_stage(tmp_path, work)
