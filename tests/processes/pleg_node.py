"""A kubelet on a runtime, and its pod status cache as another process sees it.

Run as a program, it is a kubelet that changes nothing, and whose pleg does without what
``PLEG_WITHOUT`` names: ``exits`` (pidfds), ``events`` (of the runtime), or both.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from kubelet.pods.cache import Seen, View
from kubelet.pods.lifecycle import events
from kubelet.pods.runtime import (
    RUNTIME_KEY,
    ContainerState,
    RuntimeRecord,
    SandboxState,
    problem,
)
from kubelet.process import Process
from shm.reader import Reader
from shm.tables import BY_NAME
from supervisor.launch import Launch
from tests.processes.node import Node, wait_for
from tests.sim.process import Sim

PROGRAM = (sys.executable, "-m", "tests.processes.pleg_node")
SWITCH = "PLEG_WITHOUT"
UID_OF = "io.kubernetes.pod.uid"
STATES = {0: "created", 1: "running", 2: "exited"}


def frame(launch: Launch) -> int:
    """The frame of every process; pleg's has another entry."""
    from kubelet.process.frame import run

    entries = {"pleg": "main", "syncloop": "idle"}
    entry = entries.get(launch.kind.name)
    if entry is None:
        return run(launch)
    return run(replace(launch, kind=replace(launch.kind, entry=f"{__package__}.pleg_node:{entry}")))


async def idle(process: Process) -> None:
    """Syncloop that lets everything be: the tests make pods that nobody wants."""
    await process.stopping.wait()


async def main(process: Process) -> None:
    """Pleg without some of its senses."""
    from procs.pleg.main import serve

    without = os.environ.get(SWITCH, "").split(",")
    await serve(process, watch_exits="exits" not in without, follow_events="events" not in without)


class Simulator(Sim):
    """A simulated runtime that holds some pods at its first start, and its truth about them."""

    def __init__(self, directory: Path, *options: str, pods: int = 0, keep: bool = False) -> None:
        """Prepare it; with ``keep`` what it holds survives a restart."""
        kept = ("--state", str(directory / "sim.json")) if keep else ()
        super().__init__(directory, "sim", *options, *kept)
        self._pods = pods

    def start(self, seconds: float = 30.0) -> Simulator:
        """Serve; the pods are made at the first start."""
        super().start(seconds)
        pods, self._pods = self._pods, 0
        if pods:
            self.control.seed_pods(pods)
        return self

    def stop(self) -> None:
        """End it at once; its state stays."""
        self.kill()

    def truth(self) -> dict[str, dict[str, str]]:
        """What the runtime holds of each pod: the state of each sandbox and container by id."""
        found = self.control.truth()
        pods: dict[str, dict[str, str]] = {}
        owners = {s["id"]: s["uid"] for s in found["sandboxes"]}
        for sandbox in found["sandboxes"]:
            state = SandboxState.NOT_READY if sandbox["state"] else SandboxState.READY
            pods.setdefault(sandbox["uid"], {})[sandbox["id"]] = state.value
        for container in found["containers"]:
            uid = owners[container["sandbox_id"]]
            pods[uid][container["id"]] = STATES.get(container["state"], "unknown")
        return pods


class Cache:
    """The pod status cache of a node, read as any other process reads it."""

    def __init__(self, node: Node) -> None:
        wait_for("the table is there", (node.run_dir / "tables" / "runtime").exists)
        self.reader = Reader.attach(node.run_dir / "tables", BY_NAME["runtime"])
        self.view = View(self.reader.get)

    def close(self) -> None:
        """Let go of the table."""
        self.reader.close()

    def runtime(self) -> RuntimeRecord:
        """What is said about the runtime; an empty record while nothing is."""
        return self.view.runtime()[0] or RuntimeRecord()

    def problem(self) -> str:
        """What is wrong with the runtime, in words."""
        return problem(self.runtime()) or ""

    def full_look_ns(self) -> int:
        """When the last full look began."""
        return self.view.runtime()[1]

    def pod(self, uid: str) -> Seen:
        """A pod."""
        return self.view.pod(uid)

    def uids(self) -> list[str]:
        """The pods in it."""
        keys = [key for key in self.reader.keys() if key != RUNTIME_KEY]  # noqa: SIM118 - a method
        return [uid for uid in keys if self.pod(uid).record is not None]

    def states(self, uid: str) -> dict[str, str]:
        """The state of each sandbox and container of a pod."""
        record = self.pod(uid).record
        if record is None:
            return {}
        found = {s.id: s.state.value for s in record.sandboxes}
        return found | {c.id: c.state.value for c in record.containers}

    def content(self) -> dict[str, dict[str, str]]:
        """The same of all pods."""
        return {uid: self.states(uid) for uid in self.uids()}

    def exited(self, uid: str, container_id: str) -> bool:
        """Whether a container is known to have exited."""
        return self.states(uid).get(container_id) == ContainerState.EXITED

    def await_full_look(self, after_ns: int = 0, seconds: float = 20.0) -> None:
        """Wait for a full look that began after a moment."""
        wait_for("a full look", lambda: self.full_look_ns() > after_ns, seconds)


class Follower:
    """A reader that keeps what it saw of each pod and adds up the events."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._last: dict[str, Seen] = {}
        self.happened: set[tuple[str, str]] = set()  # (id, type of event)
        self.holes: list[str] = []
        self.reads = 0

    def read(self, uids: set[str], steady: set[str]) -> None:
        """Look at pods; one that is steadily there and is not in the cache is a hole."""
        for uid in uids:
            seen = self._cache.pod(uid)
            before = self._last.get(uid, Seen(None, 0))
            self.reads += 1
            if uid in steady and seen.record is None:
                self.holes.append(f"{uid} is absent as of {seen.stamp_ns}")
            if seen.stamp_ns < before.stamp_ns:
                self.holes.append(f"{uid} went back from {before.stamp_ns} to {seen.stamp_ns}")
            for event in events(before.record, seen.record):
                self.happened.add((event.id, event.type.value))
            self._last[uid] = seen


if __name__ == "__main__":
    from kubelet import main as kubelet_main

    _settings = kubelet_main._settings
    kubelet_main._settings = lambda effective: replace(
        _settings(effective), frame="tests.processes.pleg_node:frame"
    )
    sys.exit(kubelet_main.main(sys.argv[1:]))
