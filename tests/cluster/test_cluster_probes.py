"""Probes as a cluster sees them: readiness at the API server, and what is told of failures.

``KUBELET_UNDER_TEST=go`` runs the same with the Go kubelet: words, counts and conditions are its.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time

import pytest

from tests.cluster.cluster_node import OURS, under_test
from tests.cluster.witness import Witness, condition_of
from tests.node.odd_servers import every_odd_one, servers_of
from tests.node.pod_node import PAUSE, SECONDS, is_ready, sleeper
from tests.node.probe_scene import (
    TYPES,
    WITH_NOTES,
    failed,
    probe,
    ready_of,
    scene,
)
from tests.node.probe_targets import Mode
from tests.node.shared import condition, container_of, restarts
from tests.node.test_pods_faults import crash, stop
from tests.processes.node import wait_for

ours_only = pytest.mark.skipif(under_test() != OURS, reason="shows what only ours does")
KILLING = "Container c failed {} probe, will be restarted"


@pytest.fixture
def cast(node):
    """Targets for the pods of a test."""
    with scene(node.kubelet.containerd, node.kubelet.disk / node.namespace, node.namespace) as made:
        yield made


def begin(node, cast, kinds, **probes):
    """Make a pod for each type of probe; its target by its name."""
    targets = {}
    for kind in kinds:
        target = targets[kind] = cast.target(kind, kind)
        given = {name: probe(target, **more) for name, more in probes.items()}
        node.create(cast.gated(kind, sleeper(**given, **WITH_NOTES)))
    for kind, target in targets.items():
        cast.open(kind, kind, target)
    return targets


def await_said(node, name, pattern, reason="Unhealthy"):
    """Wait for an event whose message is like this; what there was is shown if none comes."""
    try:
        return node.await_event(name, reason, lambda e: pattern.fullmatch(e["message"]))
    except AssertionError as err:
        told = [(e["reason"], e["message"]) for e in node.events(name)]
        raise AssertionError(f"{pattern.pattern!r} is not in {told}\n{err}") from None


def test_readiness_moves_the_pod_at_the_api_server(node, cast):
    """B-8, B-11, B-16: of each type and for each failure, there and back, without a restart."""
    targets = begin(node, cast, TYPES, readinessProbe={})
    for name in targets:
        node.await_pod_ready(name)
    for mode in (Mode.BAD, Mode.SILENT):
        for target in targets.values():
            target.become(mode)
        for name, target in targets.items():
            pod = node.await_status(name, f"{mode}: unready", lambda s: ready_of(s) == "False")
            assert condition(pod["status"], "Ready") == ("False", "ContainersNotReady"), name
            assert condition(pod["status"], "ContainersReady")[0] == "False", name
            event = await_said(node, name, failed("Readiness", target, mode))
            assert event["type"] == "Warning"
            assert event["involvedObject"]["fieldPath"] == "spec.containers{c}"
            assert event["source"]["component"] == "kubelet"
        for target in targets.values():
            target.become(Mode.GOOD)
        for name in targets:
            node.await_pod_ready(name)
    for name in targets:
        status = node.pod(name)["status"]
        assert (status["phase"], restarts(status)) == ("Running", 0), name
        assert container_of(status)["started"] is True


def test_liveness_restarts_the_container(node, cast):
    """B-9, B-16: it is counted, its cause is told, and the pod is ready again."""
    targets = begin(node, cast, ("exec", "http"), livenessProbe={})
    for name in targets:
        node.await_pod_ready(name)
    for target in targets.values():
        target.become(Mode.BAD)
    for name, target in targets.items():
        node.await_status(name, "is restarted", restarts)
        await_said(node, name, failed("Liveness", target, Mode.BAD))
        event = node.await_event(name, "Killing")
        assert (event["type"], event["message"]) == ("Normal", KILLING.format("liveness"))
        target.become(Mode.GOOD)
    for name in targets:
        status = node.await_pod_ready(name)["status"]
        assert container_of(status)["lastState"]["terminated"]["exitCode"] == 0


def test_startup_holds_the_others_at_the_api_server(node, cast):
    """B-5, B-18: not started, not ready and not asked, until the startup probe has succeeded."""
    first, second = cast.target("http", "h"), cast.target("http", "h", 8081)
    container = sleeper(
        startupProbe=probe(first, failureThreshold=1000),
        readinessProbe=probe(second),
        livenessProbe=probe(second),
        **WITH_NOTES,
    )
    first.become(Mode.BAD)
    node.create(cast.gated("held", container))
    cast.open("held", "held", first, second)
    await_said(node, "held", failed("Startup", first, Mode.BAD))
    wait_for("it was asked thrice", lambda: first.asked() >= 3, SECONDS, PAUSE)
    status = node.pod("held")["status"]
    assert (container_of(status)["started"], container_of(status)["ready"]) == (False, False)
    assert second.asked() == 0
    first.become(Mode.GOOD)
    status = node.await_pod_ready("held")["status"]
    assert (container_of(status)["started"], restarts(status)) == (True, 0)
    asked = first.asked()
    wait_for("others are asked", lambda: second.asked() >= 4, SECONDS, PAUSE)
    assert first.asked() == asked


@ours_only
@pytest.mark.parametrize("down", [crash, stop])
@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_no_restart_of_the_kubelet_is_seen_in_readiness(node, cast, down, lost):
    """With its tables or without: ready pods stay ready, those that are not stay so."""
    targets = begin(node, cast, ("exec", "http", "tcp"), readinessProbe={}, livenessProbe={})
    bad = cast.target("http", "bad")
    node.create(cast.gated("bad", sleeper(readinessProbe=probe(bad), **WITH_NOTES)))
    bad.become(Mode.BAD)
    cast.open("bad", "bad", bad)
    for name in targets:
        node.await_pod_ready(name)
    wait_for("it is asked", lambda: bad.asked() >= 2, SECONDS, PAUSE)
    with Witness(node.admin, node.pods_path) as seen:
        down(node.kubelet)
        try:
            if lost:
                shutil.rmtree(node.kubelet.run_dir)
        finally:
            node.kubelet.start()
        await_rounds(3, bad, *targets.values())
    for states in seen.states.values():
        name = states[0]["metadata"]["name"]
        told = [condition_of(state, "Ready") for state in states]
        assert set(told) == ({"False"} if name == "bad" else {"True"}), (name, told)
        ids = {container_of(state["status"])["containerID"] for state in states}
        assert len(ids) == 1, name
        assert restarts(states[-1]["status"]) == 0, name


@ours_only
def test_deaths_of_processes_are_not_seen_in_readiness(node, cast):
    """Whichever process dies in the way of a result: no condition of a ready pod changes."""
    chance = random.Random(8)
    targets = begin(node, cast, ("exec", "http", "grpc"), readinessProbe={}, livenessProbe={})
    for name in targets:
        node.await_pod_ready(name)
    with Witness(node.admin, node.pods_path) as seen:
        for kind in ("prober", "syncloop", "pleg", "node", "prober", "syncloop"):
            time.sleep(chance.uniform(0, 0.5))  # the moment of the next death
            pid = node.kubelet.pids()[kind]
            os.kill(pid, signal.SIGKILL)
            wait_for(f"{kind} is back", lambda k=kind, p=pid: node.kubelet.beating(k, p), SECONDS)
        await_rounds(2, *targets.values())
    for states in seen.states.values():
        assert all(is_ready(state["status"]) for state in states)
        assert restarts(states[-1]["status"]) == 0


def in_threes(names):
    """Names, three at a time."""
    return [names[at : at + 3] for at in range(0, len(names), 3)]


def await_rounds(times, *targets):
    """Wait until each target was asked so many times more."""
    before = {target: target.asked() for target in targets}
    wait_for(
        f"{times} more rounds",
        lambda: all(target.asked() >= count + times for target, count in before.items()),
        SECONDS,
        PAUSE,
    )


def test_servers_that_do_not_behave(node, cast):
    """B-8, B-12, B-13: each is judged in time and in the right words, and nothing else is asked."""
    odd = every_odd_one()
    # Only the first 25 events about a pod are sure to be told.
    pods = {f"odd{n}": batch for n, batch in enumerate(in_threes(list(odd)))}
    every = {"periodSeconds": 1, "timeoutSeconds": 1}
    for name, batch in pods.items():
        containers = [sleeper(c, readinessProbe={**odd[c].handler, **every}) for c in batch]
        node.create(cast.gated(name, *containers))
    for name in pods:
        cast.open(name, name, *servers_of(cast))
    for name, container in ((name, c) for name, batch in pods.items() for c in batch):
        one = odd[container]
        if one.message:
            await_said(node, name, re.compile(one.message, re.DOTALL), one.reason)
        node.await_status(
            name,
            f"{container} is judged",
            lambda s, c=container, o=one: container_of(s, c)["ready"] is o.ready,
        )
    for name, batch in pods.items():
        status = node.pod(name)["status"]
        found = {c: (container_of(status, c)["ready"], restarts(status, c)) for c in batch}
        assert found == {c: (odd[c].ready, 0) for c in batch}
