"""Trust anchors in projected volumes (L-27)."""

from __future__ import annotations

import asyncio
import os
import stat

import pytest

from kubelet.cluster.rows import TrustRow, trust_key
from kubelet.cluster.selectors import EVERYTHING
from kubelet.pods.rows import VolumeState
from procs.volumes.kinds import wants
from procs.volumes.sources import NO_API_SERVER, Lookup
from procs.volumes.wants import FilesWant, Lacking
from tests.unit.volumes.standing import CLUSTER, content, needs_mounts, pod

SIGNER = "acme.io/ca"
PEM = b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
FOUND = TrustRow(found=True, pem=PEM)
NOWHERE = TrustRow(read_ns=1)
NO_API = TrustRow(error="the API server has no such API", read_ns=1)
REFUSED = TrustRow(error="forbidden")
NOT_FOUND = (
    'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "bundle" not found'
)
NAMED = ("bundle", "", "")


def volume(**chosen):
    """A projected volume of one trust bundle."""
    return {"name": "p", "projected": {"sources": [{"clusterTrustBundle": chosen}]}}


def want_of(known, more=None, **chosen):
    """What a pod with this source wants if this is known."""
    rows = Lookup(trust=lambda *asked: known.get(asked))
    (want,) = wants(pod(volume(path="ca", **chosen), **(more or {})), CLUSTER, rows)
    return want


def expressions(**one):
    """A selector of one requirement."""
    return {"matchExpressions": [one]}


@pytest.mark.parametrize(
    ("chosen", "asked"),
    [
        ({"name": "bundle"}, NAMED),
        ({"signerName": SIGNER}, ("", SIGNER, "")),
        ({"signerName": SIGNER, "labelSelector": {}}, ("", SIGNER, EVERYTHING)),
        (
            {"signerName": SIGNER, "labelSelector": {"matchLabels": {"b": "2", "a": "1"}}},
            ("", SIGNER, "a=1,b=2"),
        ),
        (
            {
                "signerName": SIGNER,
                "labelSelector": expressions(key="k", operator="NotIn", values=["y", "x"]),
            },
            ("", SIGNER, "k notin (x,y)"),
        ),
    ],
)
def test_trust_is_looked_up_as_it_is_kept(chosen, asked):
    """L-27: no selector is another thing than an empty one."""
    want = want_of({asked: FOUND}, **chosen)
    assert isinstance(want, FilesWant)
    ((path, data, mode),) = [(one.path, one.data, one.mode) for one in want.files]
    assert (path, data, mode) == ("ca", PEM, 0o644)


@pytest.mark.parametrize(
    ("chosen", "row", "optional", "reason", "waiting"),
    [
        (
            {"name": "bundle"},
            None,
            True,
            "trust anchors of bundle have not been read from the API server yet",
            True,
        ),
        (
            {"signerName": SIGNER},
            None,
            False,
            f"trust anchors of signer {SIGNER} have not been read from the API server yet",
            True,
        ),
        (
            {"name": "bundle"},
            NOWHERE,
            False,
            NOT_FOUND,
            False,
        ),
        (
            {"signerName": SIGNER},
            NOWHERE,
            False,
            "combination of signerName and labelSelector matched zero ClusterTrustBundles",
            False,
        ),
        ({"name": "bundle"}, NO_API, False, NO_API.error, False),
        ({"name": "bundle"}, REFUSED, False, "forbidden", False),
        ({"name": "bundle"}, REFUSED, True, "forbidden", False),
        (
            {},
            None,
            True,
            "ClusterTrustBundle projection requires either name or signerName to be set",
            False,
        ),
        (
            {"signerName": SIGNER, "labelSelector": expressions(key="k", operator="Near")},
            FOUND,
            False,
            'while parsing label selector: "Near" is not a valid label selector operator',
            False,
        ),
    ],
)
def test_trust_that_is_not_there_says_why(chosen, row, optional, reason, waiting):
    """L-25, L-27: what is not read yet is waited for, even if it need not be there."""
    known = {} if row is None else {NAMED: row, ("", SIGNER, ""): row}
    want = want_of(known, optional=optional, **chosen)
    assert isinstance(want, Lacking)
    assert (want.reason, want.waiting) == (reason, waiting)


@pytest.mark.parametrize("row", [NOWHERE, NO_API])
def test_trust_that_need_not_be_there_is_an_empty_file(row):
    """L-27, L-22: optional; the file is there, as its containers expect it."""
    more = {"securityContext": {"runAsUser": 5}}
    want = want_of({NAMED: row}, more, name="bundle", optional=True)
    ((path, data, mode, user),) = [(f.path, f.data, f.mode, f.user) for f in want.files]
    assert (path, data, mode, user) == ("ca", b"", 0o600, 5)


def test_known_anchors_are_served_while_they_cannot_be_read():
    """What was found holds until something else is known."""
    row = TrustRow(found=True, pem=PEM, error="forbidden")
    assert want_of({NAMED: row}, name="bundle").files[0].data == PEM


def test_a_node_without_an_api_server_has_no_trust():
    """Optional is empty; else a sentence says why."""
    (want,) = wants(pod(volume(path="ca", name="b", optional=True)), CLUSTER, NO_API_SERVER)
    assert want.files[0].data == b""
    (want,) = wants(pod(volume(path="ca", name="b")), CLUSTER, NO_API_SERVER)
    assert want.reason == "this node has no API server, so there is no ClusterTrustBundle"


@needs_mounts
def test_trust_on_disk_follows_its_row(process, cluster):
    """L-27: set up when it is read, and written again when it is another."""

    async def story():
        cluster()
        key = trust_key(*NAMED)
        process.pod(pod(volume(path="ca", name="bundle")), source="api")
        await process.settled()
        assert process.volume().state is VolumeState.PENDING
        process._write(key, FOUND)
        await process.settled()
        there = process.volume()
        assert there.state is VolumeState.MOUNTED
        assert content(f"{there.host_path}/ca").encode() == PEM
        assert stat.S_IMODE(os.stat(f"{there.host_path}/ca").st_mode) == 0o644
        process._write(key, TrustRow(found=True, pem=PEM + PEM))
        await process.settled()
        assert content(f"{there.host_path}/ca").encode() == PEM + PEM

    asyncio.run(story())
