"""Secret volumes: what is written, what is waited for, and what is said when it cannot be had."""

from __future__ import annotations

import asyncio
import os
import stat

import pytest

from kubelet.cluster.rows import SECRET, ObjectRow
from kubelet.pods.rows import VolumeState, WorkerState
from procs.volumes import mounts, teardown
from procs.volumes.kinds import wants
from procs.volumes.layout import SECRET as PLUGIN
from procs.volumes.sources import NO_API_SERVER, NOT_FROM_THERE, Lookup
from procs.volumes.wants import FilesWant, Lacking, Refused, may_block
from tests.unit.volumes.standing import CLUSTER, UID, blob, needs_mounts, pod

PENDING, MOUNTED, FAILED = VolumeState.PENDING, VolumeState.MOUNTED, VolumeState.FAILED
DATA = {"user": b"me", "key": b"\x00\xff"}


def volume(**more):
    """A volume of secret x."""
    return {"name": "s", "secret": {"secretName": "x", **more}}


def row(data=None, **more):
    """What is known of secret x."""
    return ObjectRow(SECRET, "ns", "x", data is not None, data=data or {}, **more)


def one(source, found, **more):
    """What a pod with this volume wants if this is what is known."""
    asked = []

    def read(*key):
        asked.append(key)
        return found

    (want,) = wants(pod(source, **more), CLUSTER, Lookup(object=read))
    assert set(asked) <= {(SECRET, "ns", "x")}
    return want


def files(want):
    """The files of a want, for comparing."""
    assert isinstance(want, FilesWant), want
    return {file.path: (file.data, file.mode) for file in want.files}


def test_every_key_is_a_file():
    """L-20, L-22: in memory, 0644 where nothing else is said, and too small to wait for."""
    want = one(volume(), row(DATA))
    assert files(want) == {"user": (b"me", 0o644), "key": (b"\x00\xff", 0o644)}
    assert (want.base.fs_type, want.base.plugin) == ("tmpfs", PLUGIN)
    assert not may_block(want)


def test_much_is_written_beside():
    """Whoever writes a lot does not keep all other pods from their volumes."""
    assert may_block(one(volume(), row({"big": bytes(300 << 10)})))
    assert may_block(one(volume(), row({f"k{n}": b"" for n in range(100)})))


def test_items_choose_place_and_rename():
    """L-22: item mode > defaultMode; only what is listed is there, under a clean path."""
    items = [
        {"key": "user", "path": "a/./b//who"},
        {"key": "key", "path": "k", "mode": 0o400},
    ]
    want = one(volume(items=items, defaultMode=0o600), row(DATA))
    assert files(want) == {"a/b/who": (b"me", 0o600), "k": (b"\x00\xff", 0o400)}


def test_the_group_can_read():
    """L-22: fsGroup adds group read."""
    want = one(volume(defaultMode=0o400), row(DATA), fs_group=7)
    assert {mode for _, mode in files(want).values()} == {0o440}
    assert want.base.fs_group == 7


MISSING_KEY = [{"key": "nope", "path": "p"}, {"key": "user", "path": "u"}]


@pytest.mark.parametrize(
    ("more", "found", "reason", "waiting"),
    [
        ({}, None, "secret ns/x has not been read from the API server yet", True),
        ({"optional": True}, None, "secret ns/x has not been read from the API server yet", True),
        ({}, row(), 'secret "x" not found', False),
        ({}, row(error='secrets "x" is forbidden'), 'secrets "x" is forbidden', False),
        ({"optional": True}, row(error="no route to host"), "no route to host", False),
        ({"items": MISSING_KEY}, row(DATA), "references non-existent secret key: nope", False),
        ({"secretName": ""}, row(DATA), "no name of a secret is given", False),
    ],
)
def test_what_cannot_be_had_is_said(more, found, reason, waiting):
    """L-25: required and missing is a failure in the words that users know; unknown is not."""
    want = one(volume(**more), found)
    assert isinstance(want, Lacking)
    assert (want.reason, want.waiting) == (reason, waiting)


@pytest.mark.parametrize(
    ("more", "found", "expected"),
    [
        ({"optional": True}, row(), {}),
        ({"optional": True, "items": MISSING_KEY}, row(), {}),
        ({"optional": True, "items": MISSING_KEY}, row(DATA), {"u": (b"me", 0o644)}),
        ({"optional": False}, row(DATA, error="away"), None),
    ],
)
def test_what_need_not_be_there_or_was_known_before(more, found, expected):
    """L-25: optional and missing is empty; a failed look does not undo the one before."""
    found_files = files(one(volume(**more), found))
    assert len(found_files) == 2 if expected is None else found_files == expected


@pytest.mark.parametrize(
    ("lookup", "reason"),
    [
        (NO_API_SERVER, "this node has no API server, so there is no secret x"),
        (NOT_FROM_THERE, "this pod is not from the API server, so there is no secret x"),
    ],
)
def test_where_there_are_no_secrets_none_is_waited_for(lookup, reason):
    """A node of its own, and a pod that no API server knows; optional is empty there too."""
    (want,) = wants(pod(volume()), CLUSTER, lookup)
    assert isinstance(want, Lacking)
    assert (want.reason, want.waiting) == (reason, False)
    (want,) = wants(pod(volume(optional=True)), CLUSTER, lookup)
    assert files(want) == {}


def test_a_mount_inside_that_leads_elsewhere_is_refused():
    """Whatever the secret is."""
    inside = ({"name": "s", "mountPath": "/s"}, {"name": "e", "mountPath": "/s/..x"})
    assert isinstance(one(volume(), None, mounts=inside), Refused)


def test_a_name_that_no_secret_can_have_is_not_waited_for():
    """Nothing is ever written down of it."""
    name = "x" * 300
    (want,) = wants(pod(volume(secretName=name)), CLUSTER, Lookup())
    assert (want.reason, want.waiting) == (f'secret "{name}" not found', False)


# On disk and over tables.


@needs_mounts
def test_a_secret_that_comes_later_is_set_up_when_it_comes(process, layout, cluster):
    """L-20, L-22: a sentence while it is waited for; the hint is what ends that, not a timer."""

    async def story():
        cluster()
        process.pod(pod(volume(defaultMode=0o400)), source="api")
        await process.settled()
        waiting = process.volume()
        assert (waiting.state, waiting.retry_ns) == (PENDING, 0)
        assert waiting.reason == "secret ns/x has not been read from the API server yet"
        assert process.records == []
        assert teardown.is_clean(UID, layout)
        process.object(SECRET, "other", DATA)
        assert not process.tasks  # that one is nobody's here
        process.object(SECRET, "x", DATA)
        await process.settled()
        there = process.volume()
        assert (there.state, there.reason) == (MOUNTED, "")
        assert (there.read_only, there.selinux_relabel) == (True, True)
        assert there.host_path == layout.volume(UID, PLUGIN, "s")
        assert mounts.is_point(there.host_path)
        assert sorted(n for n in os.listdir(there.host_path) if n[0] != ".") == ["key", "user"]
        assert blob(f"{there.host_path}/key") == DATA["key"]
        assert stat.S_IMODE(os.stat(f"{there.host_path}/key").st_mode) == 0o400
        assert [record[0] for record in process.records] == ["mounted"]
        process.pod(pod(volume()), WorkerState.TERMINATED, source="api")
        await process.settled()
        assert process.mounts() is None
        assert mounts.below(layout.root, mounts.points()) == []
        process.object(SECRET, "x", {"late": b""})
        assert not process.tasks

    asyncio.run(story())


def test_a_secret_that_is_not_there_fails_until_it_is_made(process, cluster):
    """L-25: Go's words, and the volume as soon as there is a secret."""

    async def story():
        cluster()
        process.object(SECRET, "x")
        process.pod(pod(volume(items=[])), source="api")
        await process.settled()
        failed = process.volume()
        assert (failed.state, failed.reason) == (FAILED, 'secret "x" not found')
        assert ("mount failed", 'secret "x" not found', UID) in process.records
        process.object(SECRET, "x", read_ns=5)
        await process.settled()
        assert [record[0] for record in process.records] == ["mount failed"]  # said once

    asyncio.run(story())


@pytest.mark.parametrize("source", ["file", "local"])
def test_a_pod_that_no_api_server_knows_has_no_secrets(process, cluster, source):
    """The node process reads objects for pods that are assigned; nothing is waited for in vain."""

    async def story():
        cluster()
        process.object(SECRET, "x", DATA)
        process.pod(pod(volume()), source=source)
        await process.settled()
        row = process.volume()
        assert row.state is FAILED
        assert row.reason == "this pod is not from the API server, so there is no secret x"

    asyncio.run(story())


def test_a_row_that_cannot_be_read_is_waited_for(process, cluster, capfd):
    """It says nothing of the secret that may be in it."""

    async def story():
        cluster()
        process.node.put("secret/ns/x", b"\xc1")
        process.pod(pod(volume()), source="api")
        await process.settled()
        assert process.volume().state is PENDING
        process.node.put("secret/ns/x", b"\x81\xa4data\xa6hunter")
        process.hint("secret/ns/x", "objects")
        await process.settled()
        assert process.volume().state is PENDING

    asyncio.run(story())
    assert "hunter" not in capfd.readouterr().err
