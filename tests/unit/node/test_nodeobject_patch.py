"""The patch between two states of the node (N-10), and what is put right at registration (N-5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from procs.node.nodeobject import node
from procs.node.nodeobject.node import initial, known_already, reconcile, sound
from procs.node.nodeobject.patch import between, merge
from procs.node.nodeobject.status import compute
from tests.unit.node.nodeobject_scene import FACTS, MACHINE, NAME, SECOND, SETTINGS, WALL

NODE = compute({"metadata": {"name": NAME}}, FACTS, SETTINGS)


def later(facts=FACTS, seconds=60, **machine):
    """The facts, later."""
    found = replace(facts, wall_ns=WALL + seconds * SECOND)
    return replace(found, machine=replace(found.machine, **machine)) if machine else found


def difference(facts, before=NODE):
    return between(before, compute(before, facts, SETTINGS))


def test_a_heartbeat_is_no_news():
    """N-10: only heartbeat times differ; all four conditions carry them."""
    found = difference(later())
    assert not found.changed
    assert found.news == {}
    assert list(found.body) == ["status"]
    conditions = found.body["status"]["conditions"]
    assert [c["type"] for c in conditions] == [
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
        "Ready",
    ]
    assert {c["lastHeartbeatTime"] for c in conditions} == {"2023-11-14T22:14:20Z"}


def test_only_what_changed_is_sent():
    """N-10: beside the conditions, one amount and one version."""
    facts = later(capacity={**MACHINE.capacity, "cpu": "8"})
    found = difference(facts)
    assert found.changed
    assert found.news == {"status": {"capacity": {"cpu": "8"}}}
    assert set(found.body["status"]) == {"capacity", "conditions"}


def test_a_condition_is_news():
    """N-14: its status, its reason, its message."""
    found = difference(replace(FACTS, errors=("no network",)))
    (changed,) = found.news["status"]["conditions"]
    assert (changed["type"], changed["status"], changed["message"]) == (
        "Ready",
        "False",
        "no network",
    )
    assert "lastHeartbeatTime" not in changed
    first = compute(NODE, replace(FACTS, errors=("a",)), SETTINGS)
    assert difference(replace(FACTS, errors=("b",)), first).changed


def test_others_conditions_are_not_sent():
    """What is not the kubelet's is left to whose it is."""
    before = {
        **NODE,
        "status": {
            **NODE["status"],
            "conditions": [{"type": "Disk", "status": "True"}, *NODE["status"]["conditions"]],
        },
    }
    sent = difference(later(), before).body["status"]["conditions"]
    assert "Disk" not in [c["type"] for c in sent]


def test_two_addresses_of_a_type_survive_the_patch():
    """N-10, N-19: the list is replaced as a whole: its key would let one of a type stand."""
    moved = (MACHINE.addresses[0], replace(MACHINE.addresses[0], address="2001:db8::5"))
    found = difference(later(addresses=moved))
    assert found.news["status"]["addresses"] == [
        {"type": "InternalIP", "address": "192.0.2.5"},
        {"type": "InternalIP", "address": "2001:db8::5"},
        {"$patch": "replace"},
    ]


def test_what_is_gone_is_taken_back():
    """A map loses a key by null: huge pages of a size, the runtime's features."""
    facts = later(capacity={"cpu": "4"}, allocatable={"cpu": "4"})
    found = difference(replace(facts, runtime=replace(FACTS.runtime, features=())))
    assert found.news["status"]["capacity"] == {"memory": None, "pods": None, "hugepages-2Mi": None}
    assert found.news["status"]["features"] is None


def test_labels_go_along():
    """N-8: a label that was changed behind our back comes back with the status."""
    labels = {**NODE["metadata"]["labels"], "kubernetes.io/os": "plan9"}
    before = {**NODE, "metadata": {**NODE["metadata"], "labels": labels}}
    found = difference(later(), before)
    assert found.news == {"metadata": {"labels": {"kubernetes.io/os": "linux"}}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {}, {"a": None}),
        ({}, {"a": {}}, {"a": {}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": [1, 2]}, {"a": [2]}, {"a": [2]}),
        ({"a": 5}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_merging(old, new, expected):
    """Maps key by key, everything else as a whole."""
    assert merge(old, new) == expected


# --- creation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "annotations", "spec"),
    [
        ({}, {node.ATTACH: "true"}, {}),
        ({"attach": False}, {}, {}),
        ({"provider_id": "x://1"}, {node.ATTACH: "true"}, {"providerID": "x://1"}),
        (
            {"taints": ({"key": "a", "effect": "NoExecute"},)},
            {node.ATTACH: "true"},
            {"taints": [{"key": "a", "effect": "NoExecute"}]},
        ),
        (
            {"external": True, "node_ip": "192.0.2.5"},
            {node.ATTACH: "true", "alpha.kubernetes.io/provided-node-ip": "192.0.2.5"},
            {"taints": [{"key": node.UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]},
        ),
        (
            {"external": True, "taints": ({"key": node.UNINITIALIZED, "effect": "NoSchedule"},)},
            {node.ATTACH: "true"},
            {"taints": [{"key": node.UNINITIALIZED, "effect": "NoSchedule"}]},
        ),
    ],
)
def test_what_a_node_is_created_with(changes, annotations, spec):
    """N-2, N-3, N-4, N-6."""
    found = initial(FACTS, replace(SETTINGS, **changes))
    assert (found["apiVersion"], found["kind"]) == ("v1", "Node")
    assert found["metadata"]["name"] == NAME
    assert found["metadata"]["labels"]["rack"] == "1"
    assert found["metadata"]["annotations"] == annotations
    assert found["spec"] == spec
    assert found["status"]["capacity"] == MACHINE.capacity


def existing(**changes):
    """A node that is there already, as we would have made it, but for this."""
    made = initial(FACTS, SETTINGS)
    made["metadata"] |= {k: v for k, v in changes.items() if k in ("labels", "annotations")}
    made["status"] |= {k: v for k, v in changes.items() if k in ("capacity", "allocatable")}
    return made


LABELS = initial(FACTS, SETTINGS)["metadata"]["labels"]


@pytest.mark.parametrize(
    ("there", "reset", "expected"),
    [
        ({}, False, None),
        ({"labels": {**LABELS, "more": "1"}}, False, None),
        (
            {"labels": {**LABELS, "rack": "2", "kubernetes.io/hostname": "x"}},
            False,
            {"metadata": {"labels": {"kubernetes.io/hostname": NAME}}},
        ),
        (
            {"annotations": {"other": "1"}},
            False,
            {"metadata": {"annotations": {node.ATTACH: "true"}}},
        ),
        (
            {"capacity": {**MACHINE.capacity, "hugepages-2Mi": "0", "hugepages-1Gi": "1Gi"}},
            False,
            {"status": {"capacity": {"hugepages-1Gi": None, "hugepages-2Mi": "4Mi"}}},
        ),
        ({"capacity": {**MACHINE.capacity, "example.com/gpu": "2"}}, False, None),
        (
            {"capacity": {**MACHINE.capacity, "example.com/gpu": "2", "example.com/none": "0"}},
            True,
            {"status": {"capacity": {"example.com/gpu": "0"}}},
        ),
        ({"capacity": {**MACHINE.capacity, "requests.kubernetes.io/x": "2"}}, True, None),
    ],
)
def test_what_is_put_right_on_a_node_that_is_there(there, reset, expected):
    """N-5: default labels, the annotation, huge pages, lost devices; --node-labels are not."""
    assert reconcile(existing(**there), initial(FACTS, SETTINGS), reset=reset) == expected


def test_taints_and_provider_are_for_the_creation_alone():
    """N-4, N-6."""
    settings = replace(SETTINGS, provider_id="x://1", taints=({"key": "a", "effect": "NoExecute"},))
    assert reconcile(existing(), initial(FACTS, settings)) is None


def test_the_annotation_goes_when_it_is_not_wanted():
    """N-5."""
    wanted = initial(FACTS, replace(SETTINGS, attach=False))
    assert reconcile(existing(), wanted) == {"metadata": {"annotations": {node.ATTACH: None}}}


@pytest.mark.parametrize("there", [{}, {"metadata": 5, "status": "x"}, {"metadata": {"labels": 1}}])
def test_odd_nodes_are_put_right_too(there):
    """Nothing that is there keeps the labels from being set."""
    found = reconcile(there, initial(FACTS, SETTINGS))
    assert found["metadata"]["labels"]["kubernetes.io/hostname"] == NAME


def test_twelve_labels_are_ours():
    """N-5."""
    assert len(set(node.DEFAULT_LABELS)) == 12


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (5, None),
        ({}, None),
        ({"metadata": {"name": "other"}}, None),
        (
            {"metadata": {"name": NAME}, "spec": None},
            {"metadata": {"name": NAME}, "spec": {}, "status": {}},
        ),
    ],
)
def test_what_is_taken_as_our_node(item, expected):
    """An answer that is something else is not taken."""
    assert sound(item, NAME) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (("u", "5"), None, False),
        (("u", "5"), ("u", "6"), True),
        (("u", "5"), ("u", "5"), True),
        (("u", "7"), ("u", "6"), False),
        (("v", "5"), ("u", "6"), False),
        (("u", "x"), ("u", "6"), False),
    ],
)
def test_a_watch_that_lags_behind(new, old, expected):
    """What our own answers said already is not taken back by an older word."""
    made = [
        {"metadata": {"uid": one[0], "resourceVersion": one[1]}} if one else None
        for one in (new, old)
    ]
    assert known_already(*made) is expected
