"""Certificates of pods (L-28)."""

from __future__ import annotations

import asyncio
import base64
import random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from objects_scene import NS, WALL, away, forbidden, later, on_stage, pod, turns

from kubelet import times
from kubelet.cluster.rows import OBJECTS, CertificateRow, certificate_key
from procs.node.apiserver.types import ApiError, Reference
from procs.node.certificates import tool
from procs.node.certificates.client import Requested, Tool, ToolError
from procs.node.objects import podcert_request as requests
from procs.node.objects.podcert import GATE_OFF, NO_API, KeyMaker
from procs.node.objects.podcert_request import Life, Verdict
from procs.node.objects.references import CertificateReference, references
from procs.node.objects.service import Objects
from tests.unit.node.test_objects_trust import block, plain, serves, split

SIGNER = "acme.io/mesh"
PATH = "/apis/certificates.k8s.io/v1beta1/namespaces/ns/podcertificaterequests"
ACCOUNT = "/api/v1/namespaces/ns/serviceaccounts/robot"
KEY = certificate_key("u1", "creds", 1)
HOUR = 3600 * NS
WISH = {
    "signerName": SIGNER,
    "keyType": "ECDSAP256",
    "maxExpirationSeconds": 7200,
    "credentialBundlePath": "bundle.pem",
    "userAnnotations": {"acme.io/b": "2", "acme.io/a": "1"},
}
POD = pod(
    serviceAccountName="robot",
    volumes=[
        {
            "name": "creds",
            "projected": {"sources": [{"secret": {"name": "s"}}, {"podCertificate": WISH}]},
        }
    ],
)


class Here:
    """Makes keys as the program does, but in this process: its time is not the real one."""

    def __init__(self):
        self.broken = None

    async def pod_request(self, key_type, key=""):
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken
        made = tool.make_pod_request({"keyType": key_type, "key": key})
        return Requested(made["key"], made["request"], made["digest"])


class Signer:
    """Stands beside a scene: what it has been asked, and its answers."""

    def __init__(self, scene):
        self.scene = scene
        self.events = []
        self.tool = Here()
        serves(scene, "v1beta1", resource="podcertificaterequests")
        scene.server.objects[ACCOUNT] = {"metadata": {"name": "robot", "uid": "account-uid"}}
        self.begin()

    def begin(self):
        """Have the objects of a new process."""
        scene = self.scene
        scene.view.uid = "node-uid"
        scene.kit.emit = lambda *event: self.events.append(event)
        scene.objects = Objects(scene.kit, scene.pods, KeyMaker(self.tool))
        scene.objects.start()

    async def successor(self):
        """Have the process killed, and another one begin."""
        await self.scene.die()
        self.begin()

    @property
    def row(self):
        """What is written down."""
        value = self.scene.process.tables.value(OBJECTS, KEY)
        return None if value is None else CertificateRow.from_wire(value)

    @property
    def requests(self):
        """All that there are, by path."""
        return {k: v for k, v in self.scene.server.objects.items() if k.startswith(f"{PATH}/")}

    def newest(self):
        """The last one's path and object."""
        return list(self.requests.items())[-1]

    def answer(self, **status):
        """Answer the newest request."""
        path, item = self.newest()
        self.scene.server.put(path, {**item, "status": status})

    def issue(self, *contents, begin=HOUR, end=2 * HOUR):
        """Issue certificates to the newest request, counted from now."""
        now = self.scene.kit.wall()
        self.answer(
            conditions=[{"type": "Issued", "status": "True"}],
            certificateChain="remark\n" + "".join(block(one) for one in contents),
            beginRefreshAt=times.to_text(now + begin),
            notAfter=times.to_text(now + end),
        )

    def refuse(self, kind="Denied"):
        """Deny or fail the newest request."""
        words = {"reason": "UnsupportedKeyType", "message": 'use "ED25519"'}
        self.answer(conditions=[{"type": kind, "status": "True", **words}])


def tale(root, work, seconds=36_000, **settings):
    """Run a story about a signer beside a scene."""

    async def main(scene):
        await work(Signer(scene))

    on_stage(root, main, seconds, **settings)


def test_which_certificates_a_pod_refers_to():
    """L-28: each source of each volume is one, and is known by its place."""
    found = {one for one in references(POD) if isinstance(one, CertificateReference)}
    assert found == {
        CertificateReference(
            "u1",
            "web",
            "ns",
            "robot",
            "creds",
            1,
            SIGNER,
            "ECDSAP256",
            7200,
            (("acme.io/a", "1"), ("acme.io/b", "2")),
        )
    }
    odd = pod(volumes=[{"name": "", "projected": {"sources": [{"podCertificate": {}}]}}, 7])
    assert references(odd) == frozenset()


@pytest.mark.parametrize(
    ("status", "verdict", "error"),
    [
        ({}, Verdict.PENDING, ""),
        ({"conditions": None}, Verdict.PENDING, ""),
        ({"conditions": [{"type": "Odd"}, 3]}, Verdict.PENDING, ""),
        (
            {"conditions": [{"type": "Denied", "reason": "R", "message": 'm "q"'}]},
            Verdict.DENIED,
            'PodCertificateRequest was permanently denied: reason="R" message="m \\"q\\""',
        ),
        (
            {"conditions": [{"type": "Failed", "reason": "R", "message": 1}]},
            Verdict.FAILED,
            'PodCertificateRequest was permanently failed: reason="R" message=""',
        ),
        (
            {"conditions": [{"type": "Issued"}], "certificateChain": "x"},
            Verdict.UNREADABLE,
            "the certificate that was issued cannot be read, or has no times",
        ),
    ],
)
def test_what_became_of_a_request(status, verdict, error):
    """L-28: the words are those of the signer."""
    found = requests.outcome({"status": status})
    assert (found.verdict, found.error) == (verdict, error)


@pytest.mark.parametrize(
    ("life", "latest"),
    [
        (Life(HOUR, 10 * HOUR), HOUR + 300 * NS),
        (Life(HOUR, HOUR + 400 * NS), HOUR + 100 * NS),
        (Life(HOUR, HOUR), HOUR),
    ],
)
def test_a_certificate_is_replaced_a_little_after_its_signer_says(life, latest):
    """L-28: never so late that there is no time left for it."""
    for seed in range(50):
        assert HOUR <= requests.refresh_at(life, random.Random(seed)) <= latest


@pytest.mark.parametrize(
    ("key_type", "kind", "bits"),
    [
        ("RSA3072", rsa.RSAPrivateKey, 3072),
        ("RSA4096", rsa.RSAPrivateKey, 4096),
        ("ECDSAP256", ec.EllipticCurvePrivateKey, 256),
        ("ECDSAP384", ec.EllipticCurvePrivateKey, 384),
        ("ECDSAP521", ec.EllipticCurvePrivateKey, 521),
        ("ED25519", ed25519.Ed25519PrivateKey, 0),
    ],
)
def test_keys_of_each_type(key_type, kind, bits):
    """L-28: PKCS #8, with a request that holds nothing else and is signed by that key."""
    made = asyncio.run(Tool().pod_request(key_type))
    assert made.key.startswith("-----BEGIN PRIVATE KEY-----\n")
    key = serialization.load_pem_private_key(made.key.encode(), None)
    assert isinstance(key, kind)
    assert getattr(key, "key_size", 0) == bits
    request = x509.load_der_x509_csr(base64.b64decode(made.request))
    assert request.is_signature_valid
    assert request.public_key() == key.public_key()
    assert request.subject == x509.Name([])
    again = asyncio.run(Tool().pod_request(key_type, made.key))
    assert (again.key, again.digest) == (made.key, made.digest)


@pytest.mark.parametrize(
    ("key_type", "key", "words"),
    [
        ("RSA512", "", 'unknown key type "RSA512"'),
        ("ED25519", "no key", "the key cannot be read"),
    ],
)
def test_a_key_that_cannot_be_made_says_why(key_type, key, words):
    """A sentence, and nothing of the key in it."""
    with pytest.raises(ToolError, match=words):
        asyncio.run(Tool().pod_request(key_type, key))


def test_a_request_says_who_asks_and_for_whom(tmp_path):
    """L-28: pod, account and node by name and UID; the pod's own wishes as they are."""

    async def work(signer):
        signer.scene.pods.put(POD)
        await turns()
        ((path, item),) = signer.requests.items()
        name = path.rpartition("/")[2]
        assert item["apiVersion"] == "certificates.k8s.io/v1beta1"
        assert item["metadata"] == {
            "name": name,
            "namespace": "ns",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1"}],
        }
        request = item["spec"].pop("stubPKCS10Request")
        assert item["spec"] == {
            "signerName": SIGNER,
            "podName": "web",
            "podUID": "u1",
            "serviceAccountName": "robot",
            "serviceAccountUID": "account-uid",
            "nodeName": "node-1",
            "nodeUID": "node-uid",
            "maxExpirationSeconds": 7200,
            "unverifiedUserAnnotations": {"acme.io/a": "1", "acme.io/b": "2"},
        }
        assert x509.load_der_x509_csr(base64.b64decode(request)).is_signature_valid
        watches = [w for w in signer.scene.server.watches if w.watched.path == PATH]
        fields = [w.watched.fields for w in watches]
        assert fields == [f"metadata.name={name},spec.nodeName=node-1"]

    tale(tmp_path, work)


def test_a_certificate_comes_with_the_key_that_was_asked_with(tmp_path):
    """L-28: until the answer there is no chain; nothing is watched after it."""

    async def work(signer):
        signer.scene.pods.put(POD)
        await turns()
        assert (signer.row.chain_pem, signer.row.error) == (b"", "")
        path, _ = signer.newest()
        signer.issue(b"leaf", b"middle")
        await turns()
        row = signer.row
        assert split(row.chain_pem) == [next(iter(plain(one))) for one in (b"leaf", b"middle")]
        made = tool.make_pod_request({"keyType": "ECDSAP256", "key": row.key_pem.decode()})
        assert path.endswith(made["digest"][:32])
        assert row.not_after_ns == WALL + 2 * HOUR
        assert WALL + HOUR <= row.refresh_ns <= WALL + HOUR + 300 * NS
        assert not [w for w in signer.scene.server.watches if w.watched.path == PATH]
        assert signer.events == []
        signer.scene.pods.remove("u1")
        assert KEY not in signer.scene.process.tables.keys(OBJECTS)

    tale(tmp_path, work)


def test_a_certificate_is_replaced_with_a_new_key(tmp_path):
    """L-28: from beginRefreshAt on; the old pair is served until the new one is there."""

    async def work(signer):
        signer.scene.pods.put(POD)
        await turns()
        signer.issue(b"first")
        await later(3599)
        first = signer.row
        assert len(signer.requests) == 1
        await later(302)
        assert len(signer.requests) == 2
        assert signer.row == first
        signer.issue(b"second")
        await turns()
        assert split(signer.row.chain_pem) == list(plain(b"second"))
        assert signer.row.key_pem != first.key_pem
        assert signer.row.refresh_ns > first.refresh_ns
        assert signer.events == []

    tale(tmp_path, work)


def test_a_replacement_that_does_not_come_is_told_once(tmp_path):
    """L-28: overdue after ten minutes, then expired; the pod keeps what it has."""
    about = Reference("Pod", "web", "ns", "u1")

    async def work(signer):
        signer.scene.pods.put(POD)
        await turns()
        signer.issue(b"first")
        await turns()
        await later((signer.row.refresh_ns - WALL) // NS + 590)
        assert signer.events == []
        await later(20)
        overdue = ("CertificateOverdueForRefresh", "PodCertificate refresh overdue")
        assert signer.events == [(about, "Warning", *overdue)]
        path, _ = signer.newest()
        signer.scene.server.faults[PATH] = away()
        signer.scene.server.remove(path)
        await later(7200)
        expired = ("CertificateExpired", "PodCertificate expired")
        assert signer.events[1:] == [(about, "Warning", *expired)]
        assert split(signer.row.chain_pem) == list(plain(b"first"))
        assert signer.row.error == ""

    tale(tmp_path, work)


@pytest.mark.parametrize("kind", ["Denied", "Failed"])
def test_a_refusal_is_for_ever(tmp_path, kind):
    """L-28: the words of the condition, an event, and no more requests, of a successor neither."""

    async def work(signer):
        signer.scene.pods.put(POD)
        await turns()
        path, _ = signer.newest()
        name = path.rpartition("/")[2]
        signer.refuse(kind)
        await later(86400 * 2)
        row = signer.row
        said = 'reason="UnsupportedKeyType" message="use \\"ED25519\\""'
        assert row.error == f"PodCertificateRequest was permanently {kind.lower()}: {said}"
        assert (row.fatal, row.key_pem, row.chain_pem) == (True, b"", b"")
        done = "was denied" if kind == "Denied" else "failed"
        text = f"PodCertificateRequest ns/{name} {done}, {said.replace(' m', ', m', 1)}"
        about = Reference("Pod", "web", "ns", "u1")
        assert signer.events == [(about, "Warning", kind, text)]
        await signer.successor()
        await later(60)
        assert len(signer.requests) == 1
        assert signer.row == row

    tale(tmp_path, work, seconds=86400 * 3)


def test_a_refused_replacement_takes_nothing_away(tmp_path):
    """The pod keeps its pair; the row says that there will be no other."""

    async def work(signer):
        signer.scene.pods.put(POD)
        await turns()
        signer.issue(b"first")
        await later(3901)
        signer.refuse()
        await later(100)
        assert split(signer.row.chain_pem) == list(plain(b"first"))
        assert signer.row.key_pem
        assert signer.row.fatal
        assert "permanently denied" in signer.row.error
        assert len(signer.requests) == 2

    tale(tmp_path, work)


def test_a_request_that_is_deleted_is_made_anew(tmp_path):
    """With another key: that one's request may have been seen by its signer."""

    async def work(signer):
        signer.scene.pods.put(POD)
        await turns()
        path, _ = signer.newest()
        before = signer.row.key_pem
        signer.scene.server.remove(path)
        await turns()
        assert "was deleted before it was answered" in signer.row.error
        await later(1)
        assert len(signer.requests) == 1
        assert signer.newest()[0] != path
        assert (signer.row.error, signer.row.key_pem != before) == ("", True)
        signer.issue(b"leaf")
        await turns()
        assert signer.row.chain_pem

    tale(tmp_path, work)


def test_a_successor_waits_for_the_same_request(tmp_path):
    """The key is in the row: nothing is asked twice, and nothing that is fresh is asked for."""

    async def work(signer):
        signer.scene.pods.put(POD)
        await turns()
        path, _ = signer.newest()
        key = signer.row.key_pem
        await signer.successor()
        await turns()
        assert list(signer.requests) == [path]
        signer.issue(b"leaf")
        await turns()
        assert (signer.row.key_pem, bool(signer.row.chain_pem)) == (key, True)
        row = signer.row
        await signer.successor()
        await later(60)
        assert signer.row == row
        assert len(signer.requests) == 1

    tale(tmp_path, work)


def test_an_answer_that_came_while_nobody_listened(tmp_path):
    """A successor finds the certificate in the request that is there."""

    async def work(signer):
        signer.scene.pods.put(POD)
        await turns()
        scene = signer.scene
        await scene.die()
        signer.issue(b"leaf")
        signer.begin()
        await turns()
        assert split(signer.row.chain_pem) == list(plain(b"leaf"))

    tale(tmp_path, work)


def test_somebody_else_s_request_of_that_name_is_not_followed(tmp_path):
    """What is no request of this pod gives no certificate to it."""

    async def work(signer):
        signer.scene.pods.put(POD)
        await turns()
        path, item = signer.newest()
        signer.scene.server.objects[path] = {**item, "spec": {**item["spec"], "podUID": "u2"}}
        await signer.successor()
        await turns()
        assert "of somebody else" in signer.row.error

    tale(tmp_path, work)


@pytest.mark.parametrize(
    ("path", "error", "at_once"),
    [
        (ACCOUNT, ApiError('serviceaccounts "robot" not found', status=404), True),
        (ACCOUNT, forbidden(), False),
        (PATH, away(), False),
        (PATH, ApiError("signerName: Invalid value", status=422), True),
        ("/apis/certificates.k8s.io/v1", away(), False),
    ],
)
def test_a_certificate_that_cannot_be_asked_for_says_why(tmp_path, path, error, at_once):
    """What may pass is waited for first; it comes when nothing stands against it."""

    async def work(signer):
        signer.scene.server.faults[path] = error
        signer.scene.pods.put(POD)
        await turns()
        assert bool(signer.row and signer.row.error) is at_once
        await later(20)
        assert (signer.row.error, signer.row.fatal) == (str(error), False)
        del signer.scene.server.faults[path]
        await later(40)
        assert signer.row.error == ""
        signer.issue(b"leaf")
        await turns()
        assert signer.row.chain_pem

    tale(tmp_path, work)


def test_a_server_without_requests_for_certificates_says_so(tmp_path):
    """Until it has them."""

    async def work(signer):
        serves(signer.scene, "v1beta1", resource="other")
        signer.scene.pods.put(POD)
        await turns()
        assert signer.row.error == NO_API
        serves(signer.scene, "v1beta1", resource="podcertificaterequests")
        await later(60)
        assert (len(signer.requests), signer.row.error) == (1, "")

    tale(tmp_path, work)


def test_a_node_without_an_object_waits_for_it(tmp_path):
    """The API server compares the node's UID."""

    async def work(signer):
        signer.scene.view.uid = ""
        signer.scene.pods.put(POD)
        await later(20)
        assert signer.row.error == "this node has no object at the API server yet"
        signer.scene.view.uid = "node-uid"
        await later(31)
        assert len(signer.requests) == 1

    tale(tmp_path, work)


def test_a_key_that_cannot_be_made_is_said_in_the_row(tmp_path):
    """And is tried again."""

    async def work(signer):
        signer.tool.broken = ToolError("no key could be made: no memory")
        signer.scene.pods.put(POD)
        await later(20)
        assert signer.row.error == "no key could be made: no memory"
        signer.tool.broken = None
        await later(31)
        assert (len(signer.requests), signer.row.error) == (1, "")

    tale(tmp_path, work)


def test_an_account_that_cannot_be_is_never_asked_for_a_certificate(tmp_path):
    """No text of a pod becomes part of a request."""

    async def work(signer):
        odd = {**POD, "spec": {**POD["spec"], "serviceAccountName": "../x"}}
        signer.scene.pods.put(odd)
        await turns()
        assert signer.row.error == 'serviceaccounts "../x" not found'
        assert not [asked for asked in signer.scene.server.asked if ".." in asked[1]]

    tale(tmp_path, work)


def test_with_the_gate_off_no_certificate_is_asked_for(tmp_path):
    """The row says why."""

    async def work(signer):
        signer.scene.pods.put(POD)
        await turns()
        assert signer.row.error == GATE_OFF
        assert signer.requests == {}

    tale(tmp_path, work, feature_gates="PodCertificateRequest=false")


def test_no_key_is_in_the_text_of_a_row():
    """What is logged of a row holds no secret."""
    assert "SECRET" not in repr(CertificateRow("u1", b"SECRET"))
    assert "SECRET" not in repr(Requested("SECRET", "", ""))
