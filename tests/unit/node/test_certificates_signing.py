"""A certificate is asked for once, waited for over deaths, and every refusal is a sentence."""

from __future__ import annotations

import asyncio
import base64
import os
import random

import pytest
from cryptography import x509

from procs.node.apiserver.types import ApiError
from procs.node.certificates import csr, der, signing
from procs.node.certificates.client import Subject
from procs.node.certificates.csr import Outcome, Verdict
from procs.node.certificates.signing import Signing, SigningError, pause
from tests.unit.node.certificates_scene import DAY, NODE, Cluster, QuickTool, data, until

WHO = csr.node_subject(NODE)
KEY = "kubelet-client.key.tmp"


class Scene:
    """One who has certificates signed."""

    def __init__(self, root, purpose=csr.CLIENT, tool=None):
        self.root = root
        self.purpose = purpose
        self.cluster = Cluster()
        self.said = []
        self.tool = tool or QuickTool()
        self.renew()

    def renew(self):
        """Be the successor of a killed process."""
        self.signing = Signing(self.purpose, str(self.root), self.tool, self.said.append)

    async def obtain(self, subject=WHO, **more):
        return await self.signing.obtain(self.cluster, self.cluster.watch, subject, **more)

    def run(self, **more):
        return asyncio.run(self.obtain(**more))

    @property
    def key(self):
        return self.root / KEY


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


def test_a_request_that_is_approved_gives_a_certificate_of_our_key(scene) -> None:
    """N-42: signer and usages of a client; the key is on disk until the pair is kept elsewhere."""
    signed = scene.run()

    (item,) = scene.cluster.items.values()
    assert item["apiVersion"] == "certificates.k8s.io/v1"
    assert item["kind"] == "CertificateSigningRequest"
    spec = dict(item["spec"])
    request = x509.load_pem_x509_csr(base64.b64decode(spec.pop("request")))
    assert request.subject.rfc4514_string() == f"CN=system:node:{NODE},O=system:nodes"
    assert spec == {
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["digital signature", "client auth"],
    }
    assert item["metadata"]["name"].startswith("csr-")
    assert der.leaf(signed.chain).common_name == f"system:node:{NODE}"
    assert scene.key.read_text() == signed.key
    assert scene.key.stat().st_mode & 0o777 == 0o600
    scene.signing.settled()
    assert not scene.key.exists()
    assert not scene.cluster.watchers


def test_a_serving_request_has_its_signer_and_usages(tmp_path) -> None:
    """N-42: kubelet-serving, without key encipherment for elliptic keys."""
    scene = Scene(tmp_path, csr.SERVING)
    who = Subject(WHO.common_name, WHO.organizations, ("n",), ("10.0.0.1",))
    signed = scene.run(subject=who)
    (item,) = scene.cluster.items.values()
    assert item["spec"]["signerName"] == "kubernetes.io/kubelet-serving"
    assert item["spec"]["usages"] == ["digital signature", "server auth"]
    assert der.leaf(signed.chain).ips == ("10.0.0.1",)
    assert os.listdir(tmp_path) == ["kubelet-server.key.tmp"]


@pytest.mark.parametrize("approved_meanwhile", [True, False])
def test_a_successor_goes_on_with_the_same_request(scene, *, approved_meanwhile: bool) -> None:
    """N-41: killed while waiting; the same key makes the same name, and nothing is asked twice."""
    scene.cluster.policy = lambda _name: None

    async def story():
        first = asyncio.create_task(scene.obtain())
        await until(lambda: scene.cluster.watchers)
        key = scene.key.read_text()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        (name,) = scene.cluster.items
        if approved_meanwhile:
            scene.cluster.approve(name)
        scene.renew()
        second = asyncio.create_task(scene.obtain())
        if not approved_meanwhile:
            await until(lambda: scene.cluster.watchers)
            scene.cluster.approve(name)
        return key, await second

    key, signed = asyncio.run(story())
    assert signed.key == key
    assert len(scene.cluster.items) == 1
    assert scene.cluster.created == [next(iter(scene.cluster.items))] * 2


def deny(cluster, name):
    cluster.set(name, "Denied", message="not you")


def fail(cluster, name):
    cluster.set(name, "Failed", message="bad usages")


def garbage(cluster, name):
    cluster.set(name, "Approved", certificate=data("hello"))


def expired(cluster, name):
    cluster.life = (-2 * DAY, -DAY)
    cluster.approve(name)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (deny, "was denied: Test: not you"),
        (fail, "could not be signed: Test: bad usages"),
        (garbage, "answered with something else than a certificate"),
        (expired, "over already by this node's clock"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
def test_a_request_that_leads_nowhere_is_a_sentence(scene, policy, words, *, at_once) -> None:
    """The sentence names the request and the reason; the next round begins with another key."""
    waits = lambda _name: None  # noqa: E731
    scene.cluster.policy = (lambda name: policy(scene.cluster, name)) if at_once else waits

    async def story():
        doing = asyncio.create_task(scene.obtain())
        if not at_once:
            await until(lambda: scene.cluster.watchers)
            policy(scene.cluster, next(iter(scene.cluster.items)))
        await doing

    with pytest.raises(SigningError, match=words) as caught:
        asyncio.run(story())
    (name,) = scene.cluster.items
    assert name in str(caught.value)
    assert caught.value.refused
    assert not scene.key.exists()


def test_a_wait_has_its_limit_and_the_next_round_waits_for_the_same(scene) -> None:
    """N-44: nobody approves; the sentence says what to do, and an approval later still counts."""
    scene.cluster.policy = lambda _name: None
    with pytest.raises(SigningError, match=r"is not approved yet \(kubectl certificate approve"):
        scene.run(seconds=0.3)
    (name,) = scene.cluster.items
    scene.cluster.approve(name)
    assert scene.run().key == scene.key.read_text()
    assert list(scene.cluster.items) == [name]


def test_somebody_is_told_when_nobody_approves(scene, monkeypatch) -> None:
    """After some seconds the missing approval is news, and so is one without a signature."""
    monkeypatch.setattr(signing, "PATIENCE_SECONDS", 0.01)
    scene.cluster.policy = lambda name: scene.cluster.set(name, "Approved")

    async def story():
        doing = asyncio.create_task(scene.obtain())
        await until(lambda: scene.said)
        scene.cluster.approve(next(iter(scene.cluster.items)))
        await doing

    asyncio.run(story())
    assert "is approved, but not signed yet" in scene.said[0]


def test_a_request_that_was_deleted_may_be_made_again_with_its_key(scene) -> None:
    """The controllers remove old requests: the round ends, and the next asks anew."""
    scene.cluster.policy = lambda _name: None

    async def story():
        doing = asyncio.create_task(scene.obtain())
        await until(lambda: scene.cluster.watchers)
        await asyncio.sleep(0)
        scene.cluster.delete_request(next(iter(scene.cluster.items)))
        await doing

    with pytest.raises(SigningError, match="was deleted") as caught:
        asyncio.run(story())
    assert not caught.value.refused
    key = scene.key.read_text()
    scene.cluster.policy = scene.cluster.approve
    assert scene.run().key == key


def test_a_list_from_an_old_cache_is_not_a_deletion(scene) -> None:
    """A list that does not have the request yet is checked; one that is gone is gone."""
    scene.cluster.policy = lambda _name: None
    scene.cluster.stale_lists = True

    async def story():
        doing = asyncio.create_task(scene.obtain())
        await until(lambda: scene.cluster.watchers)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not doing.done()
        scene.cluster.approve(next(iter(scene.cluster.items)))
        await doing

        gone = Cluster.create

        async def create_and_lose(self, path, body, **more):
            made = await gone(self, path, body, **more)
            self.items.clear()
            return made

        scene.cluster.create = create_and_lose.__get__(scene.cluster)
        scene.signing.settled()
        await scene.obtain()

    with pytest.raises(SigningError, match="was deleted"):
        asyncio.run(story())


def test_an_error_of_the_watch_is_told_and_does_not_end_the_wait(scene) -> None:
    """A watch that is refused is a sentence; the approval counts as soon as it is seen."""
    scene.cluster.policy = lambda _name: None
    scene.cluster.watch_error = ApiError("certificatesigningrequests is forbidden", status=403)

    async def story():
        doing = asyncio.create_task(scene.obtain())
        await until(lambda: scene.said)
        scene.cluster.approve(next(iter(scene.cluster.items)))
        await doing

    asyncio.run(story())
    assert "certificatesigningrequests is forbidden" in scene.said[0]


def test_an_error_of_the_server_is_the_callers(scene) -> None:
    """What the server answers goes up as it is; the key waits for the next round."""
    scene.cluster.errors = [ApiError("no room", status=429, retry_after=7.0)]
    with pytest.raises(ApiError, match="no room"):
        scene.run()
    key = scene.key.read_text()
    assert scene.run().key == key


def test_a_request_of_the_same_name_for_another_signer_is_not_ours(scene) -> None:
    """Whatever stands there, the node does not wait for it; its next request has another name."""
    made = asyncio.run(scene.tool.request(WHO))
    scene.key.write_text(made.key)
    name = csr.name_of(csr.CLIENT, WHO, made.digest)
    scene.cluster.items[name] = {"metadata": {"name": name}, "spec": {"signerName": "x/y"}}
    with pytest.raises(SigningError, match="of somebody else"):
        scene.run()
    assert scene.run().key != made.key


def test_a_key_that_has_its_certificate_is_not_used_again(scene) -> None:
    """Killed after all was done but for removing the key: the next round makes a new one."""
    old = scene.run()
    assert scene.run(used=old.key).key != old.key
    assert len(scene.cluster.items) == 2


@pytest.mark.parametrize("rubbish", [b"rubbish", b"\xff\xfe", b""])
def test_a_key_file_with_rubbish_is_replaced(scene, rubbish) -> None:
    """What cannot be read as a key is no reason to fail."""
    scene.key.write_bytes(rubbish)
    assert scene.run().key == scene.key.read_text()


def test_no_room_on_the_disk_is_a_sentence(tmp_path) -> None:
    """A directory that cannot be made is named."""
    (tmp_path / "pki").write_text("a file")
    scene = Scene(tmp_path / "pki")
    with pytest.raises(SigningError, match=r"pki"):
        scene.run()
    assert not scene.cluster.created


# --- pure ----------------------------------------------------------------------------------------

APPROVED = {"type": "Approved", "status": "True"}


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (None, Verdict.PENDING),
        ({}, Verdict.PENDING),
        ({"conditions": None}, Verdict.PENDING),
        ({"conditions": "odd"}, Verdict.PENDING),
        ({"conditions": [None, 3, {}]}, Verdict.PENDING),
        ({"conditions": [{"type": "Approved", "status": "False"}]}, Verdict.PENDING),
        ({"certificate": data("x")}, Verdict.PENDING),
        ({"conditions": [APPROVED]}, Verdict.APPROVED),
        ({"conditions": [APPROVED], "certificate": ""}, Verdict.APPROVED),
        ({"conditions": [APPROVED], "certificate": "***"}, Verdict.APPROVED),
        ({"conditions": [APPROVED], "certificate": 5}, Verdict.APPROVED),
        ({"conditions": [APPROVED], "certificate": data("x")}, Verdict.ISSUED),
        ({"conditions": [APPROVED, {"type": "Denied"}]}, Verdict.DENIED),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, Verdict.FAILED),
    ],
)
def test_what_became_of_a_request(status, verdict) -> None:
    """Conditions and certificate decide; odd shapes mean that nothing is decided."""
    assert csr.outcome({"status": status}).verdict is verdict


def test_odd_objects_are_pending_or_nobodys() -> None:
    """An object without anything does not crash those who look at it."""
    assert csr.outcome({}) == Outcome(Verdict.PENDING)
    assert csr.signer_of({"spec": 1}) == ""


def test_names_depend_on_all_that_is_asked_for() -> None:
    """N-41: the same wish has the same name; another key, name, address or signer another one."""
    names = {
        csr.name_of(purpose, subject, digest)
        for purpose in (csr.CLIENT, csr.SERVING, csr.BOOTSTRAP)
        for subject in (WHO, Subject("system:node:x"), Subject("system:node:x", dns=("a",)))
        for digest in ("1", "2")
    }
    assert len(names) == 18
    assert csr.name_of(csr.BOOTSTRAP, WHO, "1").startswith("node-csr-")
    assert csr.name_of(csr.CLIENT, WHO, "1") == csr.name_of(csr.CLIENT, WHO, "1")


DENIED = SigningError("no", refused=True)


@pytest.mark.parametrize(
    ("failures", "error", "seconds"),
    [
        (1, SigningError("x"), 2),
        (2, SigningError("x"), 4),
        (5, SigningError("x"), 32),
        (6, SigningError("x"), 32),
        (1000, ApiError("x"), 32),
        (1, DENIED, 2),
        (6, DENIED, 64),
        (1000, DENIED, 900),
        (1, ApiError("x", status=429, retry_after=60.0), 60),
        (5, ApiError("x", status=429, retry_after=1.0), 32),
    ],
)
def test_how_long_to_wait_after_failures(failures, error, seconds) -> None:
    """N-44, T-18: 2 to 32 s; who was refused asks less and less; the server's word counts."""
    found = pause(failures, error, random.Random(1))
    assert seconds <= found <= seconds * 1.1
