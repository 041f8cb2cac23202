"""Projected volumes: several sources in one place, and the pod's service account token."""

from __future__ import annotations

import asyncio
import os
import stat

import pytest

from kubelet.cluster.rows import CONFIG_MAP, SECRET, ObjectRow, TokenRow
from kubelet.pods.rows import VolumeState
from procs.volumes import mounts
from procs.volumes.kinds import wants
from procs.volumes.layout import PROJECTED
from procs.volumes.sources import NO_API_SERVER, Lookup, common_user
from procs.volumes.wants import FilesWant, Lacking
from tests.unit.volumes.standing import CLUSTER, UID, content, needs_mounts, pod

PENDING, MOUNTED, FAILED = VolumeState.PENDING, VolumeState.MOUNTED, VolumeState.FAILED

TOKEN = {"serviceAccountToken": {"path": "token"}}
ROOT_CA = {
    "configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
}
NAMESPACE = {
    "downwardAPI": {
        "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
    }
}
SECRET_X = {"secret": {"name": "x"}}


def volume(*sources, **more):
    """A projected volume."""
    return {"name": "p", "projected": {"sources": list(sources), **more}}


ACCESS = volume(TOKEN, ROOT_CA, NAMESPACE)  # what the API server gives every pod


def lookup(tokens=(), **objects):
    """What is known: tokens by audience and seconds, objects by kind."""

    def token(uid, audience, seconds):
        assert uid == UID
        return dict(tokens).get((audience, seconds))

    return Lookup(lambda kind, _namespace, _name: objects.get(kind), token)


def granted(token="t0k3n", audience="", seconds=3600, **more):
    """A token row under its audience and life time."""
    return (audience, seconds), TokenRow(UID, "ns", "sa", audience, seconds, token, **more)


def found(kind, **data):
    """A row of an object with this data; without any there is no such object."""
    return ObjectRow(kind, "ns", "x", bool(data), data=data)


CA = found(CONFIG_MAP, **{"ca.crt": b"CERT", "other": b"x"})


def one(source, known, **more):
    """What a pod with this volume wants if this is known."""
    (want,) = wants(pod(source, **more), CLUSTER, known)
    return want


def files(want):
    """The files of a want, for comparing."""
    assert isinstance(want, FilesWant), want
    return {file.path: (file.data, file.mode) for file in want.files}


def test_the_volume_that_every_pod_has():
    """L-20, L-26: token, root certificates and namespace, in memory; 3600 s for the API server."""
    want = one(ACCESS, lookup([granted()], configmap=CA))
    assert files(want) == {
        "token": (b"t0k3n", 0o644),
        "ca.crt": (b"CERT", 0o644),
        "namespace": (b"ns", 0o644),
    }
    assert (want.base.fs_type, want.base.plugin) == ("tmpfs", PROJECTED)


def test_a_token_is_for_its_audience_and_time():
    """L-26: as requested."""
    asked = {"path": "vault/token", "audience": "vault", "expirationSeconds": 600}
    source = volume({"serviceAccountToken": asked}, TOKEN)
    known = lookup([granted(), granted("v", "vault", 600)])
    assert files(one(source, known)) == {"vault/token": (b"v", 0o644), "token": (b"t0k3n", 0o644)}


@pytest.mark.parametrize("seconds", [None, 0])
def test_a_token_without_a_time_is_for_an_hour(seconds):
    """L-26: default 3600."""
    source = volume({"serviceAccountToken": {"path": "token", "expirationSeconds": seconds}})
    assert files(one(source, lookup([granted()]))) == {"token": (b"t0k3n", 0o644)}


def context(user):
    """A security context, or none."""
    return {} if user is None else {"securityContext": {"runAsUser": user}}


@pytest.mark.parametrize(
    ("whole", "containers", "init", "user"),
    [
        (None, [None], [], None),
        (1000, [None], [], 1000),
        (None, [1000, 1000], [1000], 1000),
        (1000, [None, 7], [], None),
        (None, [1000, None], [], None),
        (None, [1000], [None], None),
        (7, [None], [8], None),
        (7, [8], [8], 8),
        (0, [None], [], 0),
    ],
)
def test_who_all_containers_run_as(whole, containers, init, user):
    """L-22: only a user that is written, and the same for all."""
    spec = {
        "containers": [{"name": f"c{n}", **context(u)} for n, u in enumerate(containers)],
        "initContainers": [{"name": f"i{n}", **context(u)} for n, u in enumerate(init)],
        **context(whole),
    }
    assert common_user(pod(**spec)) == user


@pytest.mark.parametrize(
    ("spec", "mode", "user"),
    [
        ({}, 0o644, None),
        ({"securityContext": {"runAsUser": 1000}}, 0o600, 1000),
        ({"securityContext": {"fsGroup": 7}}, 0o640, None),
        ({"securityContext": {"fsGroup": 7, "runAsUser": 1000}}, 0o640, 1000),
    ],
)
def test_modes_of_a_token(spec, mode, user):
    """L-22: 0600 when fsGroup or user is fixed, given to that user, readable by that group."""
    want = one(volume(TOKEN, NAMESPACE), lookup([granted()]), **spec)
    token, namespace = want.files
    assert (token.mode, token.user) == (mode, user)
    assert (namespace.mode & ~0o440, namespace.user) == (0o204, None)


def test_a_default_mode_is_for_all_sources():
    """L-22: item mode > defaultMode, and a token's own rule over both."""
    source = volume(SECRET_X, TOKEN, NAMESPACE, defaultMode=0o440)
    known = lookup([granted()], secret=found(SECRET, a=b"1"))
    assert {mode for _, mode in files(one(source, known)).values()} == {0o440}
    want = one(source, known, securityContext={"runAsUser": 3})
    assert files(want)["token"] == (b"t0k3n", 0o600)


def test_of_two_that_write_the_same_path_the_later_one_does():
    """The API server forbids it where it can see it: in items, not in all keys of an object."""
    source = volume({"secret": {"name": "x"}}, {"configMap": {"name": "x"}})
    known = lookup(secret=found(SECRET, a=b"1", b=b"2"), configmap=found(CONFIG_MAP, b=b"3"))
    assert files(one(source, known)) == {"a": (b"1", 0o644), "b": (b"3", 0o644)}


def test_a_file_that_another_source_needs_as_a_directory_is_said():
    """Both cannot be there."""
    inner = {"secret": {"name": "x", "items": [{"key": "a", "path": "token/x"}]}}
    want = one(volume(TOKEN, inner), lookup([granted()], secret=found(SECRET, a=b"1")))
    assert isinstance(want, Lacking)
    assert want.reason == "path 'token/x' is both a file and a directory"


WAITS = "the token of service account ns/default has not been had from the API server yet"


@pytest.mark.parametrize(
    ("known", "reason", "waiting"),
    [
        (lookup(configmap=CA), WAITS, True),
        (lookup([granted("")], configmap=CA), WAITS, True),
        (
            lookup(),
            f"[{WAITS}, configmap ns/kube-root-ca.crt has not been read from the API server yet]",
            True,
        ),
        (
            lookup([granted("", error="serviceaccounts is forbidden")], configmap=CA),
            "failed to fetch token: serviceaccounts is forbidden",
            False,
        ),
        (
            lookup([granted("", error="failed to fetch token: once")], configmap=CA),
            "failed to fetch token: once",
            False,
        ),
        (lookup(configmap=found(CONFIG_MAP)), 'configmap "kube-root-ca.crt" not found', False),
        (
            lookup([granted("", error="no")], configmap=found(CONFIG_MAP, other=b"")),
            "[failed to fetch token: no, configmap references non-existent config key: ca.crt]",
            False,
        ),
    ],
)
def test_what_cannot_be_had_is_said_together(known, reason, waiting):
    """L-25, L-26: what is wrong counts before what is not there yet."""
    want = one(ACCESS, known)
    assert isinstance(want, Lacking)
    assert (want.reason, want.waiting) == (reason, waiting)


def test_a_token_whose_renewal_failed_is_used_on():
    """L-26: still served."""
    want = one(volume(TOKEN), lookup([granted("old", error="away")]))
    assert files(want) == {"token": (b"old", 0o644)}


def test_optional_sources_that_are_missing_leave_the_rest():
    """L-25."""
    optional = {"secret": {"name": "x", "optional": True}}
    want = one(volume(optional, NAMESPACE), lookup(secret=found(SECRET)))
    assert files(want) == {"namespace": (b"ns", 0o644)}


def test_a_node_of_its_own_has_what_needs_no_api_server():
    """The downward API in a projected volume, but no token."""
    assert files(one(volume(NAMESPACE), NO_API_SERVER)) == {"namespace": (b"ns", 0o644)}
    want = one(volume(TOKEN), NO_API_SERVER)
    assert want.reason == "this node has no API server, so there is no service account token"
    assert files(one(volume(), NO_API_SERVER)) == {}


@needs_mounts
def test_a_service_account_on_disk(process, layout, cluster):
    """L-20, L-22: set up with the last of its sources; the token is its user's alone."""

    async def story():
        cluster()
        process.pod(pod(ACCESS, securityContext={"runAsUser": 1234}), source="api")
        await process.settled()
        assert process.volume().state is PENDING
        process.object(CONFIG_MAP, "kube-root-ca.crt", {"ca.crt": b"CERT"})
        await process.settled()
        assert process.volume().reason == WAITS
        process.token("t0k3n")
        await process.settled()
        there = process.volume()
        assert (there.state, there.read_only) == (MOUNTED, True)
        assert there.host_path == layout.volume(UID, PROJECTED, "p")
        assert mounts.is_point(there.host_path)
        assert content(f"{there.host_path}/token") == "t0k3n"
        token = os.stat(f"{there.host_path}/token")
        assert (stat.S_IMODE(token.st_mode), token.st_uid) == (0o600, 1234)
        assert os.stat(f"{there.host_path}/ca.crt").st_uid == 0
        assert content(f"{there.host_path}/namespace") == "ns"

    asyncio.run(story())
