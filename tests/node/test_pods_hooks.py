"""Lifecycle hooks on a real containerd: what runs when, and what their failures come to."""

from __future__ import annotations

import pytest

from tests.node.pod_node import is_ready, sh, sleeper
from tests.node.shared import (
    LOOP,
    Notes,
    container_of,
    note,
    pod,
    restarts,
    state_of,
)
from tests.processes.node import alive

TELLS = f"trap '{note('term')}; exit 0' TERM; {note('main')}; {LOOP}"


def run(script):
    """A hook that runs a shell script in the container."""
    return {"exec": {"command": ["sh", "-c", script]}}


def get(path, port=8080, **more):
    """A hook that asks a server."""
    return {"httpGet": {"path": path, "port": port, **more}}


def hooked(notes, script=TELLS, **hooks):
    """A container with hooks."""
    return sh(script, lifecycle=hooks, **notes.mounts)


# After the start.


@pytest.mark.both_versions
def test_a_hook_after_the_start(node):
    """It runs in the container; until it ends, the container is not there yet (P-144)."""
    notes = Notes(node, "post")
    hook = run(f"until [ -e /notes/go ]; do sleep 0.1; done; {note('hook')}")
    name = node.write(pod("post", hooked(notes, postStart=hook), volumes=notes.volumes))
    notes.await_line("main")
    # What is there is shown meanwhile (P-73).
    status = node.await_status(name, "its address is shown", lambda s: s.get("podIP"))
    assert status["phase"] == "Pending" or "running" in state_of(status)
    assert not is_ready(status)
    (notes.directory / "go").touch()
    status = node.await_ready(name)
    assert "running" in state_of(status)
    assert notes.lines() == ["main", "hook"]


def test_the_next_container_waits_for_the_hook(node):
    """Containers of a pod start one after the other, each after the hook before it (P-144)."""
    notes = Notes(node, "next")
    hook = {"postStart": run(f"sleep 0.3; {note('hook')}")}
    first = sleeper("first", lifecycle=hook, **notes.mounts)
    second = sh(f"{note('second')}; {LOOP}", "second", **notes.mounts)
    name = node.write(
        pod("next", first, second, volumes=notes.volumes, terminationGracePeriodSeconds=1)
    )
    node.await_ready(name)
    assert notes.await_line("second") == ["hook", "second"]


@pytest.mark.both_versions
def test_a_hook_that_fails_after_the_start(node):
    """Its container is ended and started again, and says why (P-144)."""
    notes = Notes(node, "fails")
    hook = run("[ -e /notes/ok ] || { touch /notes/ok; echo no luck; exit 9; }")
    name = node.write(
        pod("fails", hooked(notes, postStart=hook), volumes=notes.volumes, patient=True)
    )
    event = node.await_event(name, "FailedPostStartHook")
    assert (event["type"], event["message"]) == ("Warning", "PostStartHook failed")
    status = node.await_status(name, "it is back", lambda s: restarts(s) == 1 and is_ready(s))
    assert container_of(status)["lastState"]["terminated"]["exitCode"] == 0
    killing = next(e for e in node.events(name) if e["reason"] == "Killing")
    assert killing["message"] == "FailedPostStartHook"


def test_the_reason_of_a_failed_hook(node):
    """The container waits with PostStartHookError, or in back-off from then on."""
    notes = Notes(node, "reason")
    hook = run("echo no luck; exit 9")
    name = node.write(pod("reason", hooked(notes, postStart=hook), volumes=notes.volumes))
    status = node.await_status(
        name,
        "the reason is told",
        lambda s: state_of(s).get("waiting", {}).get("reason") == "PostStartHookError",
    )
    message = state_of(status)["waiting"]["message"]
    assert "Exec lifecycle hook" in message
    assert "exited with 9" in message
    assert "no luck" in message


def test_a_hook_that_fails_in_a_pod_that_never_restarts(node):
    """The container has ended, and so has the pod."""
    notes = Notes(node, "never")
    container = hooked(notes, postStart=run("exit 9"))
    name = node.write(pod("never", container, restartPolicy="Never", volumes=notes.volumes))
    status = node.await_status(name, "it ended", lambda s: s["phase"] in {"Failed", "Succeeded"})
    assert "terminated" in state_of(status)
    assert restarts(status) == 0


def test_a_pod_that_ends_while_its_hook_runs(node):
    """A hook that does not end keeps no pod: the container is told to end all the same."""
    notes = Notes(node, "stuck")
    hook = run(f"{note('hook')}; {LOOP}")
    name = node.write(
        pod("stuck", hooked(notes, postStart=hook), volumes=notes.volumes, patient=True)
    )
    notes.await_line("hook")
    notes.await_line("main")
    node.remove("stuck")
    node.await_gone(name)
    assert sorted(notes.lines()) == ["hook", "main", "term"]


# Before the end.


@pytest.mark.both_versions
def test_a_hook_before_the_end(node):
    """It runs while the container does, and only then the container is told (P-141)."""
    notes = Notes(node, "pre")
    hook = run(f"{note('hook')}; sleep 0.3; {note('hook-done')}")
    name = node.write(pod("pre", hooked(notes, preStop=hook), volumes=notes.volumes, patient=True))
    node.await_ready(name)
    notes.await_line("main")
    node.remove("pre")
    node.await_gone(name)
    assert notes.lines() == ["main", "hook", "hook-done", "term"]


def test_a_hook_that_hangs(node):
    """It is cut off when the grace is over, which is said, and the container is ended."""
    notes = Notes(node, "hangs")
    hook = run(f"{note('hook')}; while true; do sleep 0.1; done")
    name = node.apply(
        pod(
            "hangs",
            hooked(notes, preStop=hook),
            volumes=notes.volumes,
            terminationGracePeriodSeconds=3,
        )
    )
    node.await_ready(name)
    notes.await_line("main")
    node.delete(name)
    event = node.await_event(name, "FailedPreStopHook")
    assert event["type"] == "Warning"
    node.await_gone(name)
    assert notes.lines() == ["main", "hook", "term"]


def test_the_time_of_a_hook_counts(node):
    """What it took is not there for the container: it is killed although it goes on."""
    notes = Notes(node, "counts")
    stubborn = f"trap '{note('term')}' TERM; {note('main')}; {LOOP}"
    hook = run(f"sleep 2; {note('hook')}")
    name = node.write(
        pod(
            "counts",
            hooked(notes, stubborn, preStop=hook),
            volumes=notes.volumes,
            terminationGracePeriodSeconds=4,
        )
    )
    node.await_ready(name)
    notes.await_line("main")
    pid = node.pid_of(name)
    node.remove("counts")
    node.await_gone(name)
    assert notes.lines() == ["main", "hook", "term"]
    assert not alive(pid)


def test_a_hook_that_fails_before_the_end(node):
    """It is said, and the container is ended all the same (P-143)."""
    notes = Notes(node, "bad")
    slow = f"trap 'sleep 1; {note('term')}; exit 0' TERM; {note('main')}; {LOOP}"
    name = node.write(
        pod("bad", hooked(notes, slow, preStop=run("exit 4")), volumes=notes.volumes, patient=True)
    )
    node.await_ready(name)
    notes.await_line("main")
    node.remove("bad")
    event = node.await_event(name, "FailedPreStopHook")
    assert (event["type"], event["message"]) == ("Warning", "PreStopHook failed")
    node.await_gone(name)
    assert notes.lines() == ["main", "term"]


# Hooks that ask a server, and those that only wait.


PAGES = (
    "mkdir -p /notes/www/cgi-bin; for p in post pre; do "
    "printf '#!/bin/sh\\necho %s >> /notes/lines\\necho; echo ok\\n' $p > /notes/www/cgi-bin/$p; "
    "chmod 755 /notes/www/cgi-bin/$p; done; echo > /notes/www/index.html; "
    "httpd -p 8080 -h /notes/www"
)


@pytest.mark.both_versions
def test_hooks_that_ask_a_server(node):
    """A request is sent to the pod, by a port's number or name (P-145)."""
    notes = Notes(node, "http")
    up = run("until wget -q -O /dev/null http://127.0.0.1:8080/; do sleep 0.1; done")
    stay = run("until grep pre /notes/lines; do sleep 0.1; done")
    server = sh(
        f"trap 'exit 0' TERM; {PAGES}; {LOOP}",
        "server",
        lifecycle={"postStart": up, "preStop": stay},
        **notes.mounts,
    )
    asks = hooked(notes, postStart=get("/cgi-bin/post"), preStop=get("/cgi-bin/pre", "web"))
    asks["ports"] = [{"name": "web", "containerPort": 8080}]
    name = node.write(pod("http", server, asks, volumes=notes.volumes, patient=True))
    node.await_ready(name)
    notes.await_line("main")
    node.remove("http")
    node.await_gone(name)
    lines = notes.lines()
    assert sorted(lines[:2]) == ["main", "post"]
    assert lines[2:] == ["pre", "term"]


def test_a_server_that_is_not_there(node):
    """The hook has failed: the container is ended and tried again."""
    notes = Notes(node, "deaf")
    name = node.write(pod("deaf", hooked(notes, postStart=get("/", 9)), volumes=notes.volumes))
    status = node.await_status(
        name,
        "the reason is told",
        lambda s: state_of(s).get("waiting", {}).get("reason") == "PostStartHookError",
    )
    assert "HTTP lifecycle hook (/)" in state_of(status)["waiting"]["message"]


def test_a_hook_that_waits(node):
    """The container is told after that time, and no sooner than its hook allows."""
    notes = Notes(node, "sleeps")
    count = f"trap '{note('term')}; exit 0' TERM; {note('main')}; "
    count += f"while true; do sleep 0.1; [ -e /notes/removed ] && {note('alive')}; done"
    container = hooked(notes, count, preStop={"sleep": {"seconds": 2}})
    name = node.write(pod("sleeps", container, volumes=notes.volumes, patient=True))
    node.await_ready(name)
    notes.await_line("main")
    (notes.directory / "removed").touch()
    node.remove("sleeps")
    node.await_gone(name)
    assert notes.lines()[-1] == "term"
    assert notes.lines().count("alive") >= 5
