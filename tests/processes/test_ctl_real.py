"""kubeletctl on a real tree, also when parts of it are stuck."""

from __future__ import annotations

import json
import os
import signal
import xml.etree.ElementTree as ET

import pytest

from supervisor.kinds import NAMES
from tests.processes.node import EVERYONE, Node, alive, wait_for


def test_dump_shows_threads_and_tasks_and_ends_nobody(node: Node) -> None:
    """Every process, the supervisor too, shows its stacks and goes on."""
    before = node.pids()
    for name in EVERYONE:
        done = node.ctl("dump", name)
        assert done.returncode == 0, done.stderr
        assert "most recent call first" in done.stdout
        if name != "supervisor":
            assert "asyncio tasks" in done.stdout
    assert node.pids() == before
    assert all(map(alive, before.values()))


def test_status_and_dump_work_while_every_process_is_stopped(node: Node) -> None:
    """What cannot answer is still seen: status reads tables and /proc, not the processes."""
    for pid in node.pids().values():
        os.kill(pid, signal.SIGSTOP)
    done = node.ctl("status", "-o", "json")
    assert done.returncode == 1
    problems = json.loads(done.stdout)["problems"]
    for name in NAMES:
        assert any(name in problem for problem in problems), name
    for pid in node.pids().values():
        os.kill(pid, signal.SIGCONT)


def test_status_works_with_the_api_process_dead_and_the_supervisor_stopped(node: Node) -> None:
    """Nobody is needed to answer."""
    os.kill(node.pid, signal.SIGSTOP)
    try:
        os.kill(node.pids()["api"], signal.SIGKILL)
        done = node.ctl("status", "-o", "json")
        assert done.returncode == 1
        found = json.loads(done.stdout)
        assert len(found["processes"]) == 8
        assert any("api" in problem for problem in found["problems"])
    finally:
        os.kill(node.pid, signal.SIGCONT)
    wait_for("everybody runs", node.all_running)


@pytest.mark.parametrize("kind", ["pleg", "prober"])  # with root, and without
def test_profile_makes_a_flame_graph(node: Node, kind: str) -> None:
    """A real SVG of a real process, in wall time, where even an idle one shows its loop."""
    path = node.run_dir.parent / "flame.svg"
    done = node.ctl("profile", kind, "--seconds", "0.5", "--mode", "wall", "-o", str(path))
    assert done.returncode == 0, done.stderr
    root = ET.fromstring(path.read_text())
    assert root.tag.endswith("svg")
    assert "select" in path.read_text()


def test_restart_replaces_one_process_and_no_other(node: Node) -> None:
    """The old and the new pid are told; the others keep theirs."""
    before = node.pids()
    done = node.ctl("restart", "eviction", "-o", "json")
    assert done.returncode == 0, done.stderr
    after = node.pids()
    assert after["eviction"] != before["eviction"]
    assert {n: p for n, p in after.items() if n != "eviction"} == {
        n: p for n, p in before.items() if n != "eviction"
    }
    done = node.ctl("restart", "no-such-process")
    assert done.returncode == 2
    assert "syncloop" in done.stderr


def test_events_tell_the_story_in_order(node: Node) -> None:
    """A kill, the death and the new start are there, in this order, as JSON lines."""
    os.kill(node.pids()["volumes"], signal.SIGKILL)
    wait_for("the death is noted", lambda: _told(node, "volumes: killed by SIGKILL"))
    wait_for("the new start is noted", lambda: _last_start(node) > _death(node))
    wait_for("everybody runs", node.all_running)
    done = node.ctl("events", "-o", "json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    said = [r["text"] for r in records if r["process"] == "supervisor"]
    died = next(i for i, text in enumerate(said) if text.startswith("volumes: killed by"))
    assert any(text.startswith("volumes pid ") for text in said[died + 1 :])
    times = [r["time"] for r in records]
    assert times == sorted(times)


def _last_start(node: Node) -> int:
    said = [event.text for event in node.events()]
    return max(i for i, text in enumerate(said) if text.startswith("volumes pid "))


def _death(node: Node) -> int:
    return [event.text for event in node.events()].index("volumes: killed by SIGKILL")


def _told(node: Node, text: str) -> bool:
    return any(event.text == text for event in node.events())
