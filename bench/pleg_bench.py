"""What pleg costs at rest, how long a full look takes, and how fast an exit is seen.

``run()`` returns the figures; run as a program it prints them. ``sim`` or ``containerd`` as an
argument measures only there.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from bench.measure import cpu_ns, directory, percentile
from kubelet.cri.client import RuntimeClient
from tests.node import pods
from tests.node.containerd import Containerd
from tests.node.fixtures import Instances
from tests.processes.node import Node, wait_for
from tests.processes.pleg_node import PROGRAM, SWITCH, Cache, Simulator

SIZES = (100, 500, 1000, 2500)
IDLE_SECONDS = 10.0
SIM_KILLS = 100
KILLS = 40
SLOW_KILLS = 20  # each takes half a second
WAYS = {"pidfd": "events", "events only": "exits", "neither": "exits,events"}


def run() -> dict[str, float]:
    """Measure everything that can be measured here."""
    return at_rest() | on_simulator() | on_containerds()


@contextmanager
def simulator(*options: str, pods: int = 0) -> Iterator[Simulator]:
    """A simulated runtime."""
    with directory() as place:
        sim = Simulator(place, *options, pods=pods)
        try:
            yield sim.start()
        finally:
            sim.stop()


@contextmanager
def kubelet(endpoint: str, without: str | None = None) -> Iterator[tuple[Node, Cache]]:
    """A kubelet on a runtime, and its cache."""
    odd = {"program": PROGRAM, "environ": {SWITCH: without or ""}}
    with directory() as place:
        node = Node(place, "n", config={"containerRuntimeEndpoint": endpoint}, **odd)
        try:
            node.start()
            cache = Cache(node)
            cache.await_full_look(seconds=60)
            yield node, cache
            cache.close()
        finally:
            node.end()


def at_rest() -> dict[str, float]:
    """Cost of looking at pods that do not change, and how long one look takes."""
    figures = {}
    for size in SIZES:
        with simulator(pods=size) as sim, kubelet(sim.endpoint) as (node, cache):
            cache.await_full_look(time.monotonic_ns())
            pid = node.pids()["pleg"]
            began, used = time.monotonic(), cpu_ns(pid)
            looks = []
            while time.monotonic() < began + IDLE_SECONDS:
                cache.await_full_look(time.monotonic_ns())
                looks.append(node.row("pleg").queues["relist_ms"])
            millicores = (cpu_ns(pid) - used) / (time.monotonic() - began) / 1e6
            figures[f"pleg at rest, {size} pods, millicores"] = round(millicores, 1)
            figures[f"full look, {size} pods, ms p50"] = percentile(looks, 0.5)
            figures[f"full look, {size} pods, ms p99"] = percentile(looks, 0.99)
    return figures


def seen_after(cache: Cache, began: float, check: Callable[[], bool]) -> float:
    """The milliseconds until the cache says so; it is read only when it has changed."""
    generation = -1
    while True:
        if cache.reader.generation != generation:
            generation = cache.reader.generation
            if check():
                return (time.monotonic() - began) * 1000
        assert time.monotonic() < began + 5, "the exit was not seen"
        time.sleep(0.0005)


def exits(
    cache: Cache, victims: list[tuple[str, str, Callable[[], None]]], pause: float
) -> list[float]:
    """Kill containers at random moments; the milliseconds until each exit is in the cache."""
    took = []
    chance = random.Random(1)
    for uid, id_, kill in victims:
        time.sleep(chance.random() * pause)  # not in step with the full look
        began = time.monotonic()
        kill()
        took.append(seen_after(cache, began, lambda u=uid, i=id_: cache.exited(u, i)))
    return took


def named(where: str, how: str, took: list[float]) -> dict[str, float]:
    """The figures of one way on one runtime."""
    head = f"exit seen, {where}, {how}, ms"
    return {
        f"{head} p50": round(percentile(took, 0.5), 1),
        f"{head} p99": round(percentile(took, 0.99), 1),
    }


def on_simulator() -> dict[str, float]:
    """From the end of a container's process to the cache, on the simulated runtime."""
    figures = {}
    for how, without in WAYS.items():
        number, pause = (SLOW_KILLS, 1.0) if how == "neither" else (SIM_KILLS, 0.1)
        with (
            simulator("--real-pids", pods=number // 2) as sim,
            kubelet(sim.endpoint, without) as (node, cache),
        ):
            settle(node, how, number)
            owners = {s["id"]: s["uid"] for s in sim.control.truth()["sandboxes"]}
            victims = [
                (owners[c["sandbox_id"]], c["id"], killer(c["pid"]))
                for c in sim.control.truth()["containers"]
            ]
            figures |= named("simulated", how, exits(cache, victims[:number], pause))
    return figures


def settle(node: Node, how: str, number: int) -> None:
    """Wait until pleg watches what it is to watch."""
    if how == "pidfd":
        wait_for("all are watched", lambda: node.row("pleg").queues.get("pidfds", 0) >= number)
    if how == "events only":
        wait_for("events", lambda: node.row("pleg").counters.get("event_connects"))
        time.sleep(0.5)  # nothing tells from outside that the stream is open


def killer(pid: int) -> Callable[[], None]:
    """What kills a process."""
    return lambda: os.kill(pid, signal.SIGKILL)


def on_containerds() -> dict[str, float]:
    """The same on real containerds, and what the runtime itself needs to report an exit."""
    figures: dict[str, float] = {}
    instances = Instances(lambda line: print(f"==> {line}", file=sys.stderr))
    try:
        for version in ("1.6", "2.4"):
            try:
                containerd = instances.get(version)
            except pytest.skip.Exception as reason:
                print(f"==> containerd {version}: {reason}", file=sys.stderr)
                continue
            figures |= on_containerd(containerd)
    finally:
        instances.close()
    return figures


def on_containerd(containerd: Containerd) -> dict[str, float]:
    """One version."""
    where = f"containerd {containerd.version}"
    figures: dict[str, float] = {}
    for how, without in WAYS.items():
        if how == "events only" and containerd.version == "1.6":
            continue
        number, pause = (SLOW_KILLS, 1.0) if how == "neither" else (KILLS, 0.3)
        made = make_pods(containerd, number)
        with kubelet(containerd.endpoint, without) as (node, cache):
            settle(node, how, number)
            pairs = asyncio.run(reports(containerd, cache, made, pause))
        figures |= named(where, how, [seen for _, seen in pairs])
        if how == "pidfd":
            own = [own for own, _ in pairs]
            figures |= named(where, "by its own word", own)
            added = percentile([seen - own for own, seen in pairs], 0.5)
            figures[f"exit seen, {where}, pidfd, ms after its own word p50"] = round(added, 1)
        containerd.reset()
    return figures


async def reports(
    containerd: Containerd, cache: Cache, made: list[pods.Pod], pause: float
) -> list[tuple[float, float]]:
    """Kill containers; the milliseconds until the runtime, and until the cache, says so.

    Both of the same exit: what the runtime needs for it differs a lot from one to the next.
    """
    chance = random.Random(1)
    async with await RuntimeClient.connect(containerd.endpoint) as client:
        found = []
        for pod in made:
            (victim,) = cache.pod(pod.uid).record.containers
            await asyncio.sleep(chance.random() * pause)
            began = time.monotonic()
            os.kill(victim.pid, signal.SIGKILL)
            own, seen = await asyncio.gather(
                said_by(client, victim.id), seen_in(cache, pod.uid, victim.id)
            )
            found.append(((own - began) * 1000, (seen - began) * 1000))
        return found


async def said_by(client: RuntimeClient, container_id: str) -> float:
    """When the runtime itself says that a container has exited."""
    await pods.wait_exited(client, container_id)
    return time.monotonic()


async def seen_in(cache: Cache, uid: str, container_id: str) -> float:
    """When the cache says that a container has exited; it is read only when it has changed."""
    generation = -1
    async with asyncio.timeout(5):
        while True:
            if cache.reader.generation != generation:
                generation = cache.reader.generation
                if cache.exited(uid, container_id):
                    return time.monotonic()
            await asyncio.sleep(0.0005)


def make_pods(containerd: Containerd, number: int) -> list[pods.Pod]:
    """Running pods, a few at a time."""

    async def main() -> list[pods.Pod]:
        turn = asyncio.Semaphore(4)

        async def one(client: RuntimeClient, name: str) -> pods.Pod:
            async with turn:
                return await pods.make_pod(client, name, cgroup_parent=containerd.cgroup_parent)

        async with await RuntimeClient.connect(containerd.endpoint) as client:
            return await asyncio.gather(*(one(client, f"p{i}") for i in range(number)))

    return asyncio.run(main())


if __name__ == "__main__":
    parts = {"rest": at_rest, "sim": on_simulator, "containerd": on_containerds}
    chosen = [parts[name] for name in sys.argv[1:]] or [run]
    for measure in chosen:
        print(json.dumps(measure(), indent=2))
