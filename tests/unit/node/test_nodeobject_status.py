"""The node's status from facts, setter by setter (N-8, N-13..N-21)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubelet.channels.messages import NodeImage
from kubelet.config.version import VERSION
from kubelet.machine.addresses import Address
from kubelet.machine.identity import Identity, architecture
from kubelet.pods.runtime import RuntimeRecord
from procs.node.nodeobject.conditions import all_of, ready
from procs.node.nodeobject.facts import Facts, find_addresses, pressures_in
from procs.node.nodeobject.status import SETTERS, compute
from tests.unit.node.nodeobject_scene import FACTS, MACHINE, NAME, NOW, SETTINGS, WALL, WELL

EMPTY = {"metadata": {"name": NAME}}


def status(before=EMPTY, facts=FACTS, settings=SETTINGS):
    """The status that follows."""
    return compute(before, facts, settings)["status"]


def with_machine(**changes):
    return replace(FACTS, machine=replace(MACHINE, **changes))


def test_the_order_of_the_setters():
    """N-13."""
    names = [setter.__name__.strip("_") for setter in SETTERS]
    assert names == [
        "addresses",
        "machine_info",
        "versions",
        "endpoints",
        "images",
        "platform",
        "handlers",
        "features",
        "conditions",
        "in_use",
        "declared",
    ]


def test_a_whole_status():
    """Every field that a kubelet writes."""
    found = status(settings=replace(SETTINGS, declared=("B", "A"), port=999))
    conditions = found.pop("conditions")
    assert found == {
        "addresses": [
            {"type": "InternalIP", "address": "192.0.2.5"},
            {"type": "Hostname", "address": NAME},
        ],
        "capacity": MACHINE.capacity,
        "allocatable": MACHINE.allocatable,
        "nodeInfo": {
            "machineID": "machine",
            "systemUUID": "system",
            "bootID": "boot",
            "kernelVersion": "6.1.0",
            "osImage": "Debian",
            "containerRuntimeVersion": "containerd://2.4.2",
            "kubeletVersion": VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 999}},
        "images": [{"names": ["a@sha256:1", "a:1"], "sizeBytes": 10}],
        "runtimeHandlers": [
            {"name": "", "features": {"recursiveReadOnlyMounts": True, "userNamespaces": True}},
            {
                "name": "runc",
                "features": {"recursiveReadOnlyMounts": False, "userNamespaces": False},
            },
        ],
        "features": {"supplementalGroupsPolicy": True},
        "declaredFeatures": ["A", "B"],
    }
    assert [c["type"] for c in conditions] == [
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
        "Ready",
    ]


def test_nothing_that_was_handed_in_is_changed():
    """A status is made anew; what is known of the object stays as it was heard."""
    before = {
        "metadata": {"name": NAME, "labels": {}},
        "status": {"capacity": {"memory": "1"}, "nodeInfo": {"x": 1}, "conditions": []},
    }
    compute(before, FACTS, SETTINGS)
    assert before["metadata"]["labels"] == {}
    assert before["status"] == {
        "capacity": {"memory": "1"},
        "nodeInfo": {"x": 1},
        "conditions": [],
    }


@pytest.mark.parametrize(
    ("external", "node_ip", "before", "addresses", "annotation"),
    [
        (False, "", [], "own", None),
        (False, "", ["cloud"], "own", None),
        (True, "", [], None, None),
        (True, "", ["cloud"], "cloud", None),
        (True, "192.0.2.5", [], "own", "192.0.2.5"),
        (True, "192.0.2.5", ["cloud"], "cloud", "192.0.2.5"),
    ],
)
def test_addresses_of_a_node_in_a_cloud(external, node_ip, before, addresses, annotation):
    """N-3, N-19: what a cloud provider set stays; it is told what was configured."""
    settings = replace(SETTINGS, external=external, node_ip=node_ip)
    key = "alpha.kubernetes.io/provided-node-ip"
    node = {
        "metadata": {"name": NAME, "annotations": {key: "old"} if external else {}},
        "status": {"addresses": before} if before else {},
    }
    found = compute(node, FACTS, settings)
    own = [{"type": a.type, "address": a.address} for a in MACHINE.addresses]
    expected = {"own": own, "cloud": ["cloud"], None: None}[addresses]
    assert found["status"].get("addresses") == expected
    assert found["metadata"]["annotations"].get(key) == annotation


def test_addresses_that_cannot_be_found_stay_as_they_were():
    """N-20: a node does not lose its address to a failed look."""
    before = {"metadata": {"name": NAME}, "status": {"addresses": ["known"]}}
    assert status(before, with_machine(addresses=()))["addresses"] == ["known"]


@pytest.mark.parametrize(
    ("node_ip", "local", "route", "expected"),
    [
        ("192.0.2.5", True, "", ("192.0.2.5",)),
        ("192.0.2.5,2001:db8::5", True, "", ("192.0.2.5", "2001:db8::5")),
        ("192.0.2.5", False, "192.0.2.6", "none of this machine's interfaces"),
        ("127.0.0.1", True, "192.0.2.6", "loopback"),
        ("", True, "192.0.2.6", ("192.0.2.6",)),
        ("", True, "", "no default route"),
    ],
)
def test_finding_addresses(tmp_path, node_ip, local, route, expected):
    """N-19, N-20: the addresses with the name last, or why there is none."""
    settings = replace(SETTINGS, node_ip=node_ip)
    found, problem = find_addresses(
        settings, (), str(tmp_path), route=lambda _family: route, local=lambda _text: local
    )
    if isinstance(expected, str):
        assert not found
        assert expected in problem
    else:
        assert problem == ""
        assert found[-1] == Address("Hostname", NAME)
        assert tuple(a.address for a in found[:-1]) == expected


def test_resources_of_others_stay_and_are_offered():
    """N-16, N-17: a device's or a user's resource is not ours to take away."""
    before = {
        "status": {
            "capacity": {"example.com/gpu": "2", "hugepages-1Gi": "1Gi", "cpu": "1"},
            "allocatable": {"example.com/gpu": "1", "example.com/gone": "1"},
        }
    }
    found = status(before)
    assert found["capacity"] == {"example.com/gpu": "2"} | MACHINE.capacity
    assert found["allocatable"] == {"example.com/gpu": "2"} | MACHINE.allocatable


@pytest.mark.parametrize(
    ("changes", "swap", "userns"),
    [
        ({}, None, None),
        ({"swap": 1024}, {"capacity": 1024}, None),
        ({"identity": Identity(user_namespace=True)}, None, True),
    ],
)
def test_what_only_some_machines_have(changes, swap, userns):
    """N-15: swap and a user namespace are said where they are."""
    before = {"status": {"nodeInfo": {"swap": {"capacity": 1}, "runningInUserNamespace": True}}}
    info = status(before, with_machine(**changes))["nodeInfo"]
    assert info.get("swap") == swap
    assert info.get("runningInUserNamespace") == userns


@pytest.mark.parametrize("runtime", [None, RuntimeRecord()])
def test_what_was_known_of_a_runtime_stays_while_nobody_looks(runtime):
    """N-13: a kubelet that has just started takes nothing back."""
    before = status()
    found = status({"status": before}, replace(FACTS, runtime=runtime))
    assert found["nodeInfo"]["containerRuntimeVersion"] == "containerd://2.4.2"
    assert found["runtimeHandlers"] == before["runtimeHandlers"]
    assert found["features"] == before["features"]
    fresh = status(facts=replace(FACTS, runtime=runtime))
    assert fresh["nodeInfo"]["containerRuntimeVersion"] == ""
    assert "runtimeHandlers" not in fresh


def test_a_runtime_that_lost_its_features():
    """Another runtime has taken its place."""
    other = replace(WELL, handlers=(), features=(), name="other", version="1")
    found = status({"status": status()}, replace(FACTS, runtime=other))
    assert "runtimeHandlers" not in found
    assert "features" not in found
    assert found["nodeInfo"]["containerRuntimeVersion"] == "other://1"


def test_images_that_are_not_known_stay():
    """N-18: a list that could not be had takes nothing back."""
    before = {"status": status()}
    assert status(before, replace(FACTS, images=None))["images"] == before["status"]["images"]
    assert status(before, replace(FACTS, images=()))["images"] == []
    other = replace(FACTS, images=(NodeImage(("b",), 1),))
    assert status(before, other)["images"] == [{"names": ["b"], "sizeBytes": 1}]


def test_the_machines_labels_are_put_right():
    """N-8: system and architecture; a label of somebody else stays."""
    before = {"metadata": {"labels": {"kubernetes.io/os": "plan9", "mine": "1"}}}
    assert compute(before, FACTS, SETTINGS)["metadata"]["labels"] == {
        "mine": "1",
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
        "beta.kubernetes.io/arch": architecture(),
    }


@pytest.mark.parametrize(
    ("presses", "expected"),
    [
        (
            set(),
            [
                ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                ("PIDPressure", "False", "KubeletHasSufficientPID"),
            ],
        ),
        (
            {"MemoryPressure", "DiskPressure", "PIDPressure"},
            [
                ("MemoryPressure", "True", "KubeletHasInsufficientMemory"),
                ("DiskPressure", "True", "KubeletHasDiskPressure"),
                ("PIDPressure", "True", "KubeletHasInsufficientPID"),
            ],
        ),
    ],
)
def test_pressures(presses, expected):
    """N-14."""
    found = all_of(replace(FACTS, pressures=frozenset(presses)))
    assert [(c.type, c.status, c.reason) for c in found[:3]] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, set()),
        (5, set()),
        ({"conditions": 5}, set()),
        (
            {"conditions": {"MemoryPressure": True, "DiskPressure": 1, "Other": True}},
            {"MemoryPressure"},
        ),
    ],
)
def test_pressures_from_the_table(value, expected):
    """A table with nothing, or something odd, presses nobody."""
    assert pressures_in(value) == expected


def test_ready_in_words():
    """N-14: one error as it is, several in brackets."""
    assert (ready([]).status, ready([]).reason) == ("True", "KubeletReady")
    assert ready([]).message == "kubelet is posting ready status"
    assert (ready(["a"]).status, ready(["a"]).reason) == ("False", "KubeletNotReady")
    assert ready(["a"]).message == "a"
    assert ready(["a", "b"]).message == "[a, b]"


def test_the_age_of_a_condition_is_that_of_its_status():
    """The transition moves with the status alone, the heartbeat always; others' stay in place."""
    old = "2020-01-01T00:00:00Z"
    before = {
        "status": {
            "conditions": [
                {"type": "NetworkUnavailable", "status": "False", "lastHeartbeatTime": old},
                {
                    "type": "Ready",
                    "status": "True",
                    "lastTransitionTime": old,
                    "lastHeartbeatTime": old,
                },
                {"type": "MemoryPressure", "status": "Unknown", "lastTransitionTime": old},
            ]
        }
    }
    found = status(before)["conditions"]
    assert [c["type"] for c in found] == [
        "NetworkUnavailable",
        "Ready",
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
    ]
    assert found[0] == before["status"]["conditions"][0]
    by = {c["type"]: c for c in found}
    assert (by["Ready"]["lastTransitionTime"], by["Ready"]["lastHeartbeatTime"]) == (old, NOW)
    assert by["MemoryPressure"]["lastTransitionTime"] == NOW
    assert by["DiskPressure"]["lastTransitionTime"] == NOW


@pytest.mark.parametrize(
    "before",
    [
        {},
        {"metadata": 5, "status": []},
        {"metadata": {"labels": []}, "status": {"conditions": {}, "nodeInfo": 1, "capacity": []}},
        {"status": {"conditions": ["x", {}, {"type": 5}, {"type": "Ready", "status": 5}]}},
    ],
)
def test_an_odd_object_is_no_obstacle(before):
    """What somebody made of the object is not what this process dies of."""
    found = status(before)
    kinds = [c.get("type") for c in found["conditions"]]
    assert kinds.count("Ready") == 1
    assert found["capacity"] == MACHINE.capacity


def test_facts_without_a_machine():
    """Nothing known at all is still a status."""
    found = status(facts=Facts(WALL))
    assert found["capacity"] == {}
    assert "addresses" not in found
