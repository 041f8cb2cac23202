"""Volumes that take long or have failed: the sentences, and where status shows them."""

from __future__ import annotations

from typing import Any

import pytest

from kubelet.pods.rows import MountsRow, VolumeRow, VolumeState
from kubeletctl import volumes
from tests.unit.kubeletctl.harness import Tree
from tests.unit.kubeletctl.podfiles import Tables, ago, pod, status

NOW = 1_700_000_000 * 10**9
SECOND = 10**9


def found(*rows: VolumeRow, uid: str = "uid-web") -> list[volumes.SlowVolume]:
    """What is found in the row of one pod."""
    wire = {uid: MountsRow(uid, 1, rows).to_wire()}
    return volumes.find(wire, {"uid-web": "default/web"}, NOW)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (VolumeRow("v", VolumeState.MOUNTED), ""),
        (VolumeRow("v", operation="mount", operation_ns=NOW - SECOND), ""),
        (
            VolumeRow("v", operation="mount -t nfs", operation_ns=NOW - 12 * SECOND),
            "default/web: volume v is pending: mount -t nfs is under way for 12s",
        ),
        (
            VolumeRow(
                "v",
                VolumeState.MOUNTED,
                operation="NodeExpandVolume",
                operation_ns=NOW - 3 * SECOND,
                claim="default/c",
            ),
            (
                "default/web: volume v (claim default/c) is mounted: "
                "NodeExpandVolume is under way for 3.0s"
            ),
        ),
        (
            VolumeRow("v", VolumeState.FAILED, reason="no such device"),
            "default/web: volume v is failed: no such device",
        ),
        (
            VolumeRow("v", VolumeState.UNMOUNTING, reason="target is busy"),
            "default/web: volume v is unmounting: target is busy",
        ),
        (VolumeRow("v", VolumeState.UNMOUNTING), ""),
        (VolumeRow("v", reason="waits for its secret"), ""),
    ],
)
def test_what_takes_long_or_has_failed_is_a_sentence(row: VolumeRow, said: str):
    """A short operation, or a volume that only waits for its turn, is not worth a line."""
    assert "".join(one.sentence(NOW) for one in found(row)) == said


def test_when_a_volume_is_tried_again_is_told_unless_it_is_being_tried():
    """What is under way now needs no announcement."""
    failed = VolumeRow("v", VolumeState.FAILED, reason="gone", retry_ns=NOW + SECOND)
    (one,) = found(failed)
    assert "; tried again at " in one.sentence(NOW)
    assert "tried again" not in one._replace(operation="mount").sentence(NOW)


def test_the_longest_operation_comes_first_and_the_list_is_bounded():
    """Many volumes of a dead file server do not fill the screen; a pod without a row has its uid.

    A row that makes no sense is passed over.
    """
    rows = [
        VolumeRow(f"v{n:02}", operation="mount", operation_ns=NOW - n * SECOND)
        for n in range(2, 15)
    ]
    every = found(*rows, VolumeRow("bad", VolumeState.FAILED), uid="uid-gone")
    assert [one.volume for one in every][:2] == ["v14", "v13"]
    assert every[-1].volume == "bad"
    told = volumes.lines(every, NOW)
    assert len(told) == volumes.LISTED + 1
    assert told[0].startswith("uid-gone: volume v14 ")
    assert told[-1] == "and 4 more: 'kubeletctl status -o json'"
    odd: dict[str, Any] = {"a": None, "b": {"volumes": 7}, "c": {"volumes": [7, {}]}}
    assert volumes.find(odd, {}, NOW) == []


def test_status_shows_what_volumes_are_waited_for(free_tree: Tree):
    """A section of its own for people, the same data for programs; the kubelet stays healthy."""
    tables = Tables(free_tree.root)
    row = pod()
    tables.pod(row, status(ready=False))
    tables.mounts(
        row,
        VolumeRow("data", operation="mount -t nfs", operation_ns=ago(65.2), claim="default/c"),
        VolumeRow("disk", VolumeState.FAILED, reason="no such device"),
        VolumeRow("tmp", VolumeState.MOUNTED),
    )
    try:
        done = free_tree.run("status")
        assert done.code == 0
        assert (
            "volumes:\n  default/web: volume data (claim default/c) is pending: "
            "mount -t nfs is under way for 1m0" in done.out
        )
        assert "\n  default/web: volume disk is failed: no such device\n" in done.out
        assert "volume tmp" not in done.out
        slow, failed = free_tree.run("status", "-o", "json").json()["volumes"]
        assert (slow["pod"], slow["uid"], slow["volume"]) == ("default/web", "uid-web", "data")
        assert (slow["operation"], slow["claim"]) == ("mount -t nfs", "default/c")
        assert slow["operation_age_seconds"] > 65
        assert (failed["state"], failed["reason"]) == ("failed", "no such device")
        assert failed["operation_age_seconds"] is None
    finally:
        tables.close()


def test_status_has_no_section_where_all_volumes_are_well(tree: Tree):
    """Nothing to tell is nothing told."""
    assert "volumes:" not in tree.run("status").out
