"""A prober on real tables, with the tables of syncloop beside it and handlers that do as told."""

from __future__ import annotations

import asyncio
import functools
import json
from collections import Counter

from kubelet import times
from kubelet.api.container import Container
from kubelet.api.handlers import HTTPGetAction, Probe
from kubelet.api.meta import ObjectMeta
from kubelet.api.pod import Pod, PodSpec
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.pods.probes import PROBES, PROBING, ProbesRow, ProbingRow
from kubelet.pods.rows import PODS, STATUS, PodRow, StatusRow, document_of
from kubelet.process.tables import Tables
from procs.prober.clock import Clock
from procs.prober.job import Outcome, Result
from procs.prober.manager import Prober

SECOND = 10**9
UID = "6a3f7d0e-0d5b-4f4f-9a53-1d1f5a3c9b10"
WALL = 1_900_000_000 * SECOND  # a moment to begin at

OK = Outcome(Result.SUCCESS)
BAD = Outcome(Result.FAILURE, "connection refused")


def story(test):
    """Run a test in a loop of its own."""

    @functools.wraps(test)
    def run(*args, **fixtures):
        asyncio.run(test(*args, **fixtures))

    return run


def http(**fields):
    """A probe over HTTP; its numbers are as given."""
    return Probe(http_get=HTTPGetAction(path="/", port=80), **fields)


def pod_of(*containers, uid=UID, sidecars=(), name="web", **meta):
    """A pod with these containers."""
    return Pod(
        metadata=ObjectMeta(name=name, namespace="shop", uid=uid, **meta),
        spec=PodSpec(containers=containers, init_containers=sidecars),
    )


def container_of(name="c", restart_policy="", **probes):
    """A container with these probes: ``liveness=``, ``readiness=``, ``startup=``."""
    found = {f"{kind}_probe": probe for kind, probe in probes.items()}
    return Container(name=name, restart_policy=restart_policy, **found)


def running(name="c", id_="id-1", *, at=WALL, ready=False, started=False):
    """What a status says of a container that runs."""
    return {
        "name": name,
        "containerID": f"containerd://{id_}",
        "state": {"running": {"startedAt": times.to_text(at)}},
        "ready": ready,
        "started": started,
    }


def stopped(name="c", id_="id-1"):
    """What a status says of a container that has ended."""
    found = {"name": name, "containerID": f"containerd://{id_}", "ready": False, "started": False}
    return {**found, "state": {"terminated": {"exitCode": 1}}}


def status_of(*containers, sidecars=(), **more):
    """The document of a status."""
    document = {
        "podIP": "10.1.2.3",
        "containerStatuses": list(containers),
        "initContainerStatuses": list(sidecars),
        **more,
    }
    return json.dumps(document).encode()


class Channels:
    """Keeps what is said."""

    def __init__(self):
        self.published = []  # (table, key)
        self.asked = []
        self.answers = []  # errors to raise first

    def publish(self, table, key, _generation):
        """Keep a hint."""
        self.published.append((table, key))

    async def ask(self, kind, message, timeout=5.0):  # noqa: ASYNC109 - as the real one
        """Keep a request."""
        assert kind == "syncloop"
        assert timeout > 0
        if self.answers:
            raise self.answers.pop(0)
        self.asked.append(message)


class Board:
    """The counters and depths."""

    def __init__(self):
        self.counters = Counter()
        self.depths = {}

    def count(self, name, n=1):
        """Count."""
        assert len(name) <= 31
        self.counters[name] += n

    def depth(self, name, n):
        """Keep a depth."""
        self.depths[name] = n


class Process:
    """The prober's process: real tables, no sockets."""

    def __init__(self, root, quarantined=()):
        self.tables = Tables(root, "prober")
        self.quarantined = frozenset(quarantined)
        self.row = Board()
        self.channels = Channels()
        self.tasks = set()
        self.broken = []
        self.listeners = []

    def spawn(self, work, name):
        """Run something beside."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task):
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.broken.append(task.exception())

    def on_hint(self, callback):
        """Have hints passed on."""
        self.listeners.append(callback)


class Times:
    """A clock that is turned by hand, with its alarms."""

    def __init__(self):
        self.now = self.base = 5_000 * SECOND
        self.alarms = []

    def mono(self):
        """Monotonic nanoseconds."""
        return self.now

    def wall(self):
        """The wall clock."""
        return WALL + self.now - self.base

    def later(self, seconds, ring):
        """Have an alarm ring."""
        alarm = Alarm(self, self.now + round(seconds * SECOND), ring)
        self.alarms.append(alarm)
        return alarm

    def next(self, end):
        """The alarm that is the next to ring until then."""
        return min((a for a in self.alarms if a.at <= end), key=lambda a: a.at, default=None)


class Alarm:
    """One alarm."""

    def __init__(self, times_, at, ring):
        self.times = times_
        self.at = at
        self.ring = ring

    def cancel(self):
        """Have it not ring."""
        if self in self.times.alarms:
            self.times.alarms.remove(self)


class Scene:
    """A prober and what it sees; ``async with Scene(tmp_path) as scene``."""

    def __init__(self, root, quarantined=()):
        self.root = root
        self.quarantined = quarantined
        self.syncloop = Tables(root, "syncloop")
        self.times = Times()
        self.results = {}  # kind -> Outcome, ProbeError, or a future to wait for
        self.begun = []  # (kind, moment since the start of the scene)
        self.versions = Counter()
        self.prober = None

    async def __aenter__(self):
        self.start()
        return self

    async def __aexit__(self, *_error):
        await self.kill()
        self.syncloop.close()

    def start(self):
        """Start the process."""
        self.process = Process(self.root, self.quarantined)
        names = ("exec", "http_get", "tcp_socket", "grpc")
        handlers = dict.fromkeys(names, self.handle)
        clock = Clock(self.times.mono, self.times.wall, self.times.later)
        self.prober = Prober(self.process, handlers, clock)
        self.prober.start()

    async def kill(self):
        """End the process as a SIGKILL does: nothing more is written."""
        self.prober.close()
        tasks = list(self.process.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.process.tables.close()
        assert not self.process.broken

    async def restart(self, after=0.0):
        """Kill the process, and start another some seconds later."""
        await self.kill()
        self.times.now += int(after * SECOND)
        self.start()

    async def handle(self, job):
        """Make a probe: as ``results`` say."""
        self.begun.append((job.kind.value, (self.times.now - self.times.base) / SECOND))
        found = self.results.get(job.kind.value, OK)
        if isinstance(found, asyncio.Future):
            found = await asyncio.shield(found)
        if isinstance(found, Exception):
            raise found
        return found

    # What syncloop writes.

    def put_pod(self, pod, **fields):
        """Write a pod's row."""
        uid = pod.metadata.uid
        row = PodRow(uid, pod.metadata.name, "shop", "api", document=document_of(pod), **fields)
        self.syncloop.put(PODS, uid, row.to_wire())
        self.hint(PODS, uid)

    def put_status(self, *containers, uid=UID, sidecars=(), hooked=(), **more):
        """Write a pod's status."""
        self.versions[uid] += 1
        data = status_of(*containers, sidecars=sidecars, **more)
        row = StatusRow(uid, "web", "shop", self.versions[uid], data, hooked=hooked)
        self.syncloop.put(STATUS, uid, row.to_wire())
        self.hint(STATUS, uid)

    def delete(self, table, uid=UID):
        """Take a row away."""
        self.syncloop.writers[table].delete(uid)
        self.hint(table, uid)

    def hint(self, table, key=ANY_KEY):
        """Pass a hint on."""
        for listener in self.process.listeners:
            listener(Hint(table, key, 0))

    # Time.

    async def settle(self):
        """Let everything happen that does not wait for time."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def run(self, seconds):
        """Let time pass: the timer rings as it should."""
        await self.settle()
        end = self.times.now + round(seconds * SECOND)
        while (alarm := self.times.next(end)) is not None:
            self.times.now = max(self.times.now, alarm.at)
            alarm.cancel()
            alarm.ring()
            await self.settle()
        self.times.now = end

    async def stall(self, seconds):
        """Let time pass in which this process does not run."""
        await self.settle()
        self.times.now += round(seconds * SECOND)

    def clear(self):
        """Forget which probes were begun."""
        self.begun.clear()

    # What is in the prober's tables.

    def verdicts(self, id_="id-1"):
        """The verdicts on a container, by kind; None without a row."""
        value = self.process.tables.value(PROBES, id_)
        if value is None:
            return None
        return {k: f.verdict.value for k, f in ProbesRow.from_wire(value).found.items()}

    def tracks(self, id_="id-1"):
        """How far the probes of a container are, by kind."""
        value = self.process.tables.value(PROBING, id_)
        return None if value is None else ProbingRow.from_wire(value).tracks

    def told(self):
        """The containers of which news was told."""
        return [key for table, key in self.process.channels.published if table == PROBES]
