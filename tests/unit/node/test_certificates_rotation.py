"""The client certificate is renewed in time, and its end is no secret (N-44 to N-47, T-18)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from kubelet.process.process import RestartWantedError
from procs.node.apiserver.types import ApiError, Endpoint
from procs.node.certificates import der, files, rotation, signing
from procs.node.certificates.rotation import (
    DEAD_NS,
    ClientRotation,
    Situation,
    Step,
    decide,
    renewal_ns,
    rest_seconds,
)
from procs.node.certificates.store import CLIENT, Store
from tests.unit.node.certificates_scene import (
    DAY,
    HOUR,
    NODE,
    Authority,
    QuickTool,
    Standing,
    until,
)

BEGIN, END = 1_000 * DAY, 1_100 * DAY
CERTIFICATE = der.Certificate(BEGIN, END, f"system:node:{NODE}", (), "ca", (), (), "80000000" * 8)
DUE = BEGIN + 80 * DAY  # the middle between 70 and 90 %


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    """Retries come soon."""
    monkeypatch.setattr(signing, "_FIRST", 0.01)
    monkeypatch.setattr(signing, "_LAST", 0.02)
    monkeypatch.setattr(signing, "_LAST_REFUSED", 0.02)


# --- pure ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("digest", "days"), [("00000000", 70), ("80000000", 80), ("ffffffff", 90)])
def test_a_certificate_is_renewed_between_70_and_90_percent(digest, days) -> None:
    """N-44: the certificate itself says where between, so a restart finds the same moment."""
    found = renewal_ns(replace(CERTIFICATE, digest=digest))
    assert abs(found - (BEGIN + days * DAY)) < HOUR


def test_certificates_of_many_nodes_are_renewed_at_different_times() -> None:
    """N-44: a cluster made at once is not renewed at once."""
    authority = Authority()
    shares = []
    for _ in range(40):
        leaf = der.leaf(authority.pair(before=BEGIN, after=END)[0])
        shares.append((renewal_ns(leaf) - BEGIN) / (END - BEGIN))
    assert all(0.7 <= share <= 0.9 for share in shares)
    assert max(shares) - min(shares) > 0.1


PLAIN = Situation(CERTIFICATE, rotates=True)
LOST = Situation(CERTIFICATE, rotates=True, bootstrap=True, rejected=True)
STILL = Situation(CERTIFICATE, rotates=False)


@pytest.mark.parametrize(
    ("situation", "now", "step", "again"),
    [
        (PLAIN, BEGIN, Step.WAIT, DUE),
        (PLAIN, DUE - HOUR, Step.WAIT, DUE),
        (PLAIN, DUE + HOUR, Step.RENEW, None),
        (PLAIN, END - 1, Step.RENEW, None),
        (PLAIN, END + 30 * DAY, Step.RENEW, None),
        (STILL, DUE + HOUR, Step.WAIT, END),
        (STILL, END, Step.SAY_EXPIRED, None),
        (STILL, END + DEAD_NS, Step.SAY_EXPIRED, None),
        (replace(STILL, bootstrap=True, rejected=True), END + DAY, Step.SAY_EXPIRED, None),
        (LOST, DUE + HOUR, Step.RENEW, None),
        (LOST, END + DEAD_NS - 1, Step.RENEW, None),
        (LOST, END + DEAD_NS, Step.BEGIN_AGAIN, None),
        (replace(LOST, rejected=False), END + DAY, Step.RENEW, None),
        (replace(LOST, bootstrap=False), END + DAY, Step.RENEW, None),
        (replace(LOST, since_ns=END + DAY), END + DAY, Step.RENEW, None),
        (replace(LOST, since_ns=END + DAY), END + DAY + DEAD_NS, Step.BEGIN_AGAIN, None),
    ],
)
def test_what_is_done_when(situation, now, step, again) -> None:
    """N-44, N-45: wait, renew, say so; back to the bootstrap after 5 min of a certificate's end.

    But only when the server says, too, that it knows us no more: our clock may be wrong.
    """
    found, when = decide(situation, now)
    assert found is step
    if again is not None:
        assert abs(when - again) < HOUR


def test_a_certificate_that_should_be_renewed_at_birth_is_left_alone_for_a_while() -> None:
    """A signer with very short lives is not asked without a pause."""
    assert rest_seconds(CERTIFICATE, BEGIN) == 0
    assert rest_seconds(CERTIFICATE, END - 60 * 10**9) == 30
    assert rest_seconds(CERTIFICATE, END + DAY) == 2


# --- running -------------------------------------------------------------------------------------


class Scene:
    """A node whose kubeconfig has a client certificate."""

    def __init__(self, root, *, rotates=True, life=(-HOUR, 10 * DAY)):
        self.node = Standing(root, fields=f"rotateCertificates: {str(rotates).lower()}\n")
        self.store = Store(self.node.pki, CLIENT)
        self.now = time.time_ns()
        self.node.cluster.wall = self.wall
        before, after = (self.now + part for part in life)
        self.chain, self.key = self.node.cluster.authority.pair(before=before, after=after)
        self.store.save(self.chain, self.key, self.now)
        self.endpoint = Endpoint(
            "https://s", client_cert_pem=self.chain, client_key_pem=self.chain + self.key
        )
        self.kit = self.node.kit(self.wall)
        self.renewed = []

    def wall(self):
        return self.now

    def start(self):
        part = ClientRotation(
            self.kit,
            tool=QuickTool(),
            store=self.store,
            endpoint=self.endpoint,
            renewed=lambda: self.renewed.append(1),
        )
        part.start()
        return part

    @property
    def expiry(self):
        return self.node.troubles.row.client_expiry_ns

    def tell(self):
        return self.node.told().get("client certificate")


def play(story):
    async def whole():
        await asyncio.wait_for(story(), 20)

    asyncio.run(whole())


def test_a_certificate_that_is_due_is_renewed(tmp_path) -> None:
    """N-44, N-46: a new pair is in use, the connections' owner is told, and its end is known."""
    scene = Scene(tmp_path, life=(-95 * DAY, 5 * DAY))

    async def story():
        scene.start()
        await until(lambda: scene.renewed and scene.expiry > scene.now + 9 * DAY)
        await scene.node.stop()

    play(story)
    pair = scene.store.load(scene.now).pair
    assert pair.key != scene.key
    assert pair.certificate.common_name == f"system:node:{NODE}"
    assert pair.certificate.organizations == ("system:nodes",)
    (item,) = scene.node.cluster.items.values()
    assert item["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
    assert scene.node.files()[-1] == "kubelet-client-current.pem"
    assert len(scene.node.files()) == 3
    assert scene.node.told() == {}
    assert scene.node.row.counters == {}


def test_a_certificate_that_is_not_due_is_left_alone(tmp_path) -> None:
    """Nothing is asked for; its end is noted."""
    scene = Scene(tmp_path)

    async def story():
        scene.start()
        await until(lambda: scene.expiry)
        await scene.node.stop()

    play(story)
    assert scene.expiry == der.leaf(scene.chain).not_after_ns
    assert not scene.node.cluster.created


def test_errors_are_told_counted_and_tried_again(tmp_path) -> None:
    """N-44, N-47: 403, 500, a denial; then it works, and nothing is wrong any more."""
    scene = Scene(tmp_path, life=(-95 * DAY, 5 * DAY))
    cluster = scene.node.cluster
    cluster.errors = [ApiError("forbidden", status=403), ApiError("boom", status=500)]
    denied = []

    def policy(name):
        denied.append(name)
        if len(denied) > 1:
            cluster.approve(name)
        else:
            cluster.set(name, "Denied")

    cluster.policy = policy
    said = []
    tell = scene.node.troubles.tell
    scene.node.troubles.tell = lambda what, error: (said.append(error), tell(what, error))

    async def story():
        scene.start()
        await until(lambda: scene.renewed)
        await scene.node.stop()

    play(story)
    assert [text for text in said if text][:2] == [
        "it is not renewed yet: forbidden",
        "it is not renewed yet: boom",
    ]
    assert "was denied" in said[2]
    assert scene.node.row.counters == {"client_certificate_renew_errors": 3}
    assert scene.tell() is None


@pytest.mark.parametrize("when", ["waiting", "signed"])
def test_killed_in_a_renewal_the_successor_finishes_it(tmp_path, monkeypatch, when) -> None:
    """One request and one new certificate, whether it was killed before or after the signature."""
    scene = Scene(tmp_path, life=(-95 * DAY, 5 * DAY))
    cluster = scene.node.cluster
    cluster.policy = lambda _name: None

    async def story():
        scene.start()
        await until(lambda: cluster.watchers)
        if when == "signed":
            with monkeypatch.context() as patch:
                patch.setattr(signing.Signing, "settled", lambda _self: None)
                cluster.approve(next(iter(cluster.items)))
                await until(lambda: scene.renewed)
        await scene.node.stop()
        scene.renewed.clear()
        scene.start()
        if when == "waiting":
            await until(lambda: cluster.watchers)
            cluster.approve(next(iter(cluster.items)))
            await until(lambda: scene.renewed)
        await until(lambda: scene.expiry > scene.now + 9 * DAY)
        await scene.node.stop()

    play(story)
    assert len(cluster.items) == 1
    assert len(scene.node.files()) == 3 + (when == "signed")  # the key that was not removed


def test_an_expired_certificate_that_nobody_renews_is_said(tmp_path) -> None:
    """N-45: without a bootstrap kubeconfig, the node says so and goes on trying."""
    scene = Scene(tmp_path, life=(-2 * DAY, -DAY))
    scene.node.cluster.errors = [ApiError("Unauthorized", status=401)] * 1000

    async def story():
        scene.start()
        await until(lambda: scene.node.row.counters["client_certificate_renew_errors"] > 2)
        scene.now += DAY
        before = scene.node.row.counters["client_certificate_renew_errors"]
        await until(lambda: scene.node.row.counters["client_certificate_renew_errors"] > before + 2)
        await scene.node.stop()

    play(story)
    assert scene.tell() == "it has expired and is not renewed: Unauthorized"


def test_a_dead_certificate_leads_back_to_the_bootstrap(tmp_path) -> None:
    """N-45, T-18: rejected for 5 min after its end, the process starts anew, with the token."""
    scene = Scene(tmp_path, life=(-2 * DAY, -DAY))
    scene.node.write_bootstrap()
    scene.node.cluster.errors = [ApiError("Unauthorized", status=401)] * 1000

    async def story():
        scene.start()
        (task,) = scene.node.tasks
        await until(lambda: scene.node.row.counters["client_certificate_renew_errors"] > 2)
        assert not task.done()
        scene.now += DEAD_NS
        with pytest.raises(RestartWantedError, match="back to the bootstrap"):
            await task

    play(story)


def test_without_rotation_only_the_end_is_noted(tmp_path, monkeypatch) -> None:
    """A certificate that its owner replaces in time is seen at once; one that ends is said."""
    monkeypatch.setattr(rotation, "_LEAST_NS", 1)
    scene = Scene(tmp_path, rotates=False, life=(-2 * DAY, -DAY))
    path = str(tmp_path / "own.pem")
    files.write(path, scene.chain + scene.key)
    scene.endpoint = replace(scene.endpoint, client_cert_file=path, client_key_file=path)
    fresh, _ = scene.node.cluster.authority.pair()

    async def story():
        scene.start()
        await until(scene.tell)
        assert scene.tell() == "it has expired, and rotateCertificates is off"
        files.write(path, fresh)
        await until(lambda: scene.tell() is None)
        await scene.node.stop()

    play(story)
    assert scene.expiry == der.leaf(fresh).not_after_ns
    assert not scene.node.cluster.created


def test_a_certificate_file_that_is_broken_is_named(tmp_path) -> None:
    """Somebody wrote rubbish there: a sentence, and as soon as it is right it counts."""
    scene = Scene(tmp_path, rotates=False)
    path = str(tmp_path / "own.pem")
    files.write(path, "rubbish")
    scene.endpoint = replace(scene.endpoint, client_cert_file=path)

    async def story():
        scene.start()
        await until(scene.tell)
        assert path in scene.tell()
        files.write(path, scene.chain)
        await until(lambda: scene.tell() is None)
        await scene.node.stop()

    play(story)


def test_a_token_needs_no_renewal(tmp_path) -> None:
    """Without a client certificate there is nothing to do and no end to note."""
    scene = Scene(tmp_path)
    scene.endpoint = Endpoint("https://s", token="t")
    scene.start()
    assert scene.node.tasks == []
    assert scene.expiry == 0
