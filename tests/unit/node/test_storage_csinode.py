"""CSINode and what the Node says of CSI drivers: what is written, and when (L-41)."""

from __future__ import annotations

import asyncio
import json

import pytest

from kubelet.channels.messages import CsiDriverNoted, RegisterCsiDriver, UnregisterCsiDriver
from procs.node.storage import csinode
from procs.node.storage.csinode import MIGRATED, MIGRATED_PLUGINS, NODE_IDS, CollisionError
from procs.node.storage.drivers import NOT_YET
from tests.unit.node.nodeobject_scene import soon
from tests.unit.node.storage_scene import CSINODE, CSINODES, NAME, NODE, on_stage

DRIVER = RegisterCsiDriver("a.example.com", "id-1", 8, {"zone": "z1", "rack": "r1"})
ENTRY = {
    "name": "a.example.com",
    "nodeID": "id-1",
    "topologyKeys": ["rack", "zone"],
    "allocatable": {"count": 8},
}


def node(labels=None, ids=None):
    notes = {} if ids is None else {NODE_IDS: ids}
    return {"metadata": {"name": NAME, "labels": labels or {}, "annotations": notes}}


# --- what is to be written ----------------------------------------------------------------------


def test_a_new_csinode_is_as_the_go_kubelet_makes_it():
    """Owned by the Node, without drivers, with the kinds of volumes that drivers stand in for."""
    assert csinode.new("n", "u") == {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": "n",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}],
            "annotations": {
                "storage.alpha.kubernetes.io/migrated-plugins": (
                    "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,"
                    "kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,"
                    "kubernetes.io/vsphere-volume"
                )
            },
        },
        "spec": {"drivers": []},
    }


@pytest.mark.parametrize(
    ("owners", "owned"),
    [
        ([{"kind": "Node", "name": "n", "uid": "u"}], True),
        ([{"kind": "Node", "name": "n", "uid": "old"}], False),
        ([{"kind": "Node", "name": "m", "uid": "u"}], False),
        ([{"kind": "Pod", "name": "n", "uid": "u"}], False),
        ([{"kind": "Pod"}, {"kind": "Node", "name": "n", "uid": "u"}], True),
        ([], False),
        (None, False),
        ("odd", False),
    ],
)
def test_a_csinode_belongs_to_one_node_object(owners, owned):
    """One of an earlier Node with the same name is not ours."""
    item = {"metadata": {"name": "n", "ownerReferences": owners}}
    assert csinode.is_owned(item, "n", "u") is owned


@pytest.mark.parametrize(
    ("driver", "entry"),
    [
        (DRIVER, ENTRY),
        (RegisterCsiDriver("b", "x"), {"name": "b", "nodeID": "x", "topologyKeys": []}),
        (RegisterCsiDriver("b", "x", -3), {"name": "b", "nodeID": "x", "topologyKeys": []}),
        (
            RegisterCsiDriver("b", "x", 1 << 40),
            {"name": "b", "nodeID": "x", "topologyKeys": [], "allocatable": {"count": 2**31 - 1}},
        ),
    ],
)
def test_the_entry_of_a_driver(driver, entry):
    """Keys are sorted; a limit is there only if there is one, and fits the API's number."""
    other = {"name": "other", "nodeID": "o", "topologyKeys": None}
    item = {**csinode.new("n", "u"), "spec": {"drivers": [other]}}
    changed = csinode.with_driver(item, driver)
    assert changed["spec"]["drivers"] == [other, entry]
    assert csinode.with_driver(changed, driver) is None, "nothing is written twice"


@pytest.mark.parametrize(
    "entry",
    [
        {**ENTRY, "topologyKeys": ["zone", "rack"]},
        {**ENTRY, "allocatable": {"count": 8, "more": 1}},
    ],
)
def test_an_entry_that_says_the_same_is_left_as_it_is(entry):
    """The order of the keys means nothing."""
    item = {**csinode.new("n", "u"), "spec": {"drivers": [entry]}}
    assert csinode.with_driver(item, DRIVER) is None


@pytest.mark.parametrize(
    "entry",
    [
        {**ENTRY, "nodeID": "id-2"},
        {**ENTRY, "topologyKeys": None},
        {**ENTRY, "allocatable": {"count": 9}},
        {**ENTRY, "allocatable": None},
    ],
)
def test_an_entry_that_says_something_else_is_replaced(entry):
    """There is one entry of a driver, and it goes to the end."""
    other = {"name": "other", "nodeID": "o"}
    item = {**csinode.new("n", "u"), "spec": {"drivers": [entry, other]}}
    assert csinode.with_driver(item, DRIVER)["spec"]["drivers"] == [other, ENTRY]


def test_the_annotation_is_put_right_and_others_stay():
    """What somebody else wrote down is not ours to remove."""
    item = csinode.new("n", "u")
    assert csinode.annotated(item) is None
    backwards = ",".join(reversed(MIGRATED_PLUGINS.split(",")))
    item["metadata"]["annotations"] = {MIGRATED: backwards, "x": "y"}
    assert csinode.annotated(item) is None
    item["metadata"]["annotations"] = {MIGRATED: "kubernetes.io/gce-pd", "x": "y"}
    assert csinode.annotated(item)["metadata"]["annotations"] == {
        MIGRATED: MIGRATED_PLUGINS,
        "x": "y",
    }


def test_removing_an_entry():
    """The others stay; without one there is nothing to write."""
    item = {**csinode.new("n", "u"), "spec": {"drivers": [ENTRY, {"name": "other"}]}}
    changed = csinode.without_driver(item, "a.example.com")
    assert changed["spec"]["drivers"] == [{"name": "other"}]
    assert csinode.without_driver(changed, "a.example.com") is None
    assert csinode.without_driver({}, "a.example.com") is None


@pytest.mark.parametrize(
    ("labels", "ids", "patch"),
    [
        ({}, None, {"annotations": '{"a.example.com":"id-1"}', "labels": DRIVER.topology}),
        (
            {"zone": "z1"},
            '{"b":"2"}',
            {"annotations": '{"a.example.com":"id-1","b":"2"}', "labels": {"rack": "r1"}},
        ),
        (DRIVER.topology, '{"a.example.com":"old"}', {"annotations": '{"a.example.com":"id-1"}'}),
        (DRIVER.topology, '{"a.example.com":"id-1"}', None),
    ],
)
def test_what_the_node_says_of_a_driver(labels, ids, patch):
    """Its ID in the annotation's map, and where it is as labels; only what is not there yet."""
    found = csinode.node_with(node(labels, ids), DRIVER)
    if patch is not None:
        patch = {"metadata": {**patch, "annotations": {NODE_IDS: patch["annotations"]}}}
    assert found == patch


def test_a_label_of_another_value_is_an_error():
    """Two drivers, or a driver and the administrator, do not agree where the node is."""
    with pytest.raises(CollisionError, match=r'"zone":"z1" but existing label is "zone":"z2"'):
        csinode.node_with(node({"zone": "z2"}), DRIVER)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', "7"])
def test_an_annotation_that_is_not_ours_is_an_error(text):
    """It is named, and nothing of it is thrown away."""
    with pytest.raises(CollisionError, match=NODE_IDS):
        csinode.node_with(node(ids=text), DRIVER)
    with pytest.raises(CollisionError, match=NODE_IDS):
        csinode.node_without(node(ids=text), "a")


def test_what_the_node_says_no_more():
    """The last ID takes the annotation with it."""
    found = csinode.node_without(node(ids='{"a":"1","b":"2"}'), "a")
    assert found == {"metadata": {"annotations": {NODE_IDS: '{"b":"2"}'}}}
    found = csinode.node_without(node(ids='{"a":"1"}'), "a")
    assert found == {"metadata": {"annotations": {NODE_IDS: None}}}
    assert csinode.node_without(node(ids='{"a":"1"}'), "b") is None
    assert csinode.node_without(node(), "b") is None


# --- the start ----------------------------------------------------------------------------------


def test_the_csinode_is_made_when_the_node_is_there(tmp_path):
    """N-14: storage is not ready before; the Node's UID is the owner's."""

    async def work(scene):
        scene.drivers.start()
        assert scene.drivers.problem() == NOT_YET
        await asyncio.sleep(0)
        assert scene.server.asked == []
        scene.registered()
        await scene.server.until(lambda: scene.csinode)
        await soon(lambda: scene.looks == [""])
        assert csinode.is_owned(scene.csinode, NAME, scene.node["uid"])
        assert scene.writes() == [("POST", CSINODES)]

    on_stage(tmp_path, work)


def test_a_csinode_that_is_there_is_left_alone(tmp_path):
    """A successor writes nothing, and storage is ready from its first moment on."""

    async def work(scene):
        await scene.started()
        await scene.die()
        asked = len(scene.server.asked)
        assert scene.drivers.problem() == "", "the node does not become unready by our death"
        scene.drivers.start()
        await scene.server.until(lambda: len(scene.server.asked) >= asked + 2)
        await soon(lambda: scene.looks == [""])
        assert scene.writes() == [("POST", CSINODES)]

    on_stage(tmp_path, work)


def test_a_csinode_of_an_earlier_node_is_replaced(tmp_path):
    """It would be collected with its owner, and is not ours."""

    async def work(scene):
        old = csinode.new(NAME, "old")
        old["spec"]["drivers"] = [ENTRY]
        scene.server.put(CSINODE, old)
        await scene.started()
        assert csinode.is_owned(scene.csinode, NAME, scene.node["uid"])
        assert scene.names() == []
        assert scene.writes() == [("DELETE", CSINODE), ("POST", CSINODES)]

    on_stage(tmp_path, work)


def test_an_annotation_of_an_older_kubelet_is_put_right(tmp_path):
    """The drivers in it stay."""

    async def work(scene):
        scene.registered()
        there = csinode.new(NAME, scene.node["uid"])
        there["metadata"]["annotations"] = {"x": "y"}
        there["spec"]["drivers"] = [ENTRY]
        scene.server.put(CSINODE, there)
        scene.drivers.start()
        await soon(lambda: scene.looks == [""])
        assert scene.csinode["metadata"]["annotations"] == {"x": "y", MIGRATED: MIGRATED_PLUGINS}
        assert scene.names() == ["a.example.com"]

    on_stage(tmp_path, work)


def test_what_keeps_the_csinode_away_is_said_and_tried_again(tmp_path):
    """The sentence is the API server's; it is the node's, too, until it works."""

    async def work(scene):
        scene.server.refuse("POST", CSINODES, 403, "Forbidden", times=2)
        scene.registered()
        scene.drivers.start()
        await scene.server.until(lambda: scene.csinode)
        await soon(lambda: scene.looks[-1] == "")
        assert scene.looks[0] == "failed to initialize CSINode: refused: Forbidden"
        assert scene.kit.troubles.row.troubles == ()

    on_stage(tmp_path, work)


def test_a_node_that_is_made_anew_gets_back_its_drivers(tmp_path):
    """Its CSINode goes with the old one; the drivers know nothing of it, and say nothing again."""

    async def work(scene):
        await scene.started()
        assert await scene.ask(DRIVER) == CsiDriverNoted()
        assert await scene.ask(RegisterCsiDriver("gone", "1")) == CsiDriverNoted()
        assert await scene.ask(UnregisterCsiDriver("gone")) == CsiDriverNoted()
        await scene.die()
        scene.drivers.start()
        scene.registered(uid="another")
        await soon(lambda: csinode.is_owned(scene.csinode or {}, NAME, "another"))
        await soon(lambda: scene.csinode and scene.names() == ["a.example.com"])
        assert json.loads(scene.node["annotations"][NODE_IDS]) == {"a.example.com": "id-1"}
        assert scene.node["labels"] == DRIVER.topology

    on_stage(tmp_path, work)


# --- requests -----------------------------------------------------------------------------------


def test_a_driver_is_registered_once(tmp_path):
    """Node and CSINode name it; the same again writes nothing; then neither names it."""

    async def work(scene):
        await scene.started()
        before = len(scene.writes())
        assert await scene.ask(DRIVER) == CsiDriverNoted()
        assert scene.csinode["spec"]["drivers"] == [ENTRY]
        assert json.loads(scene.node["annotations"][NODE_IDS]) == {"a.example.com": "id-1"}
        assert scene.node["labels"] == DRIVER.topology
        assert scene.writes()[before:] == [("PATCH", f"{NODE}/status"), ("PUT", CSINODE)]
        assert await scene.ask(DRIVER) == CsiDriverNoted()
        assert len(scene.writes()) == before + 2
        assert await scene.ask(UnregisterCsiDriver(DRIVER.name)) == CsiDriverNoted()
        assert scene.csinode["spec"]["drivers"] == []
        assert scene.node["annotations"] == {}
        assert scene.node["labels"] == DRIVER.topology, "where the node is stays true"
        assert len(scene.writes()) == before + 4
        assert await scene.ask(UnregisterCsiDriver(DRIVER.name)) == CsiDriverNoted()
        assert len(scene.writes()) == before + 4

    on_stage(tmp_path, work)


def test_drivers_that_come_together_do_not_lose_each_other(tmp_path):
    """Each reads what the one before it has written."""

    async def work(scene):
        await scene.started()
        drivers = [RegisterCsiDriver(f"d{number}", f"id-{number}") for number in range(8)]
        found = await asyncio.gather(*(scene.ask(driver) for driver in drivers))
        assert set(found) == {CsiDriverNoted()}
        assert sorted(scene.names()) == [driver.name for driver in drivers]
        ids = json.loads(scene.node["annotations"][NODE_IDS])
        assert ids == {driver.name: driver.node_id for driver in drivers}

    on_stage(tmp_path, work)


def test_a_conflict_is_settled_by_a_fresh_look(tmp_path):
    """Somebody else changed the object in between: theirs and ours are both there then."""

    async def work(scene):
        await scene.started()
        scene.server.refuse("PUT", CSINODE, 409, "Conflict", times=3)
        assert await scene.ask(DRIVER) == CsiDriverNoted()
        assert scene.names() == ["a.example.com"]

    on_stage(tmp_path, work)


def test_conflicts_without_end_are_said_in_time(tmp_path):
    """Whoever asked hears it before their deadline, in the API server's words."""

    async def work(scene):
        await scene.started()
        scene.server.refuse("PUT", CSINODE, 409, "Conflict", times=10_000)
        assert await scene.ask(DRIVER, seconds=0.3) == CsiDriverNoted("refused: Conflict")

    on_stage(tmp_path, work)


def test_a_driver_that_comes_before_its_node_waits_for_it(tmp_path):
    """At the start of a machine both come at the same moment."""

    async def work(scene):
        scene.drivers.start()
        asking = asyncio.create_task(scene.ask(DRIVER))
        await scene.server.until(lambda: scene.server.requests("GET", NODE))
        scene.registered()
        assert await asking == CsiDriverNoted()
        assert scene.names() == ["a.example.com"]

    on_stage(tmp_path, work)


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        (RegisterCsiDriver("", "id"), "name: '' is no name of a CSI driver"),
        (RegisterCsiDriver("n" * 300, "id"), "is no name of a CSI driver"),
        (RegisterCsiDriver("a", ""), "node_id: CSI driver a gives this node no ID"),
        (RegisterCsiDriver("a", "id", 0, {"zone": "z1"}), "detected topology value collision"),
    ],
)
def test_a_driver_that_cannot_be_noted_is_refused_in_words(tmp_path, driver, words):
    """Nothing is written then."""

    async def work(scene):
        await scene.started(labels={"zone": "z2"})
        found = await scene.ask(driver)
        assert words in found.error
        assert scene.writes() == [("POST", CSINODES)], "the CSINode's own start"

    on_stage(tmp_path, work)


@pytest.mark.parametrize("message", [DRIVER, UnregisterCsiDriver("a")])
def test_what_the_server_refuses_is_said(tmp_path, message):
    """One sentence, and no second try of what would not help."""

    async def work(scene):
        await scene.started()
        scene.server.refuse("GET", CSINODE, 403, "Forbidden")
        scene.server.refuse("GET", NODE, 403, "Forbidden")
        assert await scene.ask(message) == CsiDriverNoted("refused: Forbidden")

    on_stage(tmp_path, work)
