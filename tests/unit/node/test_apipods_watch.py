"""Pods bound to this node: list, watch, table ``assigned`` (P-1, P-3, P-4)."""

from __future__ import annotations

import pytest
from apipods_scene import Scene, condition, mirror, pod, scene, story

from kubelet.cluster.rows import ASSIGNED, ASSIGNED_KEY
from procs.node.apiserver.types import ApiError


def test_everything_is_listed_before_it_is_said_to_be(tmp_path):
    """P-4: the rows are there first, then the word that they are all."""

    async def main():
        async with scene(tmp_path) as s:
            s.server.give(pod("a"), pod("b"))
            s.pods.start()
            assert s.server.watched.path == "/api/v1/pods"
            assert s.server.watched.fields == "spec.nodeName=node-1"
            assert not s.listed
            s.server.list()
            assert list(s.rows) == ["uid-a", "uid-b"]
            written = [key for table, key in s.process.writes if table == ASSIGNED]
            assert written == ["uid-a", "uid-b", ASSIGNED_KEY]
            assert s.listed
            assert s.pods.listed

    story(main)


def test_pods_are_listed_when_the_node_was_seen(tmp_path):
    """P-3: no pod is taken before this node's own object was heard of."""

    async def main():
        s = Scene(tmp_path)
        s.pods.start()
        assert s.server.watched is None
        s.kit.view.heard(None)
        assert s.server.watched is None
        s.registered()
        assert s.server.watched is not None
        await s.close()

    story(main)


def test_a_successor_has_the_pods_at_once_and_drops_what_is_gone(tmp_path):
    """What a predecessor wrote holds until the list says otherwise, and is not written again."""

    async def main():
        async with scene(tmp_path) as s:
            s.server.give(pod("a"), pod("b"))
            s.pods.start()
            s.server.list()
            s.die()
            assert set(s.pods.pods) == {"uid-a", "uid-b"}
            assert not s.pods.listed
            assert s.listed
            s.pods.start()
            s.server.take(pod("a"))
            s.server.list()
            assert list(s.rows) == ["uid-b"]
            assert s.process.writes == [(ASSIGNED, "uid-a")]

    story(main)


def test_the_echo_of_our_own_status_is_no_news(tmp_path):
    """What this kubelet alone writes into a status changes no row; the object is known, though."""

    async def main():
        async with scene(tmp_path) as s:
            s.server.give(pod("a"))
            s.pods.start()
            s.server.list()
            told = []
            s.pods.on_change(told.append)
            s.process.writes.clear()
            own = {
                "phase": "Running",
                "podIP": "10.0.0.1",
                "containerStatuses": [{"name": "c"}],
                "conditions": [condition("Ready")],
            }
            s.server.change(pod("a", status=own))
            assert (s.process.writes, told) == ([], [])
            assert s.pods.pods["uid-a"]["status"]["podIP"] == "10.0.0.1"

    story(main)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"status": {"conditions": [condition("example.com/gate")]}}, "P-124"),
        ({"status": {"resourceClaimStatuses": [{"name": "x"}]}}, "P-128"),
        ({"status": {"phase": "Failed", "reason": "Shutdown"}}, "P-115"),
        ({"status": {"newField": 1}}, "P-128"),
        ({"metadata": {"labels": {"a": "b"}}}, "P-2"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "P-1"),
        ({"spec": {"containers": [{"name": "c", "image": "b"}]}}, "P-1"),
    ],
)
def test_what_others_change_is_news(tmp_path, change, fact):
    """Metadata, spec and others' parts of the status are written and told."""

    async def main():
        async with scene(tmp_path) as s:
            s.server.give(pod("a"))
            s.pods.start()
            s.server.list()
            told = []
            s.pods.on_change(told.append)
            s.server.change(pod("a", **change))
            assert told == ["uid-a"], fact
            for part, fields in change.items():
                assert fields.items() <= s.rows["uid-a"][part].items(), fact

    story(main)


def test_mirror_pods_are_known_and_not_assigned(tmp_path):
    """P-13: what only shows a static pod is no pod to be run."""

    async def main():
        async with scene(tmp_path) as s:
            s.server.give(mirror("etcd"), pod("a"))
            s.pods.start()
            s.server.list()
            assert list(s.rows) == ["uid-a"]
            assert list(s.pods.mirrors) == [("default", "etcd")]
            s.server.take(mirror("etcd"))
            assert s.pods.mirrors == {}

    story(main)


def test_a_pod_deleted_and_made_again_is_another_pod(tmp_path):
    """The row of the first goes before that of the second comes, also when only a list tells."""

    async def main():
        async with scene(tmp_path) as s:
            s.server.give(pod("a", "one"))
            s.pods.start()
            s.server.list()
            s.server.telling = False
            s.server.take(pod("a", "one"))
            s.server.give(pod("a", "two"))
            s.process.writes.clear()
            s.server.list()
            assert s.process.writes == [(ASSIGNED, "one"), (ASSIGNED, "two")]

    story(main)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        {},
        {"metadata": []},
        {"metadata": {"uid": 5, "name": "x", "namespace": "y"}, "spec": {}},
        {"metadata": {"uid": "u", "name": "", "namespace": "y"}, "spec": {}},
        {"metadata": {"uid": "../../etc", "name": "x", "namespace": "y"}, "spec": {}},
        {"metadata": {"uid": "u" * 500, "name": "x", "namespace": "y"}, "spec": {}},
        {"metadata": {"uid": "u", "name": "x/status?", "namespace": "y"}, "spec": {}},
        {"metadata": {"uid": "u", "name": "x", "namespace": "../y"}, "spec": {}},
        {"metadata": {"uid": "u", "name": "x", "namespace": "y"}, "spec": "text"},
        {"metadata": {"uid": "u", "name": "x", "namespace": "y"}, "spec": {}, "status": [1]},
        {"metadata": {"uid": "u", "name": "x", "namespace": "y", "annotations": 5}, "spec": {}},
    ],
)
def test_odd_objects_are_left_out_and_cost_nothing_else(tmp_path, odd):
    """An object that is no pod neither comes in nor takes another away."""

    async def main():
        async with scene(tmp_path) as s:
            s.server.give(pod("a"))
            s.pods.start()
            s.server.list()
            s.server.watcher.changed(odd)
            s.server.watcher.listed([odd, pod("a")], "500")
            assert list(s.rows) == ["uid-a"]
            assert s.pods.listed

    story(main)


def test_a_pod_that_no_table_can_hold_costs_nothing_else(tmp_path):
    """What is larger than anything is left out with a line; the others come."""

    async def main():
        async with scene(tmp_path) as s:
            huge = pod("huge", metadata={"annotations": {"a": "x" * (17 << 20)}})
            s.server.give(huge, pod("a"))
            s.pods.start()
            s.server.list()
            assert list(s.rows) == ["uid-a"]
            assert s.listed

    story(main)


def test_a_known_pod_that_is_listed_oddly_goes_on(tmp_path):
    """A pod whose object became odd stays as it was; one that nobody can name saves all."""

    async def main():
        async with scene(tmp_path) as s:
            s.server.give(pod("a"), pod("b"))
            s.pods.start()
            s.server.list()
            s.server.watcher.listed([{"metadata": {"uid": "uid-a"}}, pod("b")], "500")
            assert list(s.rows) == ["uid-a", "uid-b"]
            s.server.watcher.listed([{"metadata": {}}, pod("b")], "501")
            assert list(s.rows) == ["uid-a", "uid-b"]
            s.server.watcher.listed([pod("b")], "502")
            assert list(s.rows) == ["uid-b"]

    story(main)


def test_an_answer_that_comes_after_the_end_brings_no_pod_back(tmp_path):
    """The watch may be ahead of an answer; what it has seen go stays gone."""

    async def main():
        async with scene(tmp_path) as s:
            s.server.give(pod("a"))
            s.pods.start()
            s.server.list()
            late = {**s.pods.pods["uid-a"]}
            s.server.take(pod("a"))
            s.pods.answered(late)
            assert s.rows == {}

    story(main)


def test_a_watch_that_is_behind_an_answer_changes_nothing_back(tmp_path):
    """An older version of a pod is not taken for a newer one."""

    async def main():
        async with scene(tmp_path) as s:
            s.server.give(pod("a"))
            s.pods.start()
            s.server.list()
            older = {**s.pods.pods["uid-a"]}
            newer = pod("a", metadata={"labels": {"x": "y"}, "resourceVersion": "900"})
            s.pods.answered(newer)
            s.server.watcher.changed(older)
            assert s.pods.pods["uid-a"]["metadata"]["labels"] == {"x": "y"}

    story(main)


def test_managed_fields_are_not_kept(tmp_path):
    """Nobody reads them, and they are half of an object."""

    async def main():
        async with scene(tmp_path) as s:
            s.server.give(pod("a", metadata={"managedFields": [{"manager": "x"}]}))
            s.pods.start()
            s.server.list()
            assert "managedFields" not in s.rows["uid-a"]["metadata"]
            assert "managedFields" not in s.pods.pods["uid-a"]["metadata"]

    story(main)


def test_what_goes_wrong_with_the_watch_is_shown(tmp_path):
    """A watch that is refused is a trouble with its reason, until it works."""

    async def main():
        async with scene(tmp_path) as s:
            s.pods.start()
            s.server.told(ApiError("pods is forbidden", status=403))
            assert s.troubles == {"pods": "pods is forbidden"}
            s.server.told(None)
            assert s.troubles == {}

    story(main)
