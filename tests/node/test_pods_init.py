"""Init, sidecar and ephemeral containers on a real containerd, and rules on how containers end."""

from __future__ import annotations

import os
import signal

import pytest

from tests.node.pod_node import is_ready, sh, sleeper
from tests.node.shared import (
    LOOP,
    Notes,
    condition,
    container_of,
    note,
    pod,
    restarts,
    running,
    state_of,
)
from tests.processes.node import alive


def sidecar(name, **more):
    """An init container that runs beside what follows it; it says when it begins and ends."""
    ends = f"trap '{note(f'end-{name}')}; exit 0' TERM"
    return sh(f"{ends}; {note(name)}; {LOOP}", name, restartPolicy="Always", **more)


# Init containers.


@pytest.mark.both_versions
def test_the_order_of_init_containers(node):
    """One after the other in the order of the spec, then the others (P-75)."""
    notes = Notes(node, "order")
    inits = [sh(f"{note(n)}; sleep 0.2; {note(f'{n}-done')}", n, **notes.mounts) for n in "zab"]
    main = sh(f"{note('main')}; {sleeper()['command'][2]}", **notes.mounts)
    name = node.write(pod("order", main, initContainers=inits, volumes=notes.volumes))
    status = node.await_ready(name)
    assert notes.lines() == ["z", "z-done", "a", "a-done", "b", "b-done", "main"]
    assert [c["name"] for c in status["initContainerStatuses"]] == ["z", "a", "b"]
    ends = [c["state"]["terminated"]["reason"] for c in status["initContainerStatuses"]]
    assert ends == ["Completed"] * 3
    assert condition(status, "Initialized")[0] == "True"
    assert node.reasons(name).count("Started") <= 4


def test_a_pod_waits_for_its_init_containers(node):
    """Meanwhile it is Pending, and its containers say what they wait for (P-100, P-111)."""
    notes = Notes(node, "waits")
    init = sh("until [ -e /notes/go ]; do sleep 0.1; done", "init", **notes.mounts)
    name = node.write(pod("waits", initContainers=[init], volumes=notes.volumes))
    status = node.await_status(name, "init runs", running("init"))
    assert status["phase"] == "Pending"
    assert state_of(status)["waiting"]["reason"] == "PodInitializing"
    assert condition(status, "Initialized") == ("False", "ContainersNotInitialized")
    (notes.directory / "go").touch()
    node.await_ready(name)


def test_an_init_container_that_fails_for_good(node):
    """With Never the pod has failed, and what comes later never ran (P-77, P-110)."""
    notes = Notes(node, "fails")
    inits = [sh("exit 5", "bad"), sh(note("next"), "next", **notes.mounts)]
    main = sh(note("main"), **notes.mounts)
    name = node.write(
        pod("fails", main, initContainers=inits, restartPolicy="Never", volumes=notes.volumes)
    )
    status = node.await_phase(name, "Failed")
    assert state_of(status, "bad")["terminated"]["exitCode"] == 5
    assert state_of(status, "next")["waiting"]["reason"] == "PodInitializing"
    assert state_of(status)["waiting"]["reason"] == "PodInitializing"
    assert condition(status, "Initialized") == ("False", "ContainersNotInitialized")
    assert notes.lines() == []


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_an_init_container_that_is_tried_again(node, policy):
    """Until it succeeds; then the pod goes on, and the tries are counted."""
    notes = Notes(node, f"tried-{policy}")
    script = f"{note('try')}; [ $(wc -l < /notes/lines) -ge 3 ]"
    name = node.write(
        pod(
            "tried",
            initContainers=[sh(script, "init", **notes.mounts)],
            restartPolicy=policy,
            volumes=notes.volumes,
        )
    )
    node.await_status(
        name,
        "it is in back-off",
        lambda s: state_of(s, "init").get("waiting", {}).get("reason") == "CrashLoopBackOff",
    )
    status = node.await_ready(name)
    assert restarts(status, "init") == 2
    assert state_of(status, "init")["terminated"]["exitCode"] == 0
    assert notes.lines() == ["try"] * 3


def test_init_containers_do_not_run_again_for_a_restart(node):
    """Only a new sandbox is a new beginning for them (P-72, P-76)."""
    notes = Notes(node, "once")
    init = sh(note("init"), "init", **notes.mounts)
    name = node.write(pod("once", initContainers=[init], volumes=notes.volumes))
    node.await_ready(name)
    os.kill(node.pid_of(name), signal.SIGKILL)
    node.await_status(name, "it is back", lambda s: restarts(s) == 1 and is_ready(s))
    assert notes.lines() == ["init"]


def test_a_new_sandbox_is_a_new_beginning(node):
    """When the sandbox dies, init containers run again before the others (P-72)."""
    notes = Notes(node, "anew")
    init = sh(note("init"), "init", **notes.mounts)
    main = sh(f"{note('main')}; {sleeper()['command'][2]}", **notes.mounts)
    name = node.write(pod("anew", main, initContainers=[init], volumes=notes.volumes))
    node.await_ready(name)
    notes.await_line("main")
    os.kill(node.sandbox_pid(name), signal.SIGKILL)
    node.await_status(name, "it is back", lambda s: restarts(s) == 1 and is_ready(s))
    assert notes.await_line("main", times=2) == ["init", "main", "init", "main"]


def test_a_pod_that_ends_while_it_begins(node):
    """A pod that is removed while an init container runs never gets to the others."""
    notes = Notes(node, "early")
    init = sh(f"{note('init')}; {LOOP}", "init", **notes.mounts)
    main = sh(note("main"), **notes.mounts)
    name = node.write(pod("early", main, initContainers=[init], volumes=notes.volumes))
    notes.await_line("init")
    node.remove("early")
    node.await_gone(name)
    assert notes.lines() == ["init"]


# Sidecars.


@pytest.mark.both_versions
def test_a_sidecar_comes_before_what_follows_it(node):
    """It runs when the next init container starts, and goes on beside the others (P-75)."""
    notes = Notes(node, "beside")
    see = sh("cat /notes/lines; " + note("init"), "init", **notes.mounts)
    main = sh(f"{note('main')}; {sleeper()['command'][2]}", **notes.mounts)
    inits = [sidecar("side", **notes.mounts), see]
    name = node.write(pod("beside", main, initContainers=inits, volumes=notes.volumes))
    status = node.await_ready(name)
    lines = notes.await_line("main")
    assert set(lines) == {"side", "init", "main"}
    assert lines.index("init") < lines.index("main")
    side = container_of(status, "side")
    assert (side["started"], side["ready"]) == (True, True)
    assert "running" in side["state"]


@pytest.mark.both_versions
def test_the_order_in_which_sidecars_end(node):
    """The others first, then sidecars from the last to the first (P-140)."""
    notes = Notes(node, "ends")
    ends = f"trap 'sleep 0.3; {note('end-main')}; exit 0' TERM; {note('main')}; {LOOP}"
    inits = [sidecar(n, **notes.mounts) for n in ("one", "two", "three")]
    name = node.write(
        pod(
            "ends",
            sh(ends, **notes.mounts),
            initContainers=inits,
            volumes=notes.volumes,
            patient=True,
        )
    )
    node.await_ready(name)
    notes.await_line("main")
    node.remove("ends")
    node.await_gone(name)
    assert notes.lines()[-4:] == ["end-main", "end-three", "end-two", "end-one"]


def test_a_sidecar_that_dies_comes_back(node):
    """Also in a pod whose other containers are never started again (P-76)."""
    notes = Notes(node, "back")
    name = node.write(
        pod(
            "back",
            initContainers=[sidecar("side", **notes.mounts)],
            restartPolicy="Never",
            volumes=notes.volumes,
        )
    )
    node.await_ready(name)
    main = node.pid_of(name)
    os.kill(node.pid_of(name, "side"), signal.SIGKILL)
    status = node.await_status(
        name, "it is back", lambda s: restarts(s, "side") == 1 and is_ready(s)
    )
    assert restarts(status) == 0
    assert alive(main)


def test_a_sidecar_keeps_no_pod_alive(node):
    """A pod whose work is done ends; the sidecar is told to, and the pod has succeeded (P-76)."""
    notes = Notes(node, "work")
    name = node.write(
        pod(
            "work",
            sh("until grep side /notes/lines; do sleep 0.1; done", **notes.mounts),
            initContainers=[sidecar("side", **notes.mounts)],
            restartPolicy="Never",
            volumes=notes.volumes,
            patient=True,
        )
    )
    status = node.await_phase(name, "Succeeded")
    assert state_of(status, "side")["terminated"]["exitCode"] == 0
    assert notes.lines() == ["side", "end-side"]


# Ephemeral containers.


@pytest.mark.both_versions
def test_an_ephemeral_container(node):
    """It is started in a pod that runs, sees its target's processes, and runs once (P-74)."""
    name = node.apply(pod("debug"))
    node.await_ready(name)
    main = node.pid_of(name)
    debugger = sleeper("debugger", targetContainerName="c")
    node.apply(pod("debug", ephemeralContainers=[debugger]))
    status = node.await_status(name, "the debugger runs", running("debugger"))
    pid = node.pid_of(name, "debugger")
    assert os.readlink(f"/proc/{pid}/ns/pid") == os.readlink(f"/proc/{main}/ns/pid")
    assert restarts(status) == 0
    os.kill(pid, signal.SIGKILL)
    status = node.await_status(name, "it ended", lambda s: "terminated" in state_of(s, "debugger"))
    assert is_ready(status)
    node.await_settled()
    assert restarts(node.status(name), "debugger") == 0
    assert alive(main)


# Rules on how containers end (P-80, P-81).


def rules(action, *codes):
    """Rules with one entry for some exit codes."""
    when = {"operator": "In", "values": list(codes)}
    return {
        "restartPolicy": "Never",
        "restartPolicyRules": [{"action": action, "exitCodes": when}],
    }


def test_a_rule_for_an_exit_code(node):
    """What ends with that code is started again although its policy says Never; others are not."""
    notes = Notes(node, "rule")
    script = f"{note('run')}; [ $(wc -l < /notes/lines) -ge 2 ] && exit 3; exit 42"
    container = sh(script, **notes.mounts, **rules("Restart", 42))
    name = node.write(pod("rule", container, restartPolicy="Never", volumes=notes.volumes))
    status = node.await_phase(name, "Failed")
    assert restarts(status) == 1
    assert state_of(status)["terminated"]["exitCode"] == 3
    assert container_of(status)["lastState"]["terminated"]["exitCode"] == 42


def test_a_rule_that_restarts_all_containers(node):
    """All of them end and the pod begins anew, init containers first, in the same sandbox."""
    notes = Notes(node, "all")
    init = sh(note("init"), "init", **notes.mounts)
    script = "[ -e /notes/twice ] || { until [ -e /notes/go ]; do sleep 0.1; done; "
    script += f"touch /notes/twice; exit 88; }}; {note('again')}; {sleeper()['command'][2]}"
    trigger = sh(script, "trigger", **notes.mounts, **rules("RestartAllContainers", 88))
    name = node.write(
        pod(
            "all",
            sh(f"trap '' TERM; {LOOP}"),
            trigger,
            initContainers=[init],
            volumes=notes.volumes,
        )
    )
    node.await_ready(name)
    other, box = node.pid_of(name), node.record(name).sandboxes[0].id
    (notes.directory / "go").touch()
    node.await_status(
        name, "it says so", lambda s: condition(s, "AllContainersRestarting")[0] == "True"
    )
    notes.await_line("again")
    status = node.await_status(name, "all are back", lambda s: restarts(s) == 1 and is_ready(s))
    assert notes.lines() == ["init", "init", "again"]
    assert [restarts(status, n) for n in ("init", "c", "trigger")] == [1, 1, 1]
    ended = container_of(status)["lastState"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("RestartingAllContainers", 137)
    assert not alive(other)
    assert node.record(name).sandboxes[0].id == box
    assert condition(status, "AllContainersRestarting")[0] == "False"
    log = node.logs / f"default_{name}_{node.uid(name)}" / "trigger" / "0.log"
    assert log.exists()
