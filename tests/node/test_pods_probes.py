"""Probes of real containers: each type, each purpose, each way to fail; and what holds them."""

from __future__ import annotations

import re

import pytest

from tests.cluster.cluster_node import processes_of
from tests.node.pod_node import PAUSE, SECONDS, is_ready, sh, sleeper
from tests.node.probe_scene import TYPES, WITH_NOTES, failed, probe, run, scene
from tests.node.probe_targets import Mode
from tests.node.shared import LOOP, condition, container_of, note, restarts, running, state_of
from tests.processes.node import wait_for

FAILURES = (Mode.BAD, Mode.SILENT)
KILLING = "Container {} failed {} probe, will be restarted"
EVENT_LIMIT = 1024  # bytes: what the API allows for the message of an event
PATIENT = {"terminationGracePeriodSeconds": 600}  # longer than any test waits


@pytest.fixture
def cast(node, request):
    """Targets for the pods of a test."""
    place = node.disk / "scenes" / re.sub(r"\W+", "-", request.node.name)
    with scene(node.containerd, place) as made:
        yield made


def begin(node, cast, mode=Mode.GOOD, **probes):
    """Run a pod for each type of probe, with these probes of it; their targets by whole name."""
    targets = {}
    for kind in TYPES:
        target = cast.target(kind, kind)
        target.become(mode)
        given = {name: probe(target, **more) for name, more in probes.items()}
        targets[node.write(cast.gated(kind, sleeper(**given, **WITH_NOTES)))] = target
    for kind, (full, target) in zip(TYPES, targets.items(), strict=True):
        cast.open(kind, full, target)
    return targets


def all_become(targets, mode):
    """Have all targets answer like this."""
    for target in targets.values():
        target.become(mode)


def await_said(node, name, pattern, reason="Unhealthy"):
    """Wait for an event whose whole message is like this."""

    def look():
        found = (e for e in node.events(name) if e["reason"] == reason)
        return next((e for e in found if pattern.fullmatch(e["message"])), None)

    try:
        return wait_for(f"{reason}: {pattern.pattern}", look, SECONDS, PAUSE)
    except AssertionError as err:
        raise AssertionError(f"{err}: {node.events(name)}") from None


def await_asked(*targets, times=2):
    """Wait until targets were asked so many times more."""
    before = {target: target.asked() for target in targets}
    wait_for(
        f"all are asked {times} times more",
        lambda: all(target.asked() >= count + times for target, count in before.items()),
        SECONDS,
        PAUSE,
    )


def count_of(node, name, reason):
    """How often something was told of a pod."""
    return sum(e["count"] for e in node.events(name) if e["reason"] == reason)


# Each type for each purpose.


@pytest.mark.both_versions
def test_liveness_of_every_type(node, cast):
    """B-9, B-16: who says no, or nothing, is restarted and told of; who is well is left alone."""
    targets = begin(node, cast, livenessProbe={})
    for name in targets:
        node.await_ready(name)
    await_asked(*targets.values())
    for name in targets:
        assert restarts(node.status(name)) == 0, name
        assert count_of(node, name, "Unhealthy") == 0, name
    for mode in FAILURES:
        before = {name: restarts(node.status(name)) for name in targets}
        all_become(targets, mode)
        for name, target in targets.items():
            count = before[name]
            node.await_status(name, "is restarted", lambda s, c=count: restarts(s) > c)
            target.become(Mode.GOOD)
            assert await_said(node, name, failed("Liveness", target, mode))["type"] == "Warning"
        for name in targets:
            node.await_status(name, "is back", lambda s: running()(s) and is_ready(s))
    for name in targets:
        event = node.await_event(name, "Killing")
        assert (event["type"], event["message"]) == ("Normal", KILLING.format("c", "liveness"))
        assert count_of(node, name, "Killing") == restarts(node.status(name)), name


@pytest.mark.both_versions
def test_readiness_of_every_type(node, cast):
    """B-3, B-8, B-11, B-18: ready for as long as it says so, and never restarted."""
    targets = begin(node, cast, readinessProbe={})
    for name in targets:
        assert container_of(node.await_ready(name))["started"] is True
    for mode in FAILURES:
        all_become(targets, mode)
        for name, target in targets.items():
            status = node.await_status(name, f"{mode}, not ready", lambda s: not is_ready(s))
            assert condition(status, "Ready") == ("False", "ContainersNotReady")
            assert container_of(status)["ready"] is False
            await_said(node, name, failed("Readiness", target, mode))
        all_become(targets, Mode.GOOD)
        for name in targets:
            node.await_ready(name)
    for name in targets:
        assert restarts(node.status(name)) == 0, name
        assert count_of(node, name, "Killing") == 0, name


def test_startup_of_every_type(node, cast):
    """B-5, B-9, B-18: who does not come up is restarted; who did is not asked again."""
    targets = begin(node, cast, Mode.BAD, startupProbe={})
    for mode, next_mode in ((Mode.BAD, Mode.SILENT), (Mode.SILENT, Mode.GOOD)):
        before = {name: restarts(node.status(name)) for name in targets}
        for name, target in targets.items():
            await_said(node, name, failed("Startup", target, mode))
            count = before[name]
            status = node.await_status(name, "is restarted", lambda s, c=count: restarts(s) > c)
            assert not is_ready(status)
            target.become(next_mode)
    for name, target in targets.items():
        assert container_of(node.await_ready(name))["started"] is True
        event = node.await_event(name, "Killing")
        assert event["message"] == KILLING.format("c", "startup")
        target.become(Mode.BAD)  # nobody will know
    counts = {name: (restarts(node.status(name)), t.asked()) for name, t in targets.items()}
    witness = cast.target("exec", "witness")
    name = node.write(cast.pod("witness", sleeper(livenessProbe=probe(witness), **WITH_NOTES)))
    node.await_ready(name)
    await_asked(witness)
    assert counts == {name: (restarts(node.status(name)), t.asked()) for name, t in targets.items()}


# What a probe holds, and what holds a probe.


def test_startup_holds_liveness_and_readiness(node, cast):
    """B-5, B-18: neither asks before the container has started, and both do then."""
    first, live, ready = (cast.target("http", "held", port) for port in (8080, 8081, 8082))
    first.become(Mode.BAD)
    container = sleeper(
        startupProbe=probe(first, failureThreshold=1000),
        livenessProbe=probe(live),
        readinessProbe=probe(ready),
    )
    name = node.write(cast.gated("held", container))
    cast.open("held", name, first, live, ready)
    await_asked(first, times=3)
    status = container_of(node.status(name))
    assert (status["started"], status["ready"]) == (False, False)
    assert live.asked() == ready.asked() == 0
    first.become(Mode.GOOD)
    status = container_of(node.await_ready(name))
    assert (status["started"], status["restartCount"]) == (True, 0)
    asked = first.asked()
    await_asked(live, ready)
    assert first.asked() == asked


def test_thresholds_count_what_comes_in_a_row(node, cast):
    """B-8: one failure of three changes nothing, nor does one success of two."""
    script = "echo x >> /notes/asked; n=$(wc -l < /notes/asked); "
    # One failure, one success, then failures until told otherwise; successes at every second ask.
    script += "[ $n = 1 ] && exit 1; [ $n -le 3 ] && exit 0; [ $n = 4 ] && exit 1; "
    script += "[ $n = 5 ] && exit 0; [ -e /notes/down ] && exit 1; exit 0"
    given = run(script, failureThreshold=2, successThreshold=2)
    name = node.write(cast.pod("row", sleeper(readinessProbe=given, **WITH_NOTES)))

    def asked():
        path = cast.directory / "asked"
        return len(path.read_text().splitlines()) if path.exists() else 0

    node.await_ready(name)
    assert asked() >= 3
    wait_for("a failure has come and gone", lambda: asked() >= 7, SECONDS, PAUSE)
    assert is_ready(node.status(name))
    cast.touch("down")
    before = asked()
    node.await_status(name, "is not ready", lambda s: not is_ready(s))
    assert asked() >= before + 2


def test_the_first_probe_waits_for_its_delay(node, cast):
    """B-5: a liveness probe that would fail at once lets the container live for its delay."""
    script = f"{note('begin')}; {LOOP}"
    given = run("echo too early; exit 1", initialDelaySeconds=5)
    early = sh(script, "early", livenessProbe=given, **WITH_NOTES)
    witness = cast.target("exec", "witness")
    name = node.write(
        cast.pod("delay", early, sleeper("witness", livenessProbe=probe(witness), **WITH_NOTES))
    )
    node.await_ready(name)
    wait_for("another is asked", lambda: witness.asked() >= 2, SECONDS, PAUSE)
    assert count_of(node, name, "Unhealthy") == 0
    node.await_status(name, "is restarted", lambda s: restarts(s, "early"))
    assert witness.asked() >= 4


def test_no_probe_asks_before_the_hook_is_over(node, cast):
    """P-144: a container whose hook after the start still runs is not there yet."""
    asks = cast.target("exec", "hooked")
    hook = {"exec": {"command": ["sh", "-c", "until [ -e /notes/go ]; do sleep 0.1; done"]}}
    hooked = sleeper(
        lifecycle={"postStart": hook},
        startupProbe=probe(asks),
        livenessProbe=probe(asks),
        **WITH_NOTES,
    )
    witness = cast.target("exec", "witness")
    name = node.write(cast.pod("hooked", hooked))
    other = node.write(cast.pod("witness", sleeper(livenessProbe=probe(witness), **WITH_NOTES)))
    node.pid_of(name)
    node.await_ready(other)
    await_asked(witness, times=3)
    assert asks.asked() == 0
    cast.touch("go")
    node.await_ready(name)
    await_asked(asks)


def test_a_sidecar_holds_what_follows_until_it_has_started(node, cast):
    """B-1, B-18: its startup probe, its readiness and its liveness count like any other's."""
    starts, lives, ready = (cast.target("exec", name) for name in ("starts", "lives", "ready"))
    starts.become(Mode.BAD)
    ready.become(Mode.BAD)
    side = sleeper(
        "side",
        restartPolicy="Always",
        startupProbe=probe(starts, failureThreshold=1000),
        livenessProbe=probe(lives),
        readinessProbe=probe(ready),
        **WITH_NOTES,
    )
    main = sh(f"{note('main')}; {LOOP}", **WITH_NOTES)
    name = node.write(cast.pod("sidecar", main, initContainers=[side]))
    await_asked(starts, times=3)
    status = node.status(name)
    assert (container_of(status, "side")["started"], lives.asked()) == (False, 0)
    assert "waiting" in state_of(status)
    assert cast.lines() == []
    starts.become(Mode.GOOD)
    node.await_status(name, "main runs", running())
    await_asked(ready)
    assert not is_ready(node.status(name))
    ready.become(Mode.GOOD)
    node.await_ready(name)
    lives.become(Mode.BAD)
    status = node.await_status(name, "restarted", lambda s: restarts(s, "side"))
    lives.become(Mode.GOOD)
    event = node.await_event(name, "Killing")
    assert event["message"] == "Init container side failed liveness probe"
    assert restarts(status) == 0
    node.await_ready(name)


# The end of a container, and of a pod.


def test_a_probe_has_a_grace_of_its_own(node, cast):
    """H-45: it is what the container gets that failed; the pod's would be far too long here."""
    stubborn = f"trap '{note('term')}; [ ! -e /notes/end ] || exit 0' TERM; "
    stubborn += f"{note('begin')}; {LOOP}"
    asks = cast.target("exec", "graceful")
    container = sh(
        stubborn, livenessProbe=probe(asks, terminationGracePeriodSeconds=1), **WITH_NOTES
    )
    name = node.write(cast.pod("graceful", container, **PATIENT))
    node.await_ready(name)
    await_asked(asks, times=1)
    asks.become(Mode.BAD)
    node.await_status(name, "is restarted", lambda s: restarts(s) and running()(s))
    asks.become(Mode.GOOD)
    wait_for("it began again", lambda: cast.lines().count("begin") >= 2, SECONDS, PAUSE)
    assert cast.lines()[:3] == ["begin", "term", "begin"]
    last = container_of(node.status(name))["lastState"]["terminated"]
    assert last["exitCode"] == 137
    cast.touch("end")


def test_readiness_is_asked_until_the_end_and_liveness_is_not(node, cast):
    """B-6: who gets ready to end may say that it is not ready, and is not restarted for it."""
    script = f"trap '{note('term')}; until [ -e /notes/end ]; do sleep 0.1; done; exit 0' TERM; "
    live, ready = cast.target("http", "x", 8080), cast.target("http", "x", 8081)
    container = sh(
        f"{script}{note('main')}; {LOOP}",
        livenessProbe=probe(live),
        readinessProbe=probe(ready),
        **WITH_NOTES,
    )
    name = node.write(cast.gated("ends", container, **PATIENT))
    cast.open("ends", name, live, ready)
    node.await_ready(name)
    await_asked(live, ready, times=1)
    wait_for("it runs", lambda: "main" in cast.lines(), SECONDS, PAUSE)
    node.remove("ends")
    wait_for("it is told", lambda: "term" in cast.lines(), SECONDS, PAUSE)
    asked = live.asked()
    live.become(Mode.BAD)
    await_asked(ready, times=2)
    ready.become(Mode.BAD)
    await_said(node, name, failed("Readiness", ready, Mode.BAD))
    node.await_status(name, "is not ready", lambda s: not is_ready(s))
    await_asked(ready, times=2)
    assert live.asked() <= asked + 1  # one may have been under way
    assert restarts(node.status(name)) == 0
    cast.touch("end")
    node.await_gone(name)
    assert cast.lines() == ["main", "term"]


# Commands that do not behave.


@pytest.mark.both_versions
def test_commands_that_never_end(node, cast):
    """B-14: each is a failure when its time is over, and none is left in the container."""
    asks = cast.target("exec", "stuck")
    asks.become(Mode.SILENT)
    stuck = sleeper(readinessProbe=probe(asks), **WITH_NOTES)
    name = node.write(cast.pod("stuck", stuck))
    await_said(node, name, failed("Readiness", asks, Mode.SILENT))
    container_id = node.container(name)["containerID"]
    seen = []

    def look():
        seen.append(len(processes_of(container_id)))
        return asks.asked() >= 5

    wait_for("five have been stuck", look, SECONDS, PAUSE)
    # The container's own two, one that is stuck, and one whose end the runtime is about to see.
    assert max(seen) <= 4, seen
    asks.become(Mode.GOOD)
    node.await_ready(name)
    await_asked(asks, times=1)
    wait_for("no other is left", lambda: len(processes_of(container_id)) <= 2, SECONDS, PAUSE)


@pytest.mark.both_versions
def test_commands_that_print_without_end(node, cast):
    """B-14, B-16: what is kept of it and told of it has its limit, and the node is well."""
    endless = sleeper("endless", readinessProbe=run("yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
    much = "dd if=/dev/zero bs=1M count=3 2>/dev/null | tr '\\0' m; "
    bad = sleeper("bad", readinessProbe=run(f"{much} exit 7", timeoutSeconds=10))
    good = sleeper("good", readinessProbe=run(much, timeoutSeconds=10))
    name = node.write(cast.pod("prints", endless, bad, good))
    node.await_status(name, "good is ready", lambda s: container_of(s, "good")["ready"])
    await_said(node, name, re.compile(r"Readiness probe failed: command timed out: .*", re.DOTALL))
    await_said(node, name, re.compile(r"Readiness probe failed: m+.*", re.DOTALL))
    for event in node.events(name):
        assert len(event["message"].encode()) <= EVENT_LIMIT, event["message"][:100]
    status = node.status(name)
    assert {n: container_of(status, n)["ready"] for n in ("endless", "bad", "good")} == {
        "endless": False,
        "bad": False,
        "good": True,
    }
    assert all(p["restarts"] == 0 for p in node.processes().values())


def test_one_command_at_a_time_in_a_container(node, cast):
    """Two probes that are slow do not run side by side, nor does one with itself."""
    script = (
        "mkdir /notes/lock || echo overlap >> /notes/lines; sleep 0.7; rmdir /notes/lock; "
        "echo {} >> /notes/lines"
    )
    container = sleeper(
        livenessProbe=run(script.format("live"), timeoutSeconds=20),
        readinessProbe=run(script.format("ready"), timeoutSeconds=20),
        **WITH_NOTES,
    )
    name = node.write(cast.pod("alone", container))
    node.await_ready(name)
    wait_for(
        "both have run thrice",
        lambda: min(cast.lines().count(word) for word in ("live", "ready")) >= 3,
        SECONDS,
        PAUSE,
    )
    assert "overlap" not in cast.lines()
    assert restarts(node.status(name)) == 0


def test_servers_of_the_container_itself(node, cast):
    """B-12, B-13, B-19: a web server, asked by the name and by the number of its port."""
    web = "mkdir /www; echo well > /www/index.html; exec httpd -f -p 8080 -h /www"
    ports = [{"name": "web", "containerPort": 8080}]
    every = {"periodSeconds": 1, "failureThreshold": 3}
    container = sh(
        web,
        ports=ports,
        startupProbe={"tcpSocket": {"port": "web"}, **every},
        livenessProbe={"tcpSocket": {"port": 8080}, **every},
        readinessProbe={"httpGet": {"path": "/index.html?a=b", "port": "web"}, **every},
    )
    missing = sh(
        web.replace("8080", "8090"),
        "missing",
        readinessProbe={"httpGet": {"path": "/nowhere", "port": 8090}, **every},
    )
    name = node.write(cast.pod("web", container, missing))
    node.await_status(name, "one is ready", lambda s: container_of(s)["ready"])
    told = re.compile(r"Readiness probe failed: HTTP probe failed with statuscode: 404")
    await_said(node, name, told)
    status = node.status(name)
    assert (container_of(status, "missing")["ready"], restarts(status)) == (False, 0)
