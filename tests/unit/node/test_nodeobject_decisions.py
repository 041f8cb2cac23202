"""When the node is ready, when its status is sent, and what is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubelet.pods.runtime import Condition, RuntimeRecord
from procs.node.nodeobject import announce, cadence, readiness
from procs.node.nodeobject.cadence import Reported
from tests.unit.node.nodeobject_scene import NAME, SECOND, SETTINGS, WELL

NOW = 1000 * SECOND
RUNTIME_DOWN = Condition("RuntimeReady", False, "Gone", "no shim")
NO_NETWORK = Condition("NetworkReady", False, "NetworkPluginNotReady", "cni not initialized")
READY = Condition("RuntimeReady", True)

NETWORK_WORDS = (
    "container runtime network not ready: NetworkReady=false "
    "reason:NetworkPluginNotReady message:cni not initialized"
)


@pytest.mark.parametrize(
    ("record", "was_ready", "expected"),
    [
        (WELL, False, []),
        (WELL, True, []),
        (
            replace(WELL, conditions=(READY, NO_NETWORK), healthy=False, reason="x"),
            True,
            [NETWORK_WORDS],
        ),
        (
            replace(WELL, conditions=(RUNTIME_DOWN, NO_NETWORK)),
            True,
            [
                ("container runtime not ready: RuntimeReady=false reason:Gone message:no shim"),
                NETWORK_WORDS,
            ],
        ),
        (
            replace(WELL, conditions=(READY,)),
            True,
            ["container runtime network not ready: the runtime does not say NetworkReady"],
        ),
        (
            replace(WELL, healthy=False, reason="container runtime is down: refused"),
            True,
            ["container runtime is down: refused"],
        ),
        (replace(WELL, healthy=False), True, ["container runtime is down"]),
        (None, False, ["container runtime status check may not have completed yet"]),
        (
            RuntimeRecord(reason="no answer yet from unix:///x"),
            False,
            [
                (
                    "container runtime status check may not have completed yet: "
                    "no answer yet from unix:///x"
                )
            ],
        ),
    ],
)
def test_what_the_runtime_keeps_from_being_ready(record, was_ready, expected):
    """N-12, N-14."""
    assert readiness.runtime_errors(record, NOW, NOW, was_ready) == expected


@pytest.mark.parametrize(
    ("record", "since_s", "ready"),
    [
        (None, 0, True),
        (None, 29, True),
        (None, 30, False),
        (RuntimeRecord(since_ns=NOW - 29 * SECOND), 99, True),
        (RuntimeRecord(since_ns=NOW - 30 * SECOND), 0, False),
    ],
)
def test_a_node_that_was_ready_is_given_time(record, since_s, ready):
    """T-2: that somebody has to look anew does not flip the node for thirty seconds."""
    found = readiness.runtime_errors(record, NOW, NOW - since_s * SECOND, True)
    assert (not found) is ready
    assert (readiness.grace_ends_ns(record, NOW - since_s * SECOND) > NOW) is ready


@pytest.mark.parametrize(
    ("capacity", "storage", "expected"),
    [
        ({"cpu": "1", "memory": "1", "pods": "1", "ephemeral-storage": "1"}, True, []),
        ({"cpu": "1", "memory": "1", "pods": "1"}, False, []),
        (
            {"cpu": "1", "pods": "1"},
            True,
            ["missing node capacity for resources: memory, ephemeral-storage"],
        ),
    ],
)
def test_a_node_must_know_what_it_has(capacity, storage, expected):
    """N-14."""
    assert readiness.capacity_errors(capacity, storage=storage) == expected


# --- cadence ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "now_s", "changed", "due"),
    [
        (Reported(), 5, False, True),
        (Reported(SECOND, 300 * SECOND), 2, True, True),
        (Reported(SECOND, 300 * SECOND), 300, False, False),
        (Reported(SECOND, 300 * SECOND), 301, False, True),
        (Reported(400 * SECOND, 300 * SECOND), 2, False, True),
    ],
)
def test_when_the_status_is_sent(last, now_s, changed, due):
    """N-10: on a change, or after the report frequency; a clock that went back is no excuse."""
    assert cadence.report_due(last, now_s * SECOND, changed=changed) is due


def test_reports_after_a_change_are_spread():
    """N-10: the next one comes 50 % earlier to 50 % later; after a mere report on time."""

    def lowest(low, _high):
        return low

    def highest(_low, high):
        return high

    for uniform, seconds in ((lowest, 150), (highest, 450)):
        found = cadence.reported(SECOND, 300.0, uniform, changed=True)
        assert found == Reported(SECOND, seconds * SECOND)
        same = cadence.reported(SECOND, 300.0, uniform, changed=False)
        assert same == Reported(SECOND, 300 * SECOND)


def test_looks_are_spread_a_little():
    """N-10: up to 4 % later."""
    assert cadence.next_look(10.0, lambda low, _high: low) == 10.0
    assert cadence.next_look(10.0, lambda _low, high: high) == pytest.approx(10.4)


def test_back_off():
    """N-1: 100 ms, doubled, 7 s at most; N-30: from 200 ms."""
    found, pause = [], 0.0
    for _ in range(9):
        pause = cadence.next_retry(pause)
        found.append(pause)
    assert found == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 7.0, 7.0]
    assert cadence.next_retry(0.0, cadence.LEASE_RETRY) == 0.2


@pytest.mark.parametrize("value", [None, 5, [], [1], ["a", "b"], [1, 2, 3]])
def test_a_ledger_that_says_nothing_means_never(value):
    """An entry of another shape only means work that is done again."""
    assert Reported.from_wire(value) == Reported()
    assert Reported.from_wire(Reported(1, 2).to_wire()) == Reported(1, 2)


def test_heartbeats_do_not_wait_for_each_other():
    """N-30: a quarter of the lease."""
    assert SETTINGS.renew_seconds == 10.0
    assert replace(SETTINGS, lease_seconds=8).renew_seconds == 2.0


# --- events -------------------------------------------------------------------------------------


def node(unschedulable=None, boot="", **conditions):
    """A node that says this."""
    return {
        "metadata": {"name": NAME},
        "spec": {} if unschedulable is None else {"unschedulable": unschedulable},
        "status": {
            "conditions": [{"type": t, "status": s} for t, s in conditions.items()],
            "nodeInfo": {"bootID": boot},
        },
    }


CALM = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
TOLD = {**CALM, "Ready": "True"}


@pytest.mark.parametrize(
    ("told", "heard", "reasons"),
    [
        (TOLD, node(**TOLD), []),
        ({}, node(**CALM, Ready="False"), "Sufficient NoDisk Sufficient"),
        ({}, node(**CALM, Ready="True"), "Sufficient NoDisk Sufficient NodeReady"),
        ({**CALM, "Ready": "False"}, node(**TOLD), "NodeReady"),
        (TOLD, node(**CALM, Ready="False"), "NodeNotReady"),
        (TOLD, node(**{**TOLD, "MemoryPressure": "True"}), "NodeHasInsufficientMemory"),
        (TOLD, node(**{**TOLD, "DiskPressure": "True"}), "NodeHasDiskPressure"),
        (TOLD, node(**{**TOLD, "PIDPressure": "True"}), "NodeHasInsufficientPID"),
        (TOLD, node(**{**TOLD, "Ready": "Unknown"}), []),
        (TOLD, node(True, **TOLD), "NodeNotSchedulable"),
        ({**TOLD, "unschedulable": "True"}, node(**TOLD), "NodeSchedulable"),
        ({**TOLD, "unschedulable": "True"}, node(True, **TOLD), []),
        (TOLD, {}, []),
    ],
)
def test_each_change_is_told_once(told, heard, reasons):
    """N-14, N-23: and what was told is not told again."""
    found = announce.news(told, heard)
    assert len(found.events) == len(reasons.split() if reasons else [])
    for event, word in zip(found.events, reasons.split() if reasons else [], strict=True):
        assert word in event.reason
        assert event.message.endswith(event.reason)
        assert event.type == "Normal"
    assert announce.news(found.told, heard).events == ()


@pytest.mark.parametrize(
    ("told", "heard", "events"),
    [
        (None, node(**TOLD), []),
        (None, node(**CALM, Ready="False"), []),
        (TOLD, node(**CALM, Ready="False"), ["NodeNotReady"]),
    ],
)
def test_what_a_successor_tells(told, heard, events):
    """What a predecessor wrote and died before telling is told; what nobody remembers is not."""
    found = announce.news(announce.heard(told, heard), heard)
    assert [event.reason for event in found.events] == events


def test_a_node_that_was_given_up_is_ready_again():
    """The control plane said unknown: that we are back is news."""
    lost = announce.heard(TOLD, node(**{**TOLD, "Ready": "Unknown"}))
    assert lost["Ready"] == "Unknown"
    found = announce.news(announce.heard(lost, node(**TOLD)), node(**TOLD))
    assert [event.reason for event in found.events] == ["NodeReady"]


@pytest.mark.parametrize("value", [None, 5, [1], {"Ready": 5}])
def test_a_memory_of_another_shape(value):
    """An odd entry of the ledger is no memory."""
    assert announce.told_of(value) in (None, {})
    assert announce.told_of({"Ready": "True"}) == {"Ready": "True"}


@pytest.mark.parametrize(
    ("known", "boot_id", "expected"),
    [("", "b", False), ("a", "", False), ("a", "a", False), ("a", "b", True)],
)
def test_a_reboot_is_another_boot(known, boot_id, expected):
    """N-15."""
    assert announce.was_rebooted(node(boot=known), boot_id) is expected
    assert announce.rebooted(NAME, "b").type == "Warning"
    assert announce.starting() == ("Normal", "Starting", "Starting kubelet.")
