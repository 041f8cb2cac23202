"""Side by side: the Go kubelet and ours, one after the other, in the same cluster on one runtime.

Everything is seen from outside. Pods are created through the API server and watched there; when a
container runs is read from the file that it writes; the cost is read from /proc for the kubelet and
its children. ``python -m bench.cluster_bench`` prints the table, ``... ours`` measures ours alone.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench import measure
from bench.cluster_seen import Diary, cpu_seconds, memory_mib, tree
from bench.measure import directory
from bench.pods_bench import document, written
from tests.cluster.admin import Json
from tests.cluster.cluster_node import GO, OURS, ClusterNode, cluster_node, processes_of
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.fixtures import PACKAGES, make_namespace
from tests.node.containerd import Containerd
from tests.node.fixtures import Instances, need
from tests.node.shared import container_of
from tests.tools.install import ensure, ensure_packages, say_on_stderr

SINGLES = 8
BURST = 30
STARTS = 3
IDLE_SECONDS = 30.0
SETTLE_SECONDS = 10.0  # what a burst leaves to do is done by then
NAMESPACE = "bench"

READY = "create to Ready, s"
PROCESS = "create to process, s"
CRASH = "crash to new process, s"
GONE = "delete to gone, s"
ALL_READY = f"{BURST} pods at once, all Ready, s"
ALL_GONE = f"{BURST} pods at once, all gone, s"
BURST_CPU = f"{BURST} pods at once, kubelet CPU, s"
IDLE_CPU = f"idle CPU with {BURST} pods, millicores"
MEMORY = f"PSS with {BURST} pods, MiB"
EMPTY = "PSS without pods, MiB"
START = "exec to READY, s"
FIRST = "exec to a new pod Running, s"
PROCESSES = "processes"


@dataclass(frozen=True, slots=True)
class Bar:
    """What ours may need: as many times what the Go kubelet needs, or an absolute figure."""

    limit: float
    times: bool = True

    def met(self, go: float | None, ours: float) -> bool | None:
        """Whether the figure is good enough; None without something to compare with."""
        if not self.times:
            return ours <= self.limit
        return None if go is None else ours <= self.limit * go

    @property
    def text(self) -> str:
        """The bar as it is written."""
        return f"<= {self.limit:g}{'x Go' if self.times else ''}"


BARS = {
    READY: Bar(0.6),
    CRASH: Bar(0.3),
    GONE: Bar(0.5),
    ALL_READY: Bar(0.8),
    IDLE_CPU: Bar(1.0),
    MEMORY: Bar(1.2),
    START: Bar(2.0, times=False),
    FIRST: Bar(2.5, times=False),
}
Figures = dict[str, float]


def bars() -> dict[str, measure.Bar]:
    """The bars by the names that figures have side by side."""
    return {f"{n} (x Go)" if bar.times else n: measure.Bar(bar.limit) for n, bar in BARS.items()}


def main(arguments: list[str]) -> int:
    """Measure and show; 1 if a bar was missed."""
    kinds = arguments or [GO, OURS]
    figures = compare(kinds)
    print("\n".join(table(figures)))
    return 1 if missed(figures) else 0


def run() -> Figures:
    """Every figure by name, those of the Go kubelet beside ours, and how they compare."""
    return side_by_side(compare([GO, OURS]))


def side_by_side(figures: dict[str, Figures]) -> Figures:
    """The figures of both in one list, and how they compare."""
    rows: Figures = {}
    for name, ours in figures[OURS].items():
        go = figures[GO][name]
        rows |= {name: ours, f"{name} (Go)": go, f"{name} (x Go)": ours / go}
    return rows


def compare(kinds: list[str]) -> dict[str, Figures]:
    """Measure each kubelet, one after the other."""
    return measured(kinds, Bench.figures)


def measured(kinds: list[str], find: Callable[[Bench], Figures]) -> dict[str, Figures]:
    """What is found of each kubelet, one after the other in one cluster."""
    need(ensure_packages(*PACKAGES))
    tools = need(ensure("kubernetes"))
    instances = Instances(say_on_stderr)
    try:
        containerd = instances.get("2.4")
        with control_plane(tools) as plane:
            make_namespace(plane, NAMESPACE)
            figures = {}
            for kind in kinds:
                say_on_stderr(f"measuring the {kind} kubelet: 2 to 4 minutes")
                with bench(plane, containerd, kind) as one:
                    figures[kind] = find(one)
                containerd.reset()
            return figures
    finally:
        instances.close()


@contextmanager
def bench(plane: ControlPlane, containerd: Containerd, kind: str) -> Iterator[Bench]:
    """A kubelet to be measured; nothing of it is left."""
    with directory() as root, cluster_node(plane, containerd, root, f"b-{kind}", kind=kind) as node:
        node.namespace = NAMESPACE
        node.start()
        made = Bench(node)
        try:
            yield made
        finally:
            made.seen.close()
            node.clear()


class Bench:
    """One kubelet, measured."""

    def __init__(self, node: ClusterNode) -> None:
        self.node = node
        self.files = node.kubelet.disk / "diary"
        self.files.mkdir()
        self.seen = Diary(node.admin, node.pods_path)
        self._chance = random.Random(7)

    def figures(self) -> Figures:
        """All of them."""
        self._warm()
        found = {PROCESSES: float(len(tree(self.node.kubelet.pid)))}
        found |= self._starts()
        time.sleep(SETTLE_SECONDS)
        found[EMPTY] = memory_mib(self.node.kubelet.pid)
        return found | self._singles() | self._burst()

    # Each part.

    def _warm(self) -> None:
        """What is done once in a life is done."""
        self._create("warm")
        self.seen.await_one("warm", "ready")
        self._delete("warm")
        self.seen.await_one("warm", "gone")

    def _starts(self) -> Figures:
        """From the exec until it says READY, and until a pod runs that waited for it."""
        ups, firsts = [], []
        for number in range(STARTS):
            name = f"start{number}"
            self.node.kubelet.stop()
            self._create(name)
            begun = time.monotonic()
            self.node.kubelet.start()
            ups.append(time.monotonic() - begun)
            firsts.append(self.seen.await_one(name, "running") - begun)
            self._delete(name)
            self.seen.await_one(name, "gone")
        return {START: statistics.median(ups), FIRST: statistics.median(firsts)}

    def _singles(self) -> Figures:
        """One pod after the other: made, crashed, deleted."""
        names = [f"single{number}" for number in range(SINGLES)]
        process, ready = zip(*(self._single(name) for name in names), strict=True)
        crashes = [self._crash(name) for name in names]
        gone = []
        for name in names:
            begun = time.monotonic()
            self._delete(name)
            gone.append(self.seen.await_one(name, "gone") - begun)
        return {
            PROCESS: statistics.median(process),
            READY: statistics.median(ready),
            CRASH: statistics.median(crashes),
            GONE: statistics.median(gone),
        }

    def _single(self, name: str) -> tuple[float, float]:
        time.sleep(self._chance.random())  # not in step with what happens each second
        wall, begun = time.time(), time.monotonic()
        self._create(name)
        ready = self.seen.await_one(name, "ready") - begun
        return written(self.files, name, 1) - wall, ready

    def _crash(self, name: str) -> float:
        """From the death of a container's process to its successor's first act."""
        status = self.node.pod(name)["status"]
        first = min(processes_of(container_of(status)["containerID"]))  # the others go with it
        time.sleep(self._chance.random())
        wall = time.time()
        os.kill(first, signal.SIGKILL)
        return written(self.files, name, 2) - wall

    def _burst(self) -> Figures:
        """Many pods at once: until all are ready, what they cost at rest, until all are gone."""
        root = self.node.kubelet.pid
        names = [f"burst{number}" for number in range(BURST)]
        used, begun = cpu_seconds(root), time.monotonic()
        for name in names:
            self._create(name)
        found = {ALL_READY: max(self.seen.await_all(names, "ready", 300)) - begun}
        time.sleep(SETTLE_SECONDS)
        found[BURST_CPU] = cpu_seconds(root) - used
        used, begun = cpu_seconds(root), time.monotonic()
        time.sleep(IDLE_SECONDS)
        found[IDLE_CPU] = (cpu_seconds(root) - used) / (time.monotonic() - begun) * 1000
        found[MEMORY] = memory_mib(root)
        begun = time.monotonic()
        for name in names:
            self._delete(name)
        found[ALL_GONE] = max(self.seen.await_all(names, "gone", 300)) - begun
        return found

    def _create(self, name: str) -> Json:
        made = document(name, self.files)
        return self.node.create({**made, "spec": {**made["spec"], "tolerations": TOLERATE}})

    def _delete(self, name: str) -> None:
        self.node.delete(name)


TOLERATE = [{"operator": "Exists"}]  # a node that was away for a moment is tainted for another


def table(figures: dict[str, Figures]) -> list[str]:
    """The figures as a table with bars."""
    lines = ["| figure | Go | ours | ours/Go | bar | |", "|---|---:|---:|---:|---|---|"]
    go, ours = figures.get(GO, {}), figures.get(OURS, {})
    for name in go | ours:
        bar = BARS.get(name)
        ratio = f"{ours[name] / go[name]:.2f}" if name in go and name in ours else ""
        word = {True: "met", False: "**missed**", None: ""}[_verdict(name, figures)]
        cells = (name, _number(go.get(name)), _number(ours.get(name)), ratio)
        lines.append(f"| {' | '.join(cells)} | {bar.text if bar else ''} | {word} |")
    return lines


def missed(figures: dict[str, Figures]) -> list[str]:
    """The figures that are not good enough."""
    return [name for name in BARS if _verdict(name, figures) is False]


def _verdict(name: str, figures: dict[str, Figures]) -> bool | None:
    ours = figures.get(OURS, {}).get(name)
    if ours is None or name not in BARS:
        return None
    return BARS[name].met(figures.get(GO, {}).get(name), ours)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
