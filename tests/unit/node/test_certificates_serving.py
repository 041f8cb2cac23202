"""The servers' certificate: given, signed by the cluster, or made here (N-40, N-42, N-44)."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from kubelet import config
from kubelet.channels.errors import HandlerError
from kubelet.channels.messages import BY_NAME, ServingCertificate
from procs.node.apiserver.types import ApiError
from procs.node.certificates import der, files, serving, signing
from procs.node.certificates.client import Subject, Tool
from procs.node.certificates.serving import (
    Serving,
    Way,
    cluster_subject,
    covers,
    due_ns,
    own_subject,
    way_of,
)
from procs.node.certificates.store import load
from tests.unit.node.certificates_scene import DAY, NODE, QuickTool, Standing, until

ADDRESSES = (("InternalIP", "10.0.0.7"), ("Hostname", NODE))
REQUESTED = "serverTLSBootstrap: true\n"
ALONE = "authentication: {webhook: {enabled: false}}\nauthorization: {mode: AlwaysAllow}\n"


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    """Retries come soon."""
    monkeypatch.setattr(signing, "_FIRST", 0.01)
    monkeypatch.setattr(signing, "_LAST", 0.02)
    monkeypatch.setattr(signing, "_LAST_REFUSED", 0.02)
    monkeypatch.setattr(serving, "_RETRY_SECONDS", 0.02)


# --- pure ----------------------------------------------------------------------------------------

FILES = ["--tls-cert-file=/c", "--tls-private-key-file=/k"]
ROTATES = ["--rotate-server-certificates"]


@pytest.mark.parametrize(
    ("flags", "connected", "way"),
    [
        ([], True, Way.SELF_SIGNED),
        ([], False, Way.SELF_SIGNED),
        (FILES, True, Way.FILES),
        (FILES, False, Way.FILES),
        (ROTATES, True, Way.CLUSTER),
        (ROTATES, False, Way.SELF_SIGNED),
        (FILES + ROTATES, True, Way.CLUSTER),
        (FILES + ROTATES, False, Way.FILES),
    ],
)
def test_where_the_certificate_comes_from(flags, connected, way) -> None:
    """N-40: the cluster if asked for and there is one, then files, then one of our own."""
    loaded = config.load(["--kubeconfig=/k", "--authorization-mode=AlwaysAllow", *flags]).config
    assert way_of(loaded, connected=connected) is way


def document(*pairs):
    return {"status": {"addresses": [{"type": kind, "address": text} for kind, text in pairs]}}


@pytest.mark.parametrize(
    ("told", "dns", "ips"),
    [
        (document(*ADDRESSES), (NODE,), ("10.0.0.7",)),
        (
            document(("InternalIP", "fd00:0::7"), ("ExternalIP", "1.2.3.4")),
            (),
            ("1.2.3.4", "fd00::7"),
        ),
        (document(("Hostname", "10.0.0.9")), (), ("10.0.0.9",)),
        (
            document(("InternalIP", "10.0.0.7"), ("InternalDNS", "a"), ("ExternalDNS", "b")),
            ("a", "b"),
            ("10.0.0.7",),
        ),
        (
            document(("InternalIP", "10.0.0.7"), ("InternalDNS", "10.0.0.8"), ("Odd", "x")),
            (),
            ("10.0.0.7",),
        ),
        (document(("InternalIP", "rubbish"), ("InternalIP", "10.0.0.7")), (), ("10.0.0.7",)),
    ],
)
def test_whom_a_serving_certificate_is_for(told, dns, ips) -> None:
    """N-42, N-44: names and addresses of the node's status, whatever else stands there."""
    who = cluster_subject(NODE, told)
    assert (who.common_name, who.organizations) == (f"system:node:{NODE}", ("system:nodes",))
    assert (who.dns, who.ips) == (dns, ips)


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        {"status": None},
        {"status": {"addresses": None}},
        {"status": {"addresses": [None, 3, {}, {"type": "InternalIP", "address": None}]}},
        document(("Hostname", NODE)),
    ],
)
def test_without_an_address_nobody_is_asked(told) -> None:
    """N-44: no request without an IP."""
    assert cluster_subject(NODE, told) is None


def test_a_gate_allows_names_alone() -> None:
    """N-44: AllowDNSOnlyNodeCSR."""
    assert cluster_subject(NODE, document(("Hostname", NODE)), dns_only=True).dns == (NODE,)
    assert cluster_subject(NODE, document(), dns_only=True) is None


@pytest.mark.parametrize(
    ("node", "node_ip", "dns", "ips"),
    [
        ("n", "", ("n",), ()),
        ("n", "10.0.0.7", ("n",), ("10.0.0.7",)),
        ("n", "10.0.0.7,fd00::7", ("n",), ("10.0.0.7", "fd00::7")),
        ("n", "::", ("n",), ()),
        ("n", "0.0.0.0", ("n",), ()),
        ("10.0.0.9", "10.0.0.7", (), ("10.0.0.7", "10.0.0.9")),
    ],
)
def test_whom_our_own_certificate_is_for(node, node_ip, dns, ips) -> None:
    """N-40: the node's name, and the address that it was given."""
    assert own_subject(node, node_ip) == Subject(node, (), dns, ips)


def test_another_address_makes_it_due_at_once() -> None:
    """N-44: a certificate for more than is needed is good; one for less is not."""
    leaf = der.Certificate(0, 100 * DAY, "", (), "", ("a", "b"), ("10.0.0.7",), "0" * 64)
    assert covers(leaf, Subject("x", (), ("a",), ("10.0.0.7",)))
    assert not covers(leaf, Subject("x", (), ("a",), ("10.0.0.8",)))
    assert not covers(leaf, Subject("x", (), ("c",), ()))
    assert due_ns(leaf, Subject("x", (), ("a",))) == 70 * DAY
    assert due_ns(leaf, Subject("x", (), ("c",))) == 0


# --- running -------------------------------------------------------------------------------------


class Scene:
    """A node with its serving certificate."""

    def __init__(self, root, *flags, fields="", connected=True, tool=None):
        alone = () if connected else ("--kubeconfig=", "--bootstrap-kubeconfig=")
        fields += "" if connected else ALONE
        self.node = Standing(root, *flags, *alone, fields=fields)
        self.tool = tool or QuickTool()
        self.kit = self.node.kit() if connected else None
        self.now = time.time_ns()
        self.node.cluster.wall = self.wall
        self.crt, self.key = (
            os.path.join(self.node.pki, f"kubelet.{end}") for end in ("crt", "key")
        )

    def wall(self):
        return self.now

    def start(self):
        part = Serving(self.node, self.node.troubles, self.tool, self.kit, self.wall)
        part.start()
        return part

    async def pair(self):
        return await self.node.channels.handlers[ServingCertificate](ServingCertificate(), None)

    @property
    def expiry(self):
        return self.node.troubles.row.serving_expiry_ns

    def tell(self):
        return self.node.told().get("serving certificate")

    def play(self, story):
        async def whole():
            try:
                return await asyncio.wait_for(story(), 20)
            finally:
                await self.node.stop()

        return asyncio.run(whole())


def mode(path):
    return os.stat(path).st_mode & 0o777


@pytest.mark.parametrize("connected", [True, False])
def test_one_is_made_where_none_is_given(tmp_path, *, connected) -> None:
    """N-40: <cert-dir>/kubelet.{crt,key}, also on a node without an API server; the API gets it."""
    scene = Scene(tmp_path, "--node-ip=10.0.0.7", connected=connected, tool=Tool())

    async def story():
        scene.start()
        await until(lambda: scene.expiry)
        return await scene.pair()

    handed = scene.play(story)
    assert (mode(scene.crt), mode(scene.key)) == (0o644, 0o600)
    pair = load(scene.crt, scene.key)
    assert pair.certificate.common_name == f"{NODE}@{scene.now // 10**9}"
    assert (pair.certificate.dns, pair.certificate.ips) == ((NODE,), ("10.0.0.7",))
    assert pair.certificate.not_after_ns == scene.expiry == handed.expires_ns
    assert (handed.cert_pem, handed.key_pem) == (pair.chain, pair.key)
    assert pair.key not in repr(handed)
    assert scene.node.files() == ["kubelet.crt", "kubelet.key"]
    assert scene.tell() is None


def test_one_that_is_there_stays(tmp_path) -> None:
    """N-40: whoever put it there, it is used; that somebody else's has expired is said."""
    scene = Scene(tmp_path)
    authority = scene.node.cluster.authority
    os.makedirs(scene.node.pki)
    chain, key = authority.pair(before=scene.now - 2 * DAY, after=scene.now - DAY)
    files.write(scene.crt, chain)
    files.write(scene.key, key)

    async def story():
        scene.start()
        await until(scene.tell)

    scene.play(story)
    assert scene.tell() == f"{scene.crt} has expired"
    assert files.read(scene.crt) == chain


@pytest.mark.parametrize("harm", ["expired", "no key", "another key", "no certificate", "rubbish"])
def test_one_of_ours_that_is_of_no_use_is_made_anew(tmp_path, harm) -> None:
    """An expired, half or mismatched pair does not stay; a kill between the two files heals."""
    scene = Scene(tmp_path)
    os.makedirs(scene.node.pki)
    old = asyncio.run(scene.tool.self_sign(Subject(NODE), 1_000_000, 3600))
    new = asyncio.run(scene.tool.self_sign(Subject(NODE), scene.now // 10**9, 3600))
    first = old if harm == "expired" else new
    files.write(scene.crt, "rubbish" if harm == "rubbish" else first.chain)
    files.write(scene.key, old.key if harm == "another key" else first.key)
    if harm == "no key":
        files.remove(scene.key)
    if harm == "no certificate":
        files.remove(scene.crt)

    async def story():
        scene.start()
        await until(lambda: scene.expiry > scene.now + 300 * DAY)

    scene.play(story)
    assert load(scene.crt, scene.key).key not in (old.key, new.key)


def test_a_disk_or_program_that_fails_is_told_and_tried_again(tmp_path) -> None:
    """The servers get a sentence until it works."""
    scene = Scene(tmp_path, tool=Tool(command=("/nowhere/python",)))

    async def story():
        part = scene.start()
        await until(scene.tell)
        assert "no key could be made" in scene.tell()
        with pytest.raises(HandlerError, match="there is no serving certificate"):
            await scene.pair()
        part._tool = QuickTool()
        await until(lambda: scene.expiry)

    scene.play(story)
    assert scene.tell() is None


def test_files_that_are_given_are_used_and_followed(tmp_path) -> None:
    """Nothing is made; a new pair in the same files has its end noted at once."""
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    scene = Scene(tmp_path, f"--tls-cert-file={cert}", f"--tls-private-key-file={key}")
    authority = scene.node.cluster.authority

    async def story():
        scene.start()
        await until(scene.tell)
        assert scene.tell() == f"{cert} is not there"
        first, second = authority.pair(), authority.pair(after=scene.now + 50 * DAY)
        files.write(str(key), first[1])
        files.write(str(cert), first[0])
        await until(lambda: scene.expiry)
        files.write(str(cert), second[0])
        await until(scene.tell)  # not its key yet
        files.write(str(key), second[1])
        await until(lambda: scene.tell() is None and scene.expiry > scene.now + 40 * DAY)
        return second, await scene.pair()

    second, handed = scene.play(story)
    assert (handed.cert_pem, handed.key_pem) == second
    assert scene.node.files() == []


def test_the_cluster_signs_one(tmp_path) -> None:
    """N-42, N-44: asked for once the node has an address; then the servers get it."""
    scene = Scene(tmp_path, fields=REQUESTED)

    async def story():
        scene.start()
        await asyncio.sleep(0.01)
        assert scene.tell() is None  # nothing is known yet
        scene.node.addresses(scene.kit, ("Hostname", NODE))
        await until(scene.tell)
        assert "no IP address" in scene.tell()
        with pytest.raises(HandlerError, match="has not signed one yet"):
            await scene.pair()
        scene.node.addresses(scene.kit, *ADDRESSES)
        await until(lambda: scene.expiry)
        return await scene.pair()

    handed = scene.play(story)
    (item,) = scene.node.cluster.items.values()
    assert item["spec"]["signerName"] == "kubernetes.io/kubelet-serving"
    leaf = der.leaf(handed.cert_pem)
    assert (leaf.dns, leaf.ips) == ((NODE,), ("10.0.0.7",))
    assert scene.tell() is None
    assert [name for name in scene.node.files() if not name.startswith("kubelet-server-")] == []


def test_other_addresses_are_asked_for_at_once(tmp_path) -> None:
    """N-44: also while the request before is still open; what is the same again asks nothing."""
    scene = Scene(tmp_path, fields=REQUESTED)
    cluster = scene.node.cluster

    async def story():
        scene.node.addresses(scene.kit, *ADDRESSES)
        scene.start()
        await until(lambda: scene.expiry)
        scene.node.addresses(scene.kit, *ADDRESSES)
        cluster.policy = lambda _name: None
        scene.node.addresses(scene.kit, *ADDRESSES, ("ExternalIP", "1.2.3.4"))
        await until(lambda: cluster.watchers)
        assert len(cluster.items) == 2
        scene.node.addresses(scene.kit, *ADDRESSES, ("ExternalIP", "1.2.3.5"))
        await until(lambda: len(cluster.items) == 3 and cluster.watchers)
        cluster.approve(list(cluster.items)[-1])
        await until(lambda: "1.2.3.5" in load_server(scene).certificate.ips)
        scene.node.addresses(scene.kit, *ADDRESSES)  # fewer: still good
        await asyncio.sleep(0.05)

    scene.play(story)
    assert len(cluster.items) == 3


def load_server(scene):
    return load(os.path.join(scene.node.pki, "kubelet-server-current.pem"))


def test_a_successor_uses_what_was_signed(tmp_path) -> None:
    """A start with a good pair asks for nothing."""
    scene = Scene(tmp_path, fields=REQUESTED)

    async def story():
        scene.node.addresses(scene.kit, *ADDRESSES)
        scene.start()
        await until(lambda: scene.expiry)
        await scene.node.stop()
        scene.kit = scene.node.kit()
        scene.node.addresses(scene.kit, *ADDRESSES)
        scene.start()
        await asyncio.sleep(0.05)
        return await scene.pair()

    handed = scene.play(story)
    assert len(scene.node.cluster.created) == 1
    assert der.leaf(handed.cert_pem).ips == ("10.0.0.7",)


def test_a_request_that_nobody_approves_is_told(tmp_path, monkeypatch) -> None:
    """The sentence says what an administrator can do, and errors are counted (N-47)."""
    monkeypatch.setattr(signing, "PATIENCE_SECONDS", 0.01)
    scene = Scene(tmp_path, fields=REQUESTED)
    scene.node.cluster.errors = [ApiError("boom", status=500)]
    scene.node.cluster.policy = lambda _name: None

    async def story():
        scene.node.addresses(scene.kit, *ADDRESSES)
        scene.start()
        await until(lambda: "kubectl certificate approve" in (scene.tell() or ""))

    scene.play(story)
    assert scene.node.row.counters == {"serving_cert_renew_errors": 1}


def test_a_signer_that_leaves_addresses_out_is_not_asked_without_end(tmp_path, monkeypatch) -> None:
    """What it gave is used; what is missing is told, and asked for again after a pause."""
    monkeypatch.setattr(signing, "_FIRST", 3600.0)
    monkeypatch.setattr(signing, "_LAST_REFUSED", 3600.0)
    scene = Scene(tmp_path, fields=REQUESTED)
    scene.node.cluster.bare = True

    async def story():
        scene.node.addresses(scene.kit, *ADDRESSES)
        scene.start()
        await until(scene.tell)
        return await scene.pair()

    handed = scene.play(story)
    assert f"it was signed without 10.0.0.7, {NODE}" in scene.tell()
    assert len(scene.node.cluster.items) == 1
    assert handed.cert_pem


def test_until_the_cluster_signs_the_files_that_are_given_serve(tmp_path) -> None:
    """N-40, N-44: tlsCertFile beside serverTLSBootstrap is what is shown meanwhile."""
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    flags = f"--tls-cert-file={cert}", f"--tls-private-key-file={key}"
    scene = Scene(tmp_path, *flags, fields=REQUESTED)
    given = scene.node.cluster.authority.pair()
    files.write(str(cert), given[0])
    files.write(str(key), given[1])

    async def story():
        scene.start()
        return await scene.pair()

    assert scene.play(story).key_pem == given[1]


def test_only_the_servers_may_have_the_key() -> None:
    """The request is api's alone, and node's to answer."""
    row = BY_NAME["serving-certificate"]
    assert (row.allowed, row.handled_by) == ({"api"}, {"node"})
