"""Registration, status and lease against an API server on the loopback."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace

import pytest

from kubelet.channels.messages import NodeImage
from kubelet.pods.runtime import Condition, RuntimeRecord
from procs.node.apiserver.types import Purpose
from procs.node.nodeobject import startup
from procs.node.nodeobject.lease import micro_time
from tests.unit.node.nodeobject_scene import (
    LEASES,
    NAME,
    NODES,
    SECOND,
    WELL,
    Scene,
    process_of,
    soon,
)

NODE = f"{NODES}/{NAME}"
LEASE = f"{LEASES}/{NAME}"


@pytest.fixture
def tell(tmp_path):
    """Run a story against a fresh node and server."""
    made = []

    def run(story, *flags, started=True):
        scene = Scene(tmp_path, *flags)
        made.append(scene)

        async def work():
            async with asyncio.timeout(30):
                await scene.server.start()
                if started:
                    await scene.start()
                await story(scene, scene.server)
                await scene.kill()
                await scene.server.stop()

        asyncio.run(work())
        return scene

    yield run
    for scene in made:
        scene.close()


def reasons(scene):
    return [reason for _, reason in scene.events]


# --- registration -------------------------------------------------------------------------------


def test_a_new_node_is_there_ready_and_alive(tell):
    """N-1, N-14, N-30: created, its images told, its lease owned by it; each event once."""

    async def story(scene, server):
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True" and server.lease)
        await server.until(lambda: "images" in server.node["status"])
        assert server.asked[0][:2] == ("POST", NODES)
        assert server.node["metadata"]["labels"]["kubernetes.io/hostname"] == NAME
        assert server.node["status"]["images"] == [{"names": ["a:1"], "sizeBytes": 5}]
        (owner,) = server.lease["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "v1",
            "kind": "Node",
            "name": NAME,
            "uid": server.node["metadata"]["uid"],
        }
        spec = server.lease["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (NAME, 40)
        await soon(lambda: scene.kit.troubles.row.ready == "True")
        row = scene.kit.troubles.row
        assert (row.registered, row.ready_reason.split(":")[0]) == (True, "KubeletReady")
        assert abs(row.lease_ns - time.time_ns()) < 30 * SECOND
        assert row.troubles == ()
        assert scene.kit.view.uid == server.node["metadata"]["uid"]

    scene = tell(story, started=True)
    assert sorted(reasons(scene)) == [
        "NodeHasNoDiskPressure",
        "NodeHasSufficientMemory",
        "NodeHasSufficientPID",
        "NodeReady",
    ]


def test_a_node_that_is_there_is_put_right(tell):
    """N-1, N-5: it is found, and what is the kubelet's is corrected; taints are left alone."""

    async def story(scene, server):
        there = {"metadata": {"name": NAME, "labels": {"kubernetes.io/hostname": "x"}}}
        server.put(NODE, {**there, "spec": {"taints": [{"key": "theirs"}]}})
        await scene.start()
        await server.until(lambda: server.ready() is not None)
        assert server.node["metadata"]["labels"]["kubernetes.io/hostname"] == NAME
        assert server.node["spec"]["taints"] == [{"key": "theirs"}]
        assert {path for verb, path, _ in server.asked if verb == "PATCH"} == {f"{NODE}/status"}

    tell(story, "--register-with-taints=mine=1:NoSchedule", started=False)


@pytest.mark.parametrize(("status", "reason"), [(500, "InternalError"), (429, "TooManyRequests")])
def test_a_server_that_refuses_for_a_while(tell, status, reason):
    """N-1: tried again with a growing pause; the trouble is named, and gone at the end."""

    async def story(scene, server):
        server.refuse("POST", NODES, status, reason, times=2)
        await scene.start()
        await soon(lambda: scene.trouble("node registration"))
        assert reason in scene.trouble("node registration")
        await server.until(lambda: server.node)
        await soon(lambda: scene.trouble("node registration") is None)

    tell(story, started=False)


def test_a_node_without_the_right_to_create_itself(tell):
    """N-1: forbidden, it looks whether it is there; the reason that is shown is the refusal."""

    async def story(scene, server):
        server.refuse("POST", NODES, 403, "Forbidden", times=2)
        await scene.start()
        await soon(lambda: scene.trouble("node registration"))
        assert "Forbidden" in scene.trouble("node registration")
        assert not scene.kit.troubles.row.registered
        server.put(NODE, {"metadata": {"name": NAME}})
        await server.until(lambda: server.ready() is not None)
        assert len(server.requests("POST", NODES)) <= 3

    tell(story, started=False)


def test_no_right_to_anything(tell):
    """403 everywhere: troubles with their reasons, no crash, no hot loop; rights end it."""

    async def story(scene, server):
        for method in ("GET", "POST", "PATCH", "PUT"):
            server.refuse(method, "", 403, "Forbidden", times=1000)
        await scene.start()
        await soon(lambda: scene.trouble("node registration"))
        began = time.monotonic()
        tries = len(server.requests("POST"))
        await soon(lambda: len(server.requests("POST")) >= tries + 3)
        assert time.monotonic() - began > 0.6  # 0.1, 0.2 and 0.4 s
        server.faults.clear()
        await server.until(lambda: server.ready() is not None, 15)

    tell(story, started=False)


def test_a_node_that_may_not_register_waits(tell):
    """N-1: registerNode false: status and lease once somebody made the node, and not before."""

    async def story(scene, server):
        await soon(lambda: scene.trouble("node registration"))
        assert "registerNode" in scene.trouble("node registration")
        assert server.requests("POST") == []
        await soon(lambda: watches(server))
        server.put(NODE, {"metadata": {"name": NAME}})
        await server.until(lambda: server.ready() is not None and server.lease)
        assert server.requests("POST", NODES) == []
        await soon(lambda: scene.trouble("node registration") is None)

    tell(story, "--register-node=false")


def test_a_node_that_is_deleted_comes_back_at_once(tell):
    """It is made anew with everything that a new node has; the lease belongs to the new one."""

    async def story(scene, server):
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True" and server.lease)
        await soon(lambda: watches(server))
        old = server.node["metadata"]["uid"]
        began = time.monotonic()
        server.remove(NODE)
        await server.until(lambda: server.node and server.node["metadata"]["uid"] != old)
        assert time.monotonic() - began < 1.0
        new = server.node["metadata"]["uid"]
        await server.until(lambda: server.lease["metadata"]["ownerReferences"][0]["uid"] == new)
        assert server.node["metadata"]["labels"]["rack"] == "1"

    scene = tell(story, "--node-labels=rack=1")
    assert reasons(scene).count("NodeReady") == 2


def watches(server):
    return [path for path, _ in server._watchers]


# --- status -------------------------------------------------------------------------------------


def test_a_change_of_the_runtime_is_told_at_once(tell):
    """N-11, N-12: within milliseconds, not at the next look; the reason is the runtime's."""
    network = Condition("NetworkReady", False, "NetworkPluginNotReady", "no cni")
    broken = replace(WELL, healthy=False, conditions=(WELL.conditions[0], network))

    async def story(scene, server):
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True")
        began = time.monotonic()
        scene.runtime(broken)
        await server.until(lambda: server.ready() == "False")
        assert time.monotonic() - began < 1.0
        ready = next(c for c in server.node["status"]["conditions"] if c["type"] == "Ready")
        assert ready["reason"] == "KubeletNotReady"
        assert "NetworkPluginNotReady message:no cni" in ready["message"]
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True")
        await scene.settled()

    scene = tell(story)
    assert [r for r in reasons(scene) if r in ("NodeReady", "NodeNotReady")] == [
        "NodeReady",
        "NodeNotReady",
        "NodeReady",
    ]


def test_nothing_new_is_nothing_sent(tell):
    """N-10: hints that bring no change, and our own words coming back, cost no request."""

    async def story(scene, server):
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True" and "images" in server.node["status"])
        await scene.settled()
        before = len(server.requests("PATCH"))
        for stamp in range(20):
            scene.runtime(replace(WELL, foreign=stamp))
            await scene.look()
        assert len(server.requests("PATCH")) == before

    tell(story)


def test_a_field_that_the_server_does_not_know_is_not_sent_for_ever(tell):
    """An older API server drops what it does not know; that is no change each time."""

    async def story(scene, server):
        server.dropped = frozenset({"declaredFeatures", "runtimeHandlers"})
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True" and "images" in server.node["status"])
        await scene.settled()
        before = len(server.requests("PATCH"))
        for stamp in range(5):
            scene.runtime(replace(WELL, foreign=stamp))
            await scene.look()
        assert len(server.requests("PATCH")) <= before + 1

    tell(story)


def test_what_somebody_else_made_of_the_status_is_put_right(tell):
    """The control plane gave the node up: it is ready again at once, and says so."""

    async def story(scene, server):
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True")
        await soon(lambda: watches(server))
        node = {**server.node, "metadata": dict(server.node["metadata"])}
        conditions = [{**c, "status": "Unknown"} for c in node["status"]["conditions"]]
        server.put(NODE, {**node, "status": {**node["status"], "conditions": conditions}})
        assert server.ready() == "Unknown"
        await server.until(lambda: server.ready() == "True")
        await scene.settled()

    scene = tell(story)
    assert reasons(scene).count("NodeReady") == 2


def test_a_cordon_is_told(tell):
    """N-23."""

    async def story(scene, server):
        await server.until(lambda: server.ready() is not None)
        await soon(lambda: watches(server))
        for unschedulable, reason in ((True, "NodeNotSchedulable"), (False, "NodeSchedulable")):
            node = {**server.node, "metadata": dict(server.node["metadata"])}
            server.put(NODE, {**node, "spec": {"unschedulable": unschedulable}})
            await soon(lambda reason=reason: reasons(scene)[-1:] == [reason])

    tell(story)


def test_images_that_cannot_be_had_keep_nothing_waiting(tell):
    """N-18: the status comes without them, and with them once they are known."""

    async def story(scene, server):
        scene.process.images = None
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True")
        assert "images" not in server.node["status"]
        scene.process.images = (NodeImage(("b@sha256:2", "b:1"), 7),)
        scene.runtime(replace(WELL, version="2.4.3"))
        await server.until(lambda: "images" in server.node["status"])

    tell(story)


@pytest.mark.parametrize("status", [409, 500])
def test_a_status_that_is_refused_is_tried_again_on_what_is_there_now(tell, status):
    """N-10: up to five tries, from a fresh look."""

    async def story(scene, server):
        await server.until(lambda: server.ready() == "False")
        server.refuse("PATCH", NODE, status, "Conflict", times=3)
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True")
        assert scene.trouble("node status") is None

    tell(story)


def test_a_status_that_nobody_takes_is_a_trouble(tell):
    """N-10: after five tries it is named, and it goes out at the next chance."""

    async def story(scene, server):
        await server.until(lambda: server.ready() == "False")
        server.refuse("PATCH", NODE, 500, "InternalError", times=5)
        scene.runtime(WELL)
        await soon(lambda: scene.trouble("node status"))
        assert "InternalError" in scene.trouble("node status")
        scene.runtime(replace(WELL, foreign=1))
        await server.until(lambda: server.ready() == "True")
        await soon(lambda: scene.trouble("node status") is None)

    tell(story)


# --- the kubelet's own processes ----------------------------------------------------------------


def test_a_dead_process_makes_the_node_not_ready_and_its_return_ready(tell):
    """Which one, and since when; when it is back for a second the node is ready, at once."""
    ended = {"reason": "exit code 70", "at_ns": 0, "report": None}

    async def story(scene, server):
        began = time.monotonic_ns() - 60 * SECOND
        dead = process_of("syncloop", 0, "backoff", began, {**ended, "at_ns": began + SECOND // 2})
        scene.tree(dead, started_ns=began)
        scene.runtime(WELL)
        await scene.start()
        await server.until(lambda: server.ready() == "False")
        ready = next(c for c in server.node["status"]["conditions"] if c["type"] == "Ready")
        assert "process syncloop of this kubelet does not work since 20" in ready["message"]
        await soon(lambda: watches(server))
        scene.beat("syncloop")
        back = process_of("syncloop", os.getpid(), "running", time.monotonic_ns() - 2 * SECOND)
        scene.tree(back, started_ns=began)
        await server.until(lambda: server.ready() == "True", 5)

    tell(story, started=False)


# --- deaths, and a server that goes away --------------------------------------------------------


def test_a_successor_says_nothing_twice(tell):
    """Killed again and again: no creation, no event, no status that was not news; but a lease."""

    async def story(scene, server):
        scene.tree(started_ns=5 * SECOND)
        scene.runtime(WELL)
        await scene.start()
        await server.until(lambda: server.ready() == "True" and "images" in server.node["status"])
        await scene.settled()
        events = list(scene.events)
        created, patched = len(server.requests("POST")), len(server.requests("PATCH"))
        for _ in range(10):
            renewed = len(server.requests("PUT", LEASE))
            await scene.restart()
            await server.until(lambda renewed=renewed: len(server.requests("PUT", LEASE)) > renewed)
            await scene.settled()
            await scene.look()
        assert server.ready() == "True"
        assert len(server.requests("POST")) == created
        assert len(server.requests("PATCH")) == patched
        assert scene.events == events

    tell(story, started=False)


def test_killed_at_any_moment_of_the_start(tell):
    """Wherever it dies, the next life ends up with one ready node, and each event at most once."""

    async def story(scene, server):
        scene.runtime(WELL)
        for step in range(12):
            heard = len(server.asked)
            await scene.start()
            await server.until(lambda enough=heard + step % 6: len(server.asked) >= enough)
            await scene.kill()
        await scene.start()
        await server.until(lambda: server.ready() == "True" and server.lease)
        await soon(lambda: "NodeReady" in reasons(scene))
        assert reasons(scene).count("NodeReady") == 1

    tell(story, started=False)


def test_starting_is_told_once_for_each_start_of_the_kubelet(tell):
    """N-23: not when this process alone is replaced."""

    async def story(scene, server):
        scene.tree(started_ns=5 * SECOND)
        await scene.start()
        await server.until(lambda: server.ready() is not None)
        await scene.restart()
        scene.tree(started_ns=9 * SECOND, pid=2)
        await scene.restart()

    scene = tell(story, started=False)
    assert reasons(scene).count("Starting") == 2


def test_a_reboot_is_told_once(tell):
    """N-15: the object speaks of another boot."""

    async def story(scene, server):
        status = {"nodeInfo": {"bootID": "before"}}
        server.put(NODE, {"metadata": {"name": NAME}, "status": status})
        await scene.start()
        await server.until(lambda: server.node["status"]["nodeInfo"]["bootID"] != "before")
        await scene.restart()
        await soon(lambda: watches(server))

    scene = tell(story, started=False)
    assert reasons(scene).count("Rebooted") == 1


def test_our_own_restart_does_not_flip_ready(tell):
    """T-2: a table that is not there yet is no reason for a node that was ready."""

    async def story(scene, server):
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True")
        scene.runtime(RuntimeRecord(), hint=False)  # as pleg would begin anew
        await scene.restart()
        await soon(lambda: watches(server))
        scene.runtime(RuntimeRecord(foreign=1))
        await scene.look()
        assert server.ready() == "True"

    tell(story)


def test_a_server_that_goes_away_and_comes_back(tell):
    """The lease and the status go out as soon as it answers again; connections are made anew."""

    async def story(scene, server):
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True" and server.lease)
        await soon(lambda: watches(server))
        await server.stop()
        scene.runtime(replace(WELL, healthy=False, reason="container runtime is down"))
        await soon(lambda: scene.trouble("node status"))
        assert Purpose.HEARTBEAT in scene.dropped
        server._watchers.clear()
        await server.start()
        await server.until(lambda: server.ready() == "False")
        await soon(lambda: scene.trouble("node status") is None)

    tell(story)


def test_a_storm_of_conflicts_is_met_with_ever_longer_pauses(tell):
    """N-10: five tries each time, and what is read for them is no reason to begin again at once."""

    async def story(scene, server):
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True")
        server.refuse("PATCH", f"{NODE}/status", 409, "Conflict", times=10_000)
        scene.runtime(replace(WELL, healthy=False, reason="container runtime is down"))
        await soon(lambda: scene.trouble("node status"))
        before = len(server.requests("PATCH", NODE))
        for number in range(30):  # somebody else changes the object all the time
            labels = {"labels": {"x": str(number)}}
            server.put(NODE, {**server.node, "metadata": {**server.node["metadata"], **labels}})
            await asyncio.sleep(0.02)
        assert len(server.requests("PATCH", NODE)) - before <= 15
        server.faults.clear()
        await server.until(lambda: server.ready() == "False")

    tell(story)


# --- the lease ----------------------------------------------------------------------------------


HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def test_the_lease_is_renewed_whatever_else_fails(tell, tmp_path):
    """N-30: the status is refused all the time; the lease is kept, each quarter of its time."""
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}nodeLeaseDurationSeconds: 1\n")

    async def story(scene, server):
        await server.until(lambda: server.lease)
        server.refuse("PATCH", NODE, 500, "InternalError", times=10_000)
        scene.runtime(WELL)
        renewals = len(server.requests("PUT", LEASE))
        began = time.monotonic()
        await server.until(lambda: len(server.requests("PUT", LEASE)) >= renewals + 3)
        assert 0.4 < time.monotonic() - began < 5
        assert scene.trouble("lease") is None

    tell(story, f"--config={path}")


def test_a_lease_that_somebody_changed_or_took_away(tell, tmp_path):
    """N-30: on a conflict it is read again, a missing one is made; nobody's future time counts."""
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}nodeLeaseDurationSeconds: 1\n")

    async def story(scene, server):
        await server.until(lambda: server.lease)
        other = {**server.lease, "metadata": dict(server.lease["metadata"])}
        other["spec"] = {**other["spec"], "renewTime": "2999-01-01T00:00:00.000000Z"}
        server.put(LEASE, other)
        await server.until(lambda: not server.lease["spec"]["renewTime"].startswith("2999"))
        made = len(server.requests("POST", LEASES))
        del server.objects[LEASE]
        await server.until(lambda: server.lease)
        assert len(server.requests("POST", LEASES)) == made + 1
        assert scene.trouble("lease") is None

    tell(story, f"--config={path}")


@pytest.mark.parametrize(
    ("status", "reason", "times"), [(403, "Forbidden", 3), (500, "InternalError", 6)]
)
def test_a_lease_that_is_refused(tell, status, reason, times):
    """N-30: a trouble with its reason, tried again with pauses, until it is well."""

    async def story(scene, server):
        server.refuse("GET", LEASE, status, reason, times=times)
        await scene.start()
        await soon(lambda: scene.trouble("lease"))
        assert reason in scene.trouble("lease")
        await server.until(lambda: server.lease)
        await soon(lambda: scene.trouble("lease") is None)

    tell(story, started=False)


def test_a_lease_is_told_to_the_microsecond():
    """N-30: as the API writes it."""
    assert micro_time(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456Z"


def test_how_long_the_start_took(tell):
    """N-66: from boot to ready; a successor of this process does not begin anew."""

    async def story(scene, server):
        scene.tree(started_ns=time.monotonic_ns() - SECOND)
        await scene.start()
        scene.runtime(WELL)
        await server.until(lambda: server.ready() == "True")
        await soon(lambda: len(scene.node.startup) == 5)
        found = scene.node.startup
        parts = [name for name in found if name != startup.WHOLE]
        assert sum(found[name] for name in parts) == pytest.approx(found[startup.WHOLE])
        assert found[startup.PRE_REGISTRATION] >= 1.0
        await scene.restart()
        assert scene.node.startup == found

    tell(story, started=False)
