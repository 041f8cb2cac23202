"""Probes: what one costs beside the Go kubelet, and how they keep time when there are a thousand.

``python -m bench.probes_bench`` measures everything. With ``cost``: the same pods on both kubelets,
without and with two probes a second each; the difference is what probes cost. With ``load``: ours
alone, a thousand probes a second, their moments as the server that is asked saw them. With
``stress``: ours alone, fifty containers with a liveness probe each second, none to be restarted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from bench.cluster_bench import TOLERATE, Bench, Figures, measured, side_by_side
from bench.cluster_seen import cpu_seconds
from bench.measure import Bar, cpu_ns, directory, percentile
from tests.cluster.cluster_node import GO, OURS
from tests.node.containerd import Containerd
from tests.node.fixtures import Instances
from tests.node.pod_node import Document, PodNode, pod, pod_node, sh
from tests.node.probe_load import KINDS, Load
from tests.node.shared import container_of
from tests.node.stamping_server import StampingServer
from tests.tools.install import say_on_stderr

PODS = 30
COST_SECONDS = 30.0
SETTLE_SECONDS = 8.0  # until starts are over
PORT = 8080
WEB = f"mkdir -p /tmp/w; echo ok > /tmp/w/index.html; exec httpd -f -p {PORT} -h /tmp/w"
SOON = {"terminationGracePeriodSeconds": 1}  # it is gone before the next ones are measured
HANDLERS: dict[str, Document] = {
    "HTTP": {"httpGet": {"path": "/", "port": PORT}},
    "TCP": {"tcpSocket": {"port": PORT}},
    "exec": {"exec": {"command": ["true"]}},
}

LOAD_PODS, LOAD_CONTAINERS = 25, 20  # two probes a second each: a thousand
LOAD_SECONDS = 60.0
PHASE_SECONDS = 12.0  # until each probe is at its own place in the second

STRESS_PODS, STRESS_CONTAINERS = 10, 5
STRESS_SECONDS = 120.0


def bars() -> dict[str, Bar]:
    """What figures must be."""
    return {
        **{f"{name} probe, CPU ms (x Go)": Bar(1.0) for name in HANDLERS},
        "1,000 a second: ms late at the server, p99": Bar(100),
        "1,000 a second: false failures": Bar(0),
        "50 containers, liveness each second, 120 s: restarts": Bar(0),
    }


def main(arguments: list[str]) -> int:
    """Measure what is named, and show it."""
    parts: dict[str, Callable[[], Figures]] = {"cost": cost, "load": load, "stress": stress}
    for name in arguments or list(parts):
        for figure, value in parts[name]().items():
            print(f"{figure}: {value:.4g}", flush=True)
    return 0


def run() -> Figures:
    """Every figure by name."""
    return cost() | load() | stress()


# What a probe costs.


def cost() -> Figures:
    """CPU of the whole kubelet for one probe, ours beside Go's."""
    return side_by_side(measured([GO, OURS], costs))


def costs(bench: Bench) -> Figures:
    """CPU of one kubelet for one probe of each type, in milliseconds."""
    plain = _spent(bench, "none", {})
    found: Figures = {}
    for name, handler in HANDLERS.items():
        say_on_stderr(f"{PODS} pods with {name} probes")
        probed = _spent(bench, name.lower(), handler)
        found[f"{name} probe, CPU ms"] = (probed - plain) / (len(KINDS) * PODS) * 1000
    return found


def _spent(bench: Bench, prefix: str, handler: Document) -> float:
    """CPU seconds a second with these probes."""
    names = [f"{prefix}{number}" for number in range(PODS)]
    every = {"periodSeconds": 1, "timeoutSeconds": 1}
    probes = {kind: {**handler, **every} for kind in KINDS} if handler else {}
    for name in names:
        bench.node.create(pod(name, sh(WEB, **probes), tolerations=TOLERATE, **SOON))
    bench.seen.await_all(names, "ready", 300)
    time.sleep(SETTLE_SECONDS)
    root = bench.node.kubelet.pid
    used, begun = cpu_seconds(root), time.monotonic()
    time.sleep(COST_SECONDS)
    spent = (cpu_seconds(root) - used) / (time.monotonic() - begun)
    restarts = [container_of(bench.node.pod(n)["status"])["restartCount"] for n in names]
    assert not any(restarts), restarts
    for name in names:
        bench.node.delete(name)
    bench.seen.await_all(names, "gone", 300)
    return spent


# How probes keep time.


def load() -> Figures:
    """A thousand probes a second."""
    return _on_containerd(_load)


def _load(node: PodNode) -> Figures:
    with StampingServer(node.disk / "stamps") as server:
        made = Load(node, server, LOAD_PODS, LOAD_CONTAINERS)
        say_on_stderr(f"{LOAD_PODS * LOAD_CONTAINERS} containers")
        made.await_ready()
        time.sleep(PHASE_SECONDS)
        before, since, used = _counted(node), time.monotonic(), _prober_ns(node)
        time.sleep(LOAD_SECONDS)
        seconds, spent = time.monotonic() - since, _prober_ns(node) - used
        counted = {name: n - before.get(name, 0) for name, n in _counted(node).items()}
        late = [1000 * moment for moment in server.visits(since).lateness()]
    begun = counted["probes_begun"]
    slow = counted.get("probes_late_100ms", 0) + counted.get("probes_late_1s", 0)
    return {
        "1,000 a second: probes made a second": begun / seconds,
        "1,000 a second: ms late at the server, p50": percentile(late, 0.5),
        "1,000 a second: ms late at the server, p99": percentile(late, 0.99),
        "1,000 a second: ms late at the server, most": max(late),
        "1,000 a second: begun 100 ms late or more": slow,
        "1,000 a second: false failures": counted.get("probes_failed", 0),
        "1,000 a second: could not be made": counted.get("probes_unknown", 0),
        "1,000 a second: CPU of prober, ms a probe": spent / begun / 1e6,
    }


def stress() -> Figures:
    """Fifty containers that are asked each second whether they live."""
    return _on_containerd(_stress)


def _stress(node: PodNode) -> Figures:
    names = [node.write(_stressed(number)) for number in range(STRESS_PODS)]
    for name in names:
        node.await_ready(name)
    time.sleep(STRESS_SECONDS)
    statuses = node.statuses()
    restarts = [c["restartCount"] for name in names for c in statuses[name]["containerStatuses"]]
    assert len(restarts) == STRESS_PODS * STRESS_CONTAINERS
    unhealthy = sum("Unhealthy" in node.reasons(name) for name in names)
    return {
        "50 containers, liveness each second, 120 s: restarts": float(sum(restarts)),
        "50 containers, liveness each second, 120 s: unhealthy": float(unhealthy),
    }


def _stressed(number: int) -> Document:
    """A pod whose containers are asked by HTTP, TCP and commands."""
    containers = []
    for index in range(STRESS_CONTAINERS):
        port = PORT + index
        handlers: list[Document] = [
            {"httpGet": {"path": "/", "port": port}},
            {"tcpSocket": {"port": port}},
            {"exec": {"command": ["true"]}},
        ]
        probe = {**handlers[index % 3], "periodSeconds": 1, "failureThreshold": 1}
        script = WEB.replace(str(PORT), str(port))
        delay = {"initialDelaySeconds": 1}  # the server is to be there by then
        containers.append(sh(script, f"c{index}", livenessProbe=probe | delay))
    return pod(f"stress{number}", *containers)


def _on_containerd(measure: Callable[[PodNode], Figures]) -> Figures:
    instances = Instances(say_on_stderr)
    try:
        containerd: Containerd = instances.get("2.4")
        with directory() as place, pod_node(containerd, place) as node:
            node.start()
            return measure(node)
    finally:
        instances.close()


def _counted(node: PodNode) -> dict[str, int]:
    row = node.row("prober")
    assert row is not None
    return dict(row.counters)


def _prober_ns(node: PodNode) -> int:
    return cpu_ns(node.pids()["prober"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
