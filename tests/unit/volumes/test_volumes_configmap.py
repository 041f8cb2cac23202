"""ConfigMap volumes: on disk, otherwise like those of secrets."""

from __future__ import annotations

import asyncio
import os

import pytest

from kubelet.cluster.rows import CONFIG_MAP, ObjectRow
from kubelet.pods.rows import VolumeState, WorkerState
from procs.volumes import mounts, teardown
from procs.volumes.kinds import wants
from procs.volumes.layout import CONFIG_MAP as PLUGIN
from procs.volumes.sources import Lookup
from procs.volumes.wants import FilesWant, Lacking
from tests.unit.volumes.standing import CLUSTER, UID, content, needs_mounts, pod

MOUNTED, FAILED = VolumeState.MOUNTED, VolumeState.FAILED


def volume(**more):
    """A volume of config map x."""
    return {"name": "c", "configMap": {"name": "x", **more}}


def one(source, found, **more):
    """What a pod with this volume wants if this is what is known."""
    (want,) = wants(pod(source, **more), CLUSTER, Lookup(object=lambda *_key: found))
    return want


def row(data=None, **more):
    """What is known of config map x."""
    return ObjectRow(CONFIG_MAP, "ns", "x", data is not None, data=data or {}, **more)


def test_it_lies_on_disk():
    """L-20: configMap uses the default medium."""
    want = one(volume(), row({"a": b"1"}))
    assert isinstance(want, FilesWant)
    assert (want.base.fs_type, want.base.options, want.base.plugin) == ("", (), PLUGIN)


@pytest.mark.parametrize(
    ("more", "found", "reason", "waiting"),
    [
        ({}, None, "configmap ns/x has not been read from the API server yet", True),
        ({}, row(), 'configmap "x" not found', False),
        (
            {"items": [{"key": "k", "path": "p"}]},
            row({"a": b""}),
            "configmap references non-existent config key: k",
            False,
        ),
        ({"name": ""}, None, "no name of a configmap is given", False),
    ],
)
def test_what_cannot_be_had_is_said(more, found, reason, waiting):
    """L-25, in the words that users know."""
    want = one(volume(**more), found)
    assert isinstance(want, Lacking)
    assert (want.reason, want.waiting) == (reason, waiting)


def test_its_life_needs_no_mount(process, layout, cluster):
    """L-20, L-33: a directory with files of the group, gone with its pod."""
    group = os.getgid()

    async def story():
        cluster()
        process.object(CONFIG_MAP, "x", {"a.conf": b"one"})
        process.pod(pod(volume(defaultMode=0o600), fs_group=group), source="api")
        await process.settled()
        there = process.volume()
        assert (there.state, there.read_only) == (MOUNTED, True)
        assert there.host_path == f"{layout.volumes(UID)}/kubernetes.io~configmap/c"
        assert not mounts.is_point(there.host_path)
        assert content(f"{there.host_path}/a.conf") == "one"
        found = os.stat(f"{there.host_path}/a.conf")
        assert (found.st_mode & 0o7777, found.st_gid) == (0o640, group)
        process.pod(pod(volume()), WorkerState.TERMINATED, source="api")
        await process.settled()
        assert teardown.is_clean(UID, layout)

    asyncio.run(story())


@needs_mounts
def test_the_group_owns_what_is_written_later_too(process, cluster):
    """L-22, L-33: each write is given before it is seen."""

    async def story():
        cluster()
        process.object(CONFIG_MAP, "x", {"a": b"1"})
        process.pod(pod(volume(defaultMode=0o400), fs_group=4711), source="api")
        await process.settled()
        process.object(CONFIG_MAP, "x", {"b": b"2"})
        await process.settled()
        found = os.stat(f"{process.volume().host_path}/b")
        assert (found.st_mode & 0o7777, found.st_gid) == (0o440, 4711)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("items", "why"),
    [
        (["../up"], "must not contain '..'"),
        (["..data"], "must not start with '..'"),
        (["/etc/x"], "must be relative"),
        (["a", "a/b"], "is both a file and a directory"),
        (["a/b", "a"], "is both a file and a directory"),
        (["x" * 256], "is too long"),
        (["a\0b"], "is not the name of a file"),
    ],
)
def test_paths_that_lead_elsewhere_fail_in_words(process, layout, cluster, items, why):
    """L-21: names starting "..", backsteps, lengths; nothing is written."""
    listed = [{"key": "k", "path": path} for path in items]

    async def story():
        cluster()
        process.object(CONFIG_MAP, "x", {"k": b"1"})
        process.pod(pod(volume(items=listed)), source="api")
        await process.settled()
        failed = process.volume()
        assert failed.state is FAILED
        assert why in failed.reason
        assert failed.retry_ns == 0  # nothing but another document or object helps
        assert teardown.is_clean(UID, layout)

    asyncio.run(story())


@pytest.mark.parametrize("key", ["..x", "a/../../b"])
def test_keys_that_lead_elsewhere_fail_in_words(process, layout, cluster, key):
    """L-21: the API server refuses such keys; nobody relies on that."""

    async def story():
        cluster()
        process.object(CONFIG_MAP, "x", {key: b"1"})
        process.pod(pod(volume()), source="api")
        await process.settled()
        assert process.volume().state is FAILED
        assert teardown.is_clean(UID, layout)

    asyncio.run(story())
