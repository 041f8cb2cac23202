"""Deaths under probes: prober, and all of the kubelet, die; no pod and no server notices.

Servers write down who asks them and when. Whoever dies: nobody becomes unready, nothing is
restarted, and no server is asked more often than it would have been, but for one probe of each that
may be made again because its result was lost with who had made it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.node.containerd import Containerd
from tests.node.pod_node import SECONDS, PodNode, pod_node
from tests.node.probe_load import Eyes, Load
from tests.node.stamping_server import StampingServer
from tests.node.test_pods_faults import crash, stop
from tests.processes.conftest import run_root
from tests.processes.node import alive, wait_for

__all__ = ["run_root"]

KILLS = int(os.environ.get("KUBELET_PROBER_KILLS", "15"))
PODS = int(os.environ.get("KUBELET_PROBER_PODS", "6"))
CONTAINERS = int(os.environ.get("KUBELET_PROBER_CONTAINERS", "2"))  # of each pod, two probes each


@pytest.fixture
def load(containerd24: Containerd, run_root: Path) -> Iterator[Load]:
    """A node under probes, everything ready and asked a few times."""
    with (
        StampingServer(run_root / "stamps") as server,
        pod_node(containerd24, run_root) as node,
    ):
        node.start()
        made = Load(node, server, PODS, CONTAINERS)
        made.await_ready()
        made.await_rounds()
        yield made


def test_prober_is_killed_at_random(load: Load) -> None:
    """So often, at any moment: no transition, no restart, no burst, and no probe forgotten."""
    chance, node = random.Random(11), load.node
    before, since = load.facts(), time.monotonic()
    with Eyes(node, load.names) as eyes:
        for _ in range(KILLS):
            time.sleep(chance.uniform(0, 0.7))  # the moment of the next death
            kill(node, "prober")
        load.await_rounds()
    load.judge(load.server.visits(since))
    assert eyes.unready == []
    assert load.facts() == before
    assert node.processes()["prober"]["restarts"] == KILLS
    assert not any("Unhealthy" in node.reasons(name) for name in load.names)


def test_others_die_under_probes(load: Load) -> None:
    """Who runs commands, who looks at containers, and prober with either: nothing comes of it."""
    chance, node = random.Random(12), load.node
    before, since = load.facts(), time.monotonic()
    with Eyes(node, load.names) as eyes:
        for kinds in (("syncloop",), ("pleg",), ("syncloop", "prober"), ("pleg", "prober")):
            time.sleep(chance.uniform(0, 0.5))  # the moment of the next death
            kill(node, *kinds)
        load.await_rounds()
    load.judge(load.server.visits(since))
    assert eyes.unready == []
    assert load.facts() == before
    assert not any("Unhealthy" in node.reasons(name) for name in load.names)


@pytest.mark.parametrize("down", [crash, stop])
def test_the_whole_kubelet_goes_and_comes_back(load: Load, down: Callable[[PodNode], None]) -> None:
    """With its tables, it goes on where it was: conditions are those of before."""
    node = load.node
    before, since = load.facts(), time.monotonic()
    for _ in range(2):
        down(node)
        node.start()
        with Eyes(node, load.names) as eyes:
            load.await_rounds()
        assert eyes.unready == []
    load.judge(load.server.visits(since))
    assert load.facts() == before


def kill(node: PodNode, *kinds: str) -> None:
    """Kill processes at one moment, and wait until their successors work."""
    pids = {kind: node.pids()[kind] for kind in kinds}
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    for kind, pid in pids.items():
        wait_for(f"{kind} is back", lambda k=kind, p=pid: node.beating(k, p), SECONDS)
        assert not alive(pid)
