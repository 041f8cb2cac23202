"""What a pod wants of a CSI driver, from objects: tables of what is right and what is not."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from kubelet.api.volumes import CSIVolumeSource, LocalObjectReference
from kubelet.cluster.rows import CsiDriverRow, TokenRequestRow
from procs.volumes.csi import names, requests
from procs.volumes.csi.ownership_policy import gives
from procs.volumes.csi.requests import Terms
from procs.volumes.csi.wants import CsiLookup, inline, persistent
from procs.volumes.csi.wire import csi_pb2
from procs.volumes.errors import VolumeError, WaitingError
from procs.volumes.plugin import PodInfo
from procs.volumes.wants import CsiWant, Growth, Persistent
from tests.unit.volumes.standing import UID, pod

OF = Persistent("pv1", "ns/claim")
ROW = CsiDriverRow("d.test", lifecycle_modes=("Persistent", "Ephemeral"))
DEVICE = "kubernetes.io/csi/d.test^vol-1"
Mode = csi_pb2.VolumeCapability.AccessMode
Rpc = csi_pb2.NodeServiceCapability.RPC


def secret(namespace, name):
    if name == "late":
        raise WaitingError("secret is not read yet")
    if name == "none":
        raise VolumeError(f"secret {namespace}/{name} not found")
    return {"user": b"u", "blob": b"\xff"} if name == "binary" else {"user": name.encode()}


def lookup(driver=ROW, attached=(), in_use=()):
    return CsiLookup(
        secret=secret,
        driver=lambda _name: driver,
        token=lambda uid, audience, seconds: (
            f"{uid}/{audience}/{seconds}",
            "2026-01-01T00:00:00Z",
        ),
        attached=frozenset(attached),
        in_use=frozenset(in_use),
        node="n1",
    )


def volume(spec=None, **source):
    csi = {"driver": "d.test", "volumeHandle": "vol-1", **source}
    return {"spec": {"csi": csi, "accessModes": ["ReadWriteOnce"], **(spec or {})}}


def want(document=None, of=OF, growth=None, found=None, **more):
    return persistent(
        "data",
        document if document is not None else volume(**more),
        of,
        pod=pod(),
        access_mode="ReadWriteOnce",
        growth=growth,
        lookup=found or lookup(),
    )


def test_a_persistent_volume_is_taken_from_its_object():
    """L-42: driver, handle, file system, attributes and secrets are the driver's to know."""
    found = want(
        fsType="ext4",
        volumeAttributes={"b": "2", "a": "1"},
        nodeStageSecretRef={"namespace": "ns", "name": "stage"},
        nodePublishSecretRef={"namespace": "ns", "name": "publish"},
    )
    assert (found.driver, found.handle, found.fs_type) == ("d.test", "vol-1", "ext4")
    assert found.attributes == (("a", "1"), ("b", "2"))
    assert found.stage_secrets == (("user", "stage"),)
    assert found.publish_secrets == (("user", "publish"),)
    assert found.expand_secrets is None
    assert "stage" not in repr(found)


@pytest.mark.parametrize(
    ("driver", "attached", "in_use", "expected"),
    [
        (ROW, (), (), (DEVICE, False, False)),
        (ROW, (DEVICE,), (), (DEVICE, True, False)),
        (ROW, (DEVICE,), (DEVICE,), (DEVICE, True, True)),
        (None, (), (DEVICE,), (DEVICE, False, True)),
        (replace(ROW, attach_required=False), (), (), ("", True, True)),
    ],
)
def test_what_a_controller_attaches_is_waited_for(driver, attached, in_use, expected):
    """L-13: by its name in the node's status, and where there is no CSIDriver object too."""
    found = want(found=lookup(driver, attached, in_use))
    assert (found.device, found.attached, found.in_use) == expected


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"driver": ""}, 'csi.driver of persistent volume pv1 is ""'),
        ({"driver": "../up"}, 'csi.driver of persistent volume pv1 is "../up"'),
        ({"driver": 5}, "spec.csi.driver of persistent volume pv1 is 5"),
        ({"volumeHandle": ""}, "spec.csi.volumeHandle of persistent volume pv1 is empty"),
        ({"fsType": []}, r"spec.csi.fsType of persistent volume pv1 is \[\]"),
        ({"volumeAttributes": {"a": 1}}, "spec.csi.volumeAttributes.a of .* is 1"),
        ({"volumeAttributes": "x"}, "spec.csi.volumeAttributes of .* is 'x': that is no object"),
        ({"nodeStageSecretRef": {"name": "s"}}, 'nodeStageSecretRef of .* is "/s"'),
        (
            {"nodePublishSecretRef": {"namespace": "ns", "name": "binary"}},
            "key blob of secret ns/binary is no text",
        ),
        ({"nodePublishSecretRef": {"namespace": "ns", "name": "none"}}, "ns/none not found"),
    ],
)
def test_what_is_wrong_with_a_persistent_volume_is_named(source, text):
    """The sentence has the field and its value."""
    with pytest.raises(VolumeError, match=text):
        want(**source)


def test_a_volume_without_a_csi_source_is_refused():
    """A document that is no such volume ends in a sentence."""
    with pytest.raises(VolumeError, match=r"spec\.csi of persistent volume pv1 is None"):
        want({"spec": {}})


def test_what_is_not_read_yet_is_waited_for():
    """A secret that is not there yet is no failure."""
    with pytest.raises(WaitingError):
        want(nodePublishSecretRef={"namespace": "ns", "name": "late"})


@pytest.mark.parametrize(
    ("driver", "text"),
    [
        (None, r'volume mode "Ephemeral" not supported by driver d.test \(no CSIDriver object\)'),
        (
            replace(ROW, lifecycle_modes=("Persistent",)),
            r'"Ephemeral" not supported by driver d.test \(only supports \["Persistent"\]\)',
        ),
    ],
)
def test_an_inline_volume_needs_a_driver_for_such(driver, text):
    """L-47: and the words are those that a Go kubelet has for it."""
    with pytest.raises(VolumeError, match=text):
        inline("data", CSIVolumeSource("d.test"), pod(), Persistent("data"), lookup(driver))


def test_a_persistent_volume_needs_a_driver_for_such_or_no_object():
    """L-47: an object that lists only Ephemeral refuses; none does not."""
    assert want(found=lookup(None)).info is None
    only = replace(ROW, lifecycle_modes=("Ephemeral",))
    with pytest.raises(VolumeError, match='volume mode "Persistent" not supported'):
        want(found=lookup(only))


def test_an_inline_volume_is_its_pods_own():
    """Its handle is a hash of pod and name, it is not attached, and its secret is the pod's."""
    source = CSIVolumeSource(
        "d.test", "xfs", LocalObjectReference("mine"), read_only=True, volume_attributes={"a": "1"}
    )
    found = inline("data", source, pod(), Persistent("data"), lookup())
    digest = hashlib.sha256(f"{UID}data".encode()).hexdigest()
    assert found.handle == f"csi-{digest}"
    assert (found.ephemeral, found.device, found.of.read_only) == (True, "", True)
    assert found.publish_secrets == (("user", "mine"),)
    assert found.fs_type == "xfs"


def test_tokens_are_those_that_the_driver_asks_for():
    """L-45: by audience, each with its end; a driver that asks for none gets none."""
    asking = replace(ROW, token_requests=(TokenRequestRow("b", 600), TokenRequestRow("")))
    found = json.loads(want(found=lookup(asking)).tokens)
    assert list(found) == ["", "b"]
    assert found["b"] == {
        "token": f"{UID}/b/600",
        "expirationTimestamp": "2026-01-01T00:00:00Z",
    }
    assert want().tokens == ""


@pytest.mark.parametrize(
    ("ref", "pending", "expected"),
    [
        (None, True, ()),
        (None, False, None),
        ("x", True, (("user", "x"),)),
        ("none", True, None),
        ("late", True, None),
    ],
)
def test_secrets_for_growing_keep_no_volume_waiting(ref, pending, expected):
    """L-16: they are read when it is to grow; without them it is mounted all the same."""
    more = {"nodeExpandSecretRef": {"namespace": "ns", "name": ref}} if ref else {}
    growth = Growth("2Gi", "1Gi", pending=pending)
    assert want(growth=growth, **more).expand_secrets == expected


@pytest.mark.parametrize(
    ("policy", "how", "expected"),
    [
        ("File", {"fs_type": "", "access_modes": ("ReadWriteMany",)}, True),
        ("File", {"read_only": True}, False),
        ("File", {"fs_group": None}, False),
        ("None", {}, False),
        (None, {}, True),
        (None, {"fs_type": ""}, False),
        (None, {"access_modes": ("ReadWriteMany",)}, False),
        (None, {"access_modes": ("ReadOnlyMany", "ReadWriteOncePod")}, True),
        (None, {"access_modes": ()}, False),
        (None, {"access_modes": (), "inline": True}, True),
    ],
)
def test_the_group_gets_a_volume_as_the_drivers_policy_says(policy, how, expected):
    """L-33: fsGroupPolicy None, File and ReadWriteOnceWithFSType; the latter without an object."""
    info = replace(ROW, fs_group_policy=policy) if policy else None
    usual = {"fs_group": 5, "read_only": False, "fs_type": "ext4", "inline": False}
    assert gives(info, **{"access_modes": ("ReadWriteOnce",), **usual, **how}) is expected


@pytest.mark.parametrize(
    ("mode", "plain", "finer"),
    [
        ("", Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER),
        ("ReadWriteOnce", Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER),
        ("ReadWriteOncePod", Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_SINGLE_WRITER),
        ("ReadOnlyMany", Mode.MULTI_NODE_READER_ONLY, Mode.MULTI_NODE_READER_ONLY),
        ("ReadWriteMany", Mode.MULTI_NODE_MULTI_WRITER, Mode.MULTI_NODE_MULTI_WRITER),
        ("Odd", Mode.UNKNOWN, Mode.UNKNOWN),
    ],
)
def test_access_modes_are_translated_for_the_driver(mode, plain, finer):
    """L-43: one that knows SINGLE_NODE_MULTI_WRITER is told more exactly."""
    assert requests.access_mode(mode, frozenset()) == plain
    assert requests.access_mode(mode, frozenset({Rpc.SINGLE_NODE_MULTI_WRITER})) == finer


@pytest.mark.parametrize("in_secrets", [False, True])
def test_tokens_and_pod_go_where_the_driver_wants_them(in_secrets):
    """L-45: the pod's data are attributes; its tokens too, or secrets."""
    info = replace(ROW, pod_info_on_mount=True, tokens_in_secrets=in_secrets)
    wanted = CsiWant("data", "d.test", "h", OF, info=info, tokens="{}")
    terms = Terms(wanted, PodInfo("u", "p", "ns", "acc"), frozenset())
    request = requests.publish(terms, "/t", "/s")
    assert (requests.TOKENS in request.secrets) is in_secrets
    assert (requests.TOKENS in request.volume_context) is not in_secrets
    assert request.volume_context["csi.storage.k8s.io/pod.uid"] == "u"
    assert request.volume_context["csi.storage.k8s.io/serviceAccount.name"] == "acc"
    assert request.volume_context["csi.storage.k8s.io/ephemeral"] == "false"
    assert "csi.storage.k8s.io/pod.uid" not in requests.stage(terms, "/s").volume_context


@pytest.mark.parametrize("knows", [False, True])
def test_a_driver_that_takes_groups_is_told_the_group(knows):
    """L-33: VOLUME_MOUNT_GROUP, when staging and when publishing, with the mount's options."""
    of = replace(OF, fs_group=77, options=("noatime",))
    has = frozenset({Rpc.VOLUME_MOUNT_GROUP} if knows else ())
    terms = Terms(CsiWant("data", "d.test", "h", of, fs_type="ext4"), PodInfo("u"), has)
    for request in (requests.stage(terms, "/s"), requests.publish(terms, "/t", "")):
        mount = request.volume_capability.mount
        assert mount.volume_mount_group == ("77" if knows else "")
        assert (list(mount.mount_flags), mount.fs_type) == (["noatime"], "ext4")


def test_names_are_those_that_controllers_make():
    """L-44, L-13: the attachment's name is a hash of handle, driver and node."""
    digest = hashlib.sha256(b"vol-1d.testn1").hexdigest()
    assert names.attachment("vol-1", "d.test", "n1") == f"csi-{digest}"
    assert names.device("d.test", "vol-1") == DEVICE
