"""From a claim and its volume to what is mounted: every case that the Go kubelet has words for."""

from __future__ import annotations

import copy
import json

import pytest

from kubelet.cluster.rows import ClaimRow
from procs.volumes.claims import ClaimContext, name_of, want
from procs.volumes.errors import WaitingError
from procs.volumes.ownership import Policy
from procs.volumes.wants import (
    Growth,
    HostPathWant,
    LocalWant,
    NfsWant,
    Persistent,
    Refused,
    Waiting,
)
from tests.unit.volumes.standing import UID, pod

VOLUME = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
MOUNT = ({"name": "data", "mountPath": "/data"},)
OF = Persistent("pv-1", claim="ns/c")


def claim_document(**spec):
    """A claim that is bound to pv-1."""
    return {
        "metadata": {"name": "c", "namespace": "ns", "uid": "claim-uid"},
        "spec": {"volumeName": "pv-1", "resources": {"requests": {"storage": "1Gi"}}, **spec},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    }


def pv_document(**spec):
    """A volume that is bound to the claim."""
    return {
        "metadata": {"name": "pv-1"},
        "spec": {
            "claimRef": {"uid": "claim-uid"},
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            **spec,
        },
    }


LOCAL = {"local": {"path": "/disk"}}


def row(claim=None, pv=None, error=""):
    """What the node process has written down."""
    text = [b"" if document is None else json.dumps(document).encode() for document in (claim, pv)]
    return ClaimRow("ns", "c", *text, error=error)


def csi(name, volume, of, *, access_mode, growth):
    """Stand for the part that knows CSI drivers: all that it is given."""
    return name, volume["spec"]["csi"]["driver"], of, access_mode, growth


CONTEXT = ClaimContext(csi, labels={"zone": "a"})


def made(pv, claim=None, volume=None, context=CONTEXT, **more):
    """What a pod wants whose claim is bound to this volume."""
    wanted = pod(volume or VOLUME, mounts=more.pop("mounts", MOUNT), **more)
    found = row(claim or claim_document(), pv)
    return want(wanted.spec.volumes[0], wanted, found, context)


def changed(document, way, value):
    """A document with another value in one of its fields."""
    document = copy.deepcopy(document)
    here = document
    *above, last = way.split(".")
    for name in above:
        here = here.setdefault(name, {})
    here[last] = value
    return document


def test_a_local_volume_is_wanted_with_all_that_the_pod_and_the_volume_say():
    """L-33, P-160: group, policy, gid, options and read-only come from where Go takes them."""
    pv = pv_document(local={"path": "/disk", "fsType": "xfs"}, mountOptions=["noatime", ""])
    pv["metadata"]["annotations"] = {"pv.beta.kubernetes.io/gid": "1234"}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}
    security = {"fsGroup": 7, "fsGroupChangePolicy": "OnRootMismatch"}
    assert made(pv, volume=volume, securityContext=security) == LocalWant(
        "data",
        "/disk",
        Persistent(
            "pv-1",
            claim="ns/c",
            read_only=True,
            options=("noatime",),
            gid=1234,
            fs_group=7,
            policy=Policy.ON_ROOT_MISMATCH,
        ),
        "xfs",
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (LOCAL, LocalWant("data", "/disk", OF)),
        ({"hostPath": {"path": "/h", "type": "Directory"}}, ("/h", "Directory", "ns/c")),
        ({"nfs": {"server": "s", "path": "/x"}}, NfsWant("data", "s", "/x", OF)),
        ({"csi": {"driver": "d"}}, ("data", "d", OF, "ReadWriteOnce", None)),
    ],
)
def test_each_kind_of_volume_becomes_its_own_want(source, expected):
    """L-1: local, hostPath, nfs and csi are what persistent volumes can be here."""
    found = made(pv_document(**source))
    if isinstance(found, HostPathWant):
        found = (found.path, found.type, found.of.claim)
    assert found == expected


def test_an_annotation_comes_before_the_field_of_mount_options():
    """The beta annotation wins, as it does in Go."""
    pv = pv_document(**LOCAL, mountOptions=["a"])
    pv["metadata"]["annotations"] = {"volume.beta.kubernetes.io/mount-options": "b,c"}
    assert made(pv).of.options == ("b", "c")


def test_a_read_only_export_is_read_only_for_every_pod():
    """The volume's own readOnly counts as much as the pod's."""
    assert made(pv_document(nfs={"server": "s", "path": "/x", "readOnly": True})).of.read_only


@pytest.mark.parametrize("gid", ["", "x", "-1", "99999999999", "\u0661"])
def test_a_group_that_is_none_is_ignored(gid):
    """P-160: Go ignores an annotation that is no number."""
    pv = pv_document(**LOCAL)
    pv["metadata"]["annotations"] = {"pv.beta.kubernetes.io/gid": gid}
    assert made(pv).of.gid == 0


@pytest.mark.parametrize(
    ("found", "words", "waiting"),
    [
        (None, "has not been read from the API server yet", True),
        (row(), "has not been read from the API server yet", True),
        (row(error='"c" not found'), 'failed to fetch PVC from API server: "c" not found', False),
        (row(changed(claim_document(), "status.phase", "Pending")), "PVC is not bound", False),
        (row(claim_document(volumeName="")), "PVC has empty pvc.Spec.VolumeName", False),
        (row(claim_document()), "PV pv-1 has not been read", True),
        (row(claim_document(), error="no"), "failed to fetch PV pv-1 from API server: no", False),
        (
            row(claim_document(), pv_document(claimRef=None)),
            "it has a nil pv.Spec.ClaimRef indicating it is not yet bound",
            False,
        ),
        (
            row(claim_document(), pv_document(claimRef={"uid": "other"})),
            "pv.Spec.ClaimRef.UID other does not point to claim.UID claim-uid",
            False,
        ),
        (ClaimRow("ns", "c", b"nonsense"), "PVC ns/c is not JSON", False),
        (ClaimRow("ns", "c", b"[]"), "PVC ns/c is not an object", False),
    ],
)
def test_what_is_not_read_is_waited_for_and_what_is_wrong_is_said(found, words, waiting):
    """M-41: each step of the way from a claim to its volume has its sentence."""
    wanted = pod(VOLUME, mounts=MOUNT)
    said = want(wanted.spec.volumes[0], wanted, found, CONTEXT)
    assert isinstance(said, Waiting)
    assert said.reason.startswith("error processing PVC ns/c: ")
    assert words in said.reason
    assert (said.waiting, said.claim) == (waiting, "ns/c")


@pytest.mark.parametrize(
    ("finalizers", "mounted", "refused"),
    [
        ([], False, True),
        ([], True, False),
        (["kubernetes.io/pvc-protection"], False, False),
    ],
)
def test_a_claim_that_is_being_deleted_is_not_for_new_pods(finalizers, mounted, refused):
    """A protected claim stays while pods use it; a pod that has the volume keeps it."""
    claim = changed(claim_document(), "metadata.deletionTimestamp", "2026-01-01T00:00:00Z")
    claim["metadata"]["finalizers"] = finalizers
    found = made(pv_document(**LOCAL), claim, context=ClaimContext(csi, mounted=mounted))
    assert isinstance(found, Waiting) is refused
    if refused:
        assert found.reason.endswith("PVC is being deleted")


@pytest.mark.parametrize(("owner", "allowed"), [(UID, True), ("another", False)])
def test_a_pods_own_claim_must_be_its_own(owner, allowed):
    """A claim that only has the right name belongs to somebody else."""
    claim = claim_document()
    claim["metadata"]["ownerReferences"] = [{"uid": owner, "controller": True}]
    volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}
    wanted = pod(volume)
    assert name_of(wanted.spec.volumes[0], wanted) == "p-data"
    found = made(pv_document(**LOCAL), claim, volume)
    assert isinstance(found, LocalWant) is allowed
    if not allowed:
        assert "was not created for pod ns/p (pod is not owner)" in found.reason


@pytest.mark.parametrize(
    ("mode", "used", "words"),
    [
        ("Block", "volumeMounts", "has volumeMode Block, but is specified in volumeMounts"),
        ("Filesystem", "volumeDevices", "has volumeMode Filesystem, but is specified in"),
        ("Odd", "volumeMounts", "is 'Odd': must be Block or Filesystem"),
        ("Block", "volumeDevices", ""),
    ],
)
def test_a_volume_is_used_as_what_it_is(mode, used, words):
    """L-34: devices are mapped, file systems are mounted."""
    user = {"name": "c", "image": "i", used: [{"name": "data"}]}
    found = made(pv_document(**{**LOCAL, "volumeMode": mode}), containers=[user])
    if words:
        assert words in found.reason
    else:
        assert found.of.block


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("awsElasticBlockStore", "must be migrated to a volume of CSI driver ebs.csi.aws.com"),
        ("rbd", "not supported by any kubelet any more"),
        ("iscsi", "not supported by this kubelet"),
        ("fc", "not supported by this kubelet"),
        ("unheardOf", "has no kind of volume that is known here"),
    ],
)
def test_a_kind_that_is_not_supported_is_named(kind, words):
    """L-1: with what would help."""
    found = made(pv_document(**{kind: {}}))
    assert isinstance(found, Refused)
    assert words in found.reason


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ({"key": "zone", "operator": "In", "values": ["a"]}, True),
        ({"key": "zone", "operator": "In", "values": ["b"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["b"]}, True),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "rack", "operator": "DoesNotExist"}, True),
        ({"key": "zone", "operator": "Gt", "values": ["1"]}, False),
        ({"key": "zone", "operator": "Odd"}, False),
    ],
)
def test_a_volume_of_another_node_is_refused(expression, holds):
    """Go compares the volume's terms with the node's labels before it mounts."""
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    pv = pv_document(**LOCAL, nodeAffinity=terms)
    found = made(pv)
    assert isinstance(found, LocalWant) is holds
    if not holds:
        assert found.reason.endswith("no matching NodeSelectorTerms")
    assert isinstance(made(pv, context=ClaimContext(csi, mounted=True)), LocalWant)
    assert made(pv, context=ClaimContext(csi)).waiting


@pytest.mark.parametrize(
    ("request_", "has", "status", "expected"),
    [
        ("1Gi", "1Gi", {}, None),
        ("2Gi", "1Gi", {}, Growth("2Gi", "1Gi")),
        ("2Gi", "2Gi", {}, Growth("2Gi", "1Gi")),
        (
            "3Gi",
            "2Gi",
            {"allocatedResourceStatuses": {"storage": "NodeResizePending"}},
            Growth("2Gi", "1Gi", pending=True),
        ),
        (
            "2Gi",
            "2Gi",
            {"allocatedResourceStatuses": {"storage": "NodeResizeInfeasible"}},
            Growth("2Gi", "1Gi"),
        ),
        (
            "2Gi",
            "2Gi",
            {"conditions": [{"type": "FileSystemResizePending", "status": "True"}]},
            Growth("2Gi", "1Gi", pending=True),
        ),
    ],
)
def test_a_claim_grows_when_it_is_the_nodes_turn(request_, has, status, expected):
    """L-16: the size is the one that the controller has grown the volume to."""
    claim = changed(claim_document(), "spec.resources.requests.storage", request_)
    claim["status"] |= status
    pv = pv_document(csi={"driver": "d"}, capacity={"storage": has})
    assert made(pv, claim)[-1] == expected


def test_a_volume_of_one_pod_is_not_given_to_a_second():
    """ReadWriteOncePod, where it is the only mode, is also kept here."""
    pv = pv_document(**{**LOCAL, "accessModes": ["ReadWriteOncePod"]})
    found = made(pv, context=ClaimContext(csi, elsewhere=True))
    assert found.reason.endswith("is already in use by another pod")


@pytest.mark.parametrize(
    ("way", "value"),
    [
        ("spec", 1),
        ("spec.local", "x"),
        ("spec.local.path", 7),
        ("spec.local.path", ""),
        ("spec.local.path", "/a/../b"),
        ("spec.local.path", "/a\0b"),
        ("spec.mountOptions", "ro"),
        ("spec.accessModes", {}),
        ("spec.nodeAffinity", 3),
        ("spec.nodeAffinity.required", []),
        ("spec.volumeMode", []),
        ("metadata.annotations", [1]),
        ("metadata.name", "../../etc"),
    ],
)
def test_odd_fields_end_in_a_sentence(way, value):
    """What the API server sends is not trusted: no field may end the process."""
    found = made(changed(pv_document(**LOCAL), way, value), context=ClaimContext(csi, labels={}))
    assert isinstance(found, Waiting | Refused | LocalWant), found
    if not isinstance(found, LocalWant):
        assert found.reason.startswith("error processing PVC ns/c: ")
    else:
        assert way == "spec.accessModes"  # only drivers are told


def test_what_the_driver_waits_for_is_waited_for():
    """A secret that has not been read yet is nothing wrong with the claim."""

    def not_yet(*_args, **_more):
        raise WaitingError("a secret has not been read yet")

    found = made(pv_document(csi={"driver": "d"}), context=ClaimContext(not_yet))
    assert (found.waiting, found.claim) == (True, "ns/c")
