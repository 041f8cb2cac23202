"""The whole tree: memory, idle CPU, time to READY, time to be back, ``kubeletctl status``."""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.measure import cpu_ns, directory, percentile
from supervisor.kinds import EVERYONE, NAMES
from tests.processes.node import Node, wait_for

STARTS = 5
KILLS = 60
IDLE_SECONDS = 20.0
STATUS_RUNS = 20


def run() -> dict[str, float]:
    """Every figure by name."""
    with directory() as root:
        figures = {"exec to READY, s (median)": statistics.median(_starts(root))}
        node = Node(root, "n").start()
        try:
            figures |= _memory(node) | _idle(node) | _status(node) | _kills(node)
        finally:
            node.end()
    return figures


def _starts(root: Path) -> list[float]:
    took = []
    for number in range(STARTS):
        node = Node(root, f"s{number}")
        begun = time.monotonic()
        node.start()
        took.append(time.monotonic() - begun)
        node.end()
    return took


def _pids(node: Node) -> dict[str, int]:
    return {"supervisor": node.pid, **node.pids()}


def _pss(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _memory(node: Node) -> dict[str, float]:
    time.sleep(5)  # what a start leaves behind is given back within seconds; this is the idle state
    each = {name: _pss(pid) for name, pid in _pids(node).items()}
    figures = {"PSS of the tree, MiB": sum(each.values())}
    return figures | {f"PSS of {name}, MiB": each[name] for name in EVERYONE}


def _tree_cpu(node: Node) -> float:
    return sum(cpu_ns(pid) for pid in _pids(node).values()) / 1e9


def _idle(node: Node) -> dict[str, float]:
    before, begun = _tree_cpu(node), time.monotonic()
    time.sleep(IDLE_SECONDS)
    used = (_tree_cpu(node) - before) / (time.monotonic() - begun)
    return {"idle CPU of the tree, millicores": used * 1000}


def _status(node: Node) -> dict[str, float]:
    script = str(Path(sys.executable).with_name("kubeletctl"))
    took = []
    for _ in range(STATUS_RUNS):
        begun = time.monotonic()
        subprocess.run(
            [script, "--run-dir", str(node.run_dir), "status"], check=True, capture_output=True
        )
        took.append(time.monotonic() - begun)
    return {"kubeletctl status, s (median)": statistics.median(took)}


def _kills(node: Node) -> dict[str, float]:
    chance = random.Random(11)
    took = []
    for _ in range(KILLS):
        victim = chance.choice(NAMES)
        pid = node.pids()[victim]
        begun = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        wait_for(f"{victim} is back", lambda v=victim, p=pid: node.beating(v, p))
        took.append(time.monotonic() - begun)
        wait_for("the supervisor has seen it", node.all_running)
        time.sleep(0.15)  # kills closer than the restart spacing would measure the spacing
    return {
        "killed process back, ms p50": statistics.median(took) * 1000,
        "killed process back, ms p99": percentile(took, 0.99) * 1000,
    }
