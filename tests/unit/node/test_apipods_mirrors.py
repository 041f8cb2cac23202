"""Mirror pods: what is planned, and how it is carried out (P-10..P-15)."""

from __future__ import annotations

import asyncio

import pytest
from apipods_scene import mirror, pod, scene, story

from kubelet.pods.rows import API, HTTP, LOCAL, PODS, Ending, PodRow, WorkerState
from procs.node.apiserver.types import ApiError
from procs.node.pods.mirrors import (
    Create,
    Delete,
    Mirrors,
    Owner,
    Static,
    body_of,
    plan,
    static_of,
)

ETCD = "/api/v1/namespaces/default/pods/etcd"
PLACE = ("default", "etcd")
OWNER = Owner("node-1", "node-uid")
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def static(hash_="static-1", *, shown=True):
    return Static("default", "etcd", hash_, shown, pod("etcd", "static-1"))


def kinds(actions):
    return [(type(action).__name__, action.place) for action in actions]


CREATE, DELETE = [("Create", PLACE)], [("Delete", PLACE)]


@pytest.mark.parametrize(
    ("pods", "there", "owner", "delivered", "actions"),
    [
        pytest.param([static()], None, OWNER, True, CREATE, id="P-10 missing"),
        pytest.param([static()], mirror(), OWNER, True, [], id="P-11 right"),
        pytest.param([static()], mirror(hash_="old"), OWNER, True, DELETE, id="P-11 hash"),
        pytest.param([static()], mirror(metadata=DELETED), OWNER, True, DELETE, id="P-11 deleting"),
        pytest.param([static()], None, None, True, [], id="P-12 no node"),
        pytest.param([static()], None, Owner("n", "u", True), True, [], id="P-12 node goes"),
        pytest.param([static()], mirror(hash_="old"), None, True, DELETE, id="P-12 wrong, no node"),
        pytest.param([static()], None, OWNER, False, CREATE, id="P-10 others may follow"),
        pytest.param([], mirror(), OWNER, True, DELETE, id="P-14 orphan"),
        pytest.param([], mirror(), OWNER, False, [], id="P-14 static pods not known yet"),
        pytest.param([static(shown=False)], mirror(), OWNER, True, [], id="P-14 terminating"),
        pytest.param([static(shown=False)], None, OWNER, True, [], id="P-14 no new one meanwhile"),
    ],
)
def test_mirrors_are_planned(pods, there, owner, delivered, actions):
    """What is missing is made, what is wrong or nobody's goes."""
    mirrors = {} if there is None else {PLACE: there}
    assert kinds(plan(pods, mirrors, owner, delivered=delivered)) == actions


def test_a_mirror_is_a_copy_with_an_owner():
    """P-10: the hash as annotation, the node as owner, and nothing that the server gives."""
    given = pod("etcd", "static-1", metadata={"labels": {"a": "b"}, "resourceVersion": "7"})
    given["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}
    body = body_of(Static("default", "etcd", "static-1", True, given), OWNER)
    assert body["metadata"] == {
        "name": "etcd",
        "namespace": "default",
        "labels": {"a": "b"},
        "annotations": {
            "kubernetes.io/config.source": "file",
            "kubernetes.io/config.mirror": "static-1",
        },
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "name": "node-1",
                "uid": "node-uid",
                "controller": True,
            }
        ],
    }
    assert body["spec"] == given["spec"]
    assert "status" not in body


TEXT = b'{"metadata":{"uid":"u","name":"p","namespace":"n"},"spec":{}}'


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        ({"admitted": True}, True),
        ({"admitted": True, "source": HTTP}, True),
        ({}, False),  # P-54: only what was let in
        ({"admitted": True, "rejected": "Why\tnot"}, False),
        ({"admitted": True, "ending": Ending(removed=True)}, False),  # P-14
        ({"admitted": True, "ending": Ending(), "state": WorkerState.TERMINATED}, True),
        ({"admitted": True, "source": API}, None),
        ({"admitted": True, "source": LOCAL}, None),
        ({"admitted": True, "state": WorkerState.FINISHED}, None),
        ({"admitted": True, "document": b""}, None),
    ],
)
def test_static_pods_are_those_of_manifests(more, shown):
    """P-10: pods of files and URLs have mirrors, from being let in until they are to go."""
    row = PodRow(
        **{"uid": "u", "name": "p", "namespace": "n", "source": "file"} | {"document": TEXT} | more
    )
    found = static_of(row)
    assert (None if found is None else found.shown) is shown
    if found is not None:
        assert found.hash == "u"


# --- Carried out. --------------------------------------------------------------------------------


async def begin(s, *pods):
    s.server.give(*pods)
    s.pods.start()
    Mirrors(s.kit, s.pods).start()
    s.sources(file=True)
    s.server.list()
    await s.settle()


def hash_of(s, path=ETCD):
    return s.server.objects[path]["metadata"]["annotations"]["kubernetes.io/config.mirror"]


def test_a_static_pod_gets_its_mirror_at_once_and_once(tmp_path):
    """P-10: made when it is let in, not made twice."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s)
            s.static(admitted=False)
            await s.settle()
            assert s.server.calls == []
            s.static()
            await s.settle()
            s.process.hint(PODS)
            await asyncio.sleep(60)
            assert [c[:2] for c in s.server.calls] == [
                ("create", "/api/v1/namespaces/default/pods")
            ]
            assert hash_of(s) == "static-1"

    story(main)


def test_mirrors_come_as_soon_as_there_is_a_node(tmp_path):
    """P-12: none while the node is missing or being deleted, all of them after that at once."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s)
            s.kit.view.heard(None)
            s.static()
            await asyncio.sleep(60)
            s.registered(deletionTimestamp="2026-01-01T00:00:00Z")
            await asyncio.sleep(60)
            assert s.server.calls == []
            s.registered("another-uid")
            await s.settle()
            (owner,) = s.server.objects[ETCD]["metadata"]["ownerReferences"]
            assert owner["uid"] == "another-uid"

    story(main)


def test_a_wrong_mirror_is_replaced(tmp_path):
    """P-11: taken away with grace 0 and its UID, then made anew."""

    async def main():
        async with scene(tmp_path) as s:
            s.static(hint=False)
            await begin(s, mirror("etcd", "old"))
            assert s.server.of("delete") == [(ETCD, {"grace": 0, "uid": "mirror-etcd"})]
            assert hash_of(s) == "static-1"

    story(main)


def test_a_mirror_that_somebody_deletes_comes_back(tmp_path):
    """P-15: it was only the picture."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s)
            s.static()
            await s.settle()
            first = s.server.objects[ETCD]
            s.server.change({**first, "metadata": {**first["metadata"], **DELETED}})
            await s.settle()
            assert s.server.objects[ETCD]["metadata"]["uid"] != first["metadata"]["uid"]
            assert "deletionTimestamp" not in s.server.objects[ETCD]["metadata"]

    story(main)


def test_an_orphan_goes_once_the_static_pods_are_known(tmp_path):
    """P-14: not before each source has spoken, and not while its pod still ends."""

    async def main():
        async with scene(tmp_path) as s:
            s.static(ending=Ending(removed=True), state=WorkerState.TERMINATING, hint=False)
            await begin(s, mirror("etcd"), mirror("other"))
            s.sources(file=False)
            s.server.change(mirror("third"))
            await s.settle()
            assert [path for path, _ in s.server.of("delete")] == [
                "/api/v1/namespaces/default/pods/other"
            ]
            s.forget(PODS, "static-1")
            await asyncio.sleep(60)
            assert ETCD in s.server.objects
            s.sources(file=True)
            await s.settle()
            assert s.server.objects == {}

    story(main)


def test_nothing_is_done_before_the_mirrors_are_known(tmp_path):
    """What is there is not made again for not being listed yet."""

    async def main():
        async with scene(tmp_path) as s:
            s.server.give(mirror("etcd"))
            s.static(hint=False)
            s.pods.start()
            Mirrors(s.kit, s.pods).start()
            await asyncio.sleep(60)
            assert s.server.calls == []
            s.server.list()
            await asyncio.sleep(60)
            assert s.server.calls == []

    story(main)


def test_the_watch_may_be_slower_than_the_answers(tmp_path):
    """A mirror that was just made, or just taken away, is known before the watch tells."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, mirror("etcd", "old"))
            s.server.telling = False
            s.static()
            await asyncio.sleep(60)
            assert [c[0] for c in s.server.calls] == ["delete", "create"]

    story(main)


@pytest.mark.parametrize(
    ("status", "reason"), [(404, "NotFound"), (403, "Forbidden"), (409, "AlreadyExists"), (0, "")]
)
def test_what_cannot_be_made_is_a_trouble_and_no_storm(tmp_path, status, reason):
    """A missing namespace, a missing right: said by name, tried ever more rarely, then all well."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s)
            s.server.errors["create"] = ApiError("no such place", status=status, reason=reason)
            s.static()
            s.static("dns", "static-2")
            await asyncio.sleep(100)
            told = {"mirror pods": "default/dns: no such place (and 1 more)"}
            assert s.troubles == told
            assert 10 < len(s.server.calls) < 60
            del s.server.errors["create"]
            await asyncio.sleep(12)
            assert len(s.server.objects) == 2
            assert s.troubles == {}

    story(main)


def test_a_trouble_ends_with_its_pod(tmp_path):
    """What nobody wants any more is no trouble."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s)
            s.server.errors["create"] = ApiError("no such place", status=404)
            s.static()
            await s.settle()
            assert "mirror pods" in s.troubles
            s.forget(PODS, "static-1")
            await s.settle()
            assert s.troubles == {}

    story(main)


def test_a_mirror_that_is_gone_already_is_no_trouble(tmp_path):
    """Deleting what is not there, or another one now, is no failure."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s)
            s.server.telling = False
            s.server.give(mirror("etcd"))
            s.server.list()
            s.server.take(mirror("etcd"))
            await s.settle()
            assert len(s.server.of("delete")) == 1
            assert s.troubles == {}

    story(main)


def test_a_successor_makes_nothing_twice(tmp_path):
    """Killed at any time: what is missing is made, what is there is left."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s)
            s.static()
            await s.settle()
            s.static("dns", "static-2", hint=False)
            s.die()
            await begin(s)
            assert len(s.server.of("create")) == 2
            assert s.server.of("delete") == []

    story(main)


def test_broken_rows_cost_nothing_else(tmp_path):
    """A row that is none has no mirror; the others have theirs."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s)
            s.syncloop.put(PODS, "odd", {"uid": 7})
            row = PodRow("odd2", "p", "n", "file", document=b"[1]", admitted=True)
            s.syncloop.put(PODS, "odd2", row.to_wire())
            s.process.hint(PODS)
            s.static()
            await s.settle()
            assert list(s.server.objects) == [ETCD]

    story(main)


def test_actions_name_what_they_are_about():
    """The UID of what goes, so that no other one does."""
    (action,) = plan([], {PLACE: mirror(uid="m-1")}, OWNER, delivered=True)
    assert action == Delete(PLACE, "m-1")
    (made,) = plan([static()], {}, OWNER, delivered=True)
    assert isinstance(made, Create)
