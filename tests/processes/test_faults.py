"""Faults from inside: poison pods, stuck loops, memory without end, deaf processes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.frames import POD, VICTIM
from tests.processes.node import Node, alive, cgroups_of, wait_for

ODD = (sys.executable, "-m", "tests.processes.odd_kubelet")


@pytest.fixture
def odd(make_node):
    """A maker of nodes whose children run in a frame with a fault."""

    def make(frame: str, *arguments: str) -> Node:
        return make_node(*arguments, program=ODD, environ={"ODD_FRAME": frame})

    return make


def test_a_pod_that_keeps_killing_its_process_is_quarantined_and_can_be_released(odd) -> None:
    """Three deaths: reported, left alone, the node healthy but for that; release lifts it."""
    node = odd("poisoned").spawn()
    wait_for("the pod is quarantined", lambda: _quarantine(node))
    case = _quarantine(node)[0]
    assert (case["pod"], case["kind"], case["deaths"]) == (POD, VICTIM, 3)
    wait_for("everybody runs", node.all_running)
    assert node.processes()[VICTIM]["restarts"] == 3
    assert any(POD in problem for problem in node.status()["problems"])
    last = node.processes()[VICTIM]["last_exit"]
    report = (node.run_dir / last["report"]).read_text()
    assert "ZeroDivisionError: this pod is poison" in report
    assert POD in report
    assert node.ctl("release", "no-such-pod").returncode != 0
    assert node.ctl("release", POD).returncode == 0
    wait_for("it is tried again, and quarantined again", lambda: _quarantine(node))
    assert node.processes()[VICTIM]["restarts"] > 3


def _quarantine(node: Node) -> list[dict]:
    try:
        return node.state()["quarantine"]
    except FileNotFoundError:
        return []


def test_a_stuck_loop_is_ended_with_its_stack_and_the_pod_it_was_on(odd) -> None:
    """A loop in Python code: the report names the operation, the pod, and the very function."""
    node = odd("busy", "--heartbeat-timeout=500ms", "--heartbeat-interval=100ms").spawn()
    first = node.run_dir / "reports" / f"{VICTIM}-1.txt"
    wait_for("the first report is there", first.exists)
    report = first.read_text()
    assert "no heartbeat for" in report
    assert "parsing an endless answer for" in report
    assert f"pod:        {POD}" in report
    assert "in busy_main" in report
    wait_for("the pod is quarantined", lambda: _quarantine(node))
    others = {n: p["restarts"] for n, p in node.processes().items() if n != VICTIM}
    assert set(others.values()) == {0}


def test_a_process_that_takes_too_much_memory_meets_its_own_limit(odd) -> None:
    """The kernel kills it in its own group; the reason says so, and nobody else is touched."""
    node = odd("hungry").spawn()
    wait_for("the state file is there", (node.run_dir / "state.json").exists)
    if (
        wait_for("it has started", lambda: node.processes()[VICTIM]["pid"])
        and not (node.processes()[VICTIM]["cgroup"])
    ):
        pytest.skip("; ".join(node.state()["notes"]))
    wait_for(
        "it was killed for want of memory",
        lambda: "out of memory" in str(node.processes()[VICTIM]["last_exit"]),
        60,
    )
    others = {n: p["restarts"] for n, p in node.processes().items() if n != VICTIM}
    assert set(others.values()) == {0}


def test_a_stillborn_process_backs_off_and_never_takes_the_node_along(odd) -> None:
    """It is tried again and again, later and later; status says which one and why."""
    node = odd("stillborn").spawn()
    wait_for(
        "the third back-off",
        lambda: (
            (node.run_dir / "state.json").exists()
            and node.processes()[VICTIM]["restarts"] >= 4
            and node.processes()[VICTIM]["state"] == "backoff"
        ),
    )
    found = node.status()
    assert found["healthy"] is False
    assert any(VICTIM in problem for problem in found["problems"])
    assert node.ctl("status").returncode == 1
    assert re.search(r'"Process died" .*kind="prober"', node.log())
    others = {n: p["state"] for n, p in node.processes().items() if n != VICTIM}
    assert set(others.values()) == {"running"}
    assert node.stop() == 0


def test_a_second_signal_does_not_wait_for_the_deaf(odd) -> None:
    """C-18: a stop that takes long is cut short by a second signal, with exit code 1."""
    node = odd("deaf").start()
    pids = node.pids()
    node.signal(signal.SIGINT)
    node.await_notice("STOPPING=1")
    node.signal(signal.SIGINT)
    assert node.wait(5) == 1
    wait_for("no child is left", lambda: not any(map(alive, pids.values())), 2)


def test_what_a_process_started_and_left_ends_with_the_tree(make_node) -> None:
    """A helper that outlived its process keeps no group of the tree from being removed."""
    node = make_node().start()
    groups = cgroups_of(node.run_dir)
    if not groups:
        pytest.skip("no cgroup is writable here")
    left = subprocess.Popen(["sleep", "1000"])
    try:
        for group in groups:
            (Path(group) / "node" / "cgroup.procs").write_text(str(left.pid))
        node.stop()
        assert left.wait(5) == -signal.SIGKILL
    finally:
        left.kill()
        left.wait()


def test_a_deaf_process_is_killed_when_its_time_is_up(odd) -> None:
    """One signal is enough: after the kind's stop time-out it is killed, and the exit is 0."""
    node = odd("deaf").start()
    assert node.stop() == 0
    assert any(e.what == "ended" and "SIGKILL" in e.text for e in node.events())
