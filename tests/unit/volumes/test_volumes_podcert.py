"""Certificates of pods in projected volumes (L-28)."""

from __future__ import annotations

import asyncio

import pytest

from kubelet.cluster.rows import CertificateRow, certificate_key
from kubelet.pods.rows import VolumeState
from procs.volumes.kinds import wants
from procs.volumes.sources import NO_API_SERVER, Lookup
from procs.volumes.wants import FilesWant, Lacking
from tests.unit.volumes.standing import CLUSTER, UID, content, needs_mounts, pod

SIGNER = "acme.io/mesh"
KEY, CHAIN = b"KEY\n", b"LEAF\nMIDDLE\n"
ISSUED = CertificateRow(UID, KEY, CHAIN)
PATHS = {"credentialBundlePath": "all.pem", "keyPath": "tls/key", "certificateChainPath": "tls/crt"}


def volume(**paths):
    """A projected volume whose second source is a certificate."""
    wish = {"signerName": SIGNER, "keyType": "ED25519", **paths}
    first = {"downwardAPI": {"items": []}}
    return {"name": "creds", "projected": {"sources": [first, {"podCertificate": wish}]}}


def want_of(row, paths=None, **spec):
    """What a pod wants if this is known of its certificate."""

    def certificate(uid, name, index):
        assert (uid, name, index) == (UID, "creds", 1)
        return row

    document = pod(volume(**(PATHS if paths is None else paths)), **spec)
    (want,) = wants(document, CLUSTER, Lookup(certificate=certificate))
    return want


@pytest.mark.parametrize(
    ("paths", "files"),
    [
        ({"credentialBundlePath": "all.pem"}, {"all.pem": KEY + CHAIN}),
        (
            {"keyPath": "k", "certificateChainPath": "c"},
            {"k": KEY, "c": CHAIN},
        ),
        (PATHS, {"all.pem": KEY + CHAIN, "tls/key": KEY, "tls/crt": CHAIN}),
    ],
)
def test_files_of_a_certificate(paths, files):
    """L-28: the bundle has the key first; only those paths that are given."""
    want = want_of(ISSUED, paths)
    assert isinstance(want, FilesWant)
    assert {one.path: one.data for one in want.files} == files


@pytest.mark.parametrize(
    ("spec", "mode", "user"),
    [
        ({}, 0o644, None),
        ({"securityContext": {"runAsUser": 1000}}, 0o600, 1000),
        ({"securityContext": {"fsGroup": 7}}, 0o640, None),
    ],
)
def test_modes_of_a_certificate(spec, mode, user):
    """L-22: for those alone who the containers run as, if that can be told."""
    assert {(one.mode, one.user) for one in want_of(ISSUED, **spec).files} == {(mode, user)}


@pytest.mark.parametrize(
    ("row", "reason", "waiting"),
    [
        (
            None,
            f"credential bundle is not issued yet: signer {SIGNER} has not been asked",
            True,
        ),
        (
            CertificateRow(UID, KEY),
            f"credential bundle is not issued yet: signer {SIGNER} has not answered",
            True,
        ),
        (CertificateRow(UID, KEY, error="forbidden"), "forbidden", False),
        (CertificateRow(UID, error="was denied", fatal=True), "was denied", False),
    ],
)
def test_a_certificate_that_is_not_there_says_why(row, reason, waiting):
    """L-28: an answer is waited for; a refusal is said."""
    want = want_of(row)
    assert isinstance(want, Lacking)
    assert (want.reason, want.waiting) == (reason, waiting)


def test_a_pod_keeps_a_certificate_whose_renewal_was_refused():
    """What a pod has is not taken away."""
    row = CertificateRow(UID, KEY, CHAIN, error="was denied", fatal=True)
    assert isinstance(want_of(row), FilesWant)


def test_a_node_without_an_api_server_has_no_certificates():
    """A sentence says why."""
    (want,) = wants(pod(volume(**PATHS)), CLUSTER, NO_API_SERVER)
    said = "this node has no API server, so there is no certificate of acme.io/mesh"
    assert want.reason == said


@needs_mounts
def test_a_certificate_on_disk_follows_its_row(process, cluster):
    """L-28: the pair is one write, at first and when it is replaced."""

    async def story():
        cluster()
        key = certificate_key(UID, "creds", 1)
        process.pod(pod(volume(credentialBundlePath="all.pem")), source="api")
        await process.settled()
        assert process.volume().state is VolumeState.PENDING
        process._write(key, ISSUED)
        await process.settled()
        path = f"{process.volume().host_path}/all.pem"
        assert content(path).encode() == KEY + CHAIN
        process._write(key, CertificateRow(UID, b"KEY2\n", b"LEAF2\n"))
        await process.settled()
        assert content(path) == "KEY2\nLEAF2\n"

    asyncio.run(story())
