"""Pods of the API server that come, crash, finish and go while something else happens.

Each container writes down its own starts and ends, so that what is said of them can be compared
with what they did. A thread does what users do; a witness sees every state of every pod.
"""

from __future__ import annotations

import collections
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.admin import RETRY_SECONDS, SECONDS, Json, Refused, Unreachable
from tests.cluster.cluster_node import LEASES, ClusterNode
from tests.cluster.documents import config_map
from tests.cluster.witness import (
    Witness,
    changes,
    longest_gap,
    renewals,
    setbacks,
    unready,
)
from tests.node.pod_node import PAUSE, is_ready, sh
from tests.node.shared import container_of, pod, restarts
from tests.node.traffic import traces
from tests.processes.node import wait_for

PODS = 4  # that come and go at a time
CRASHES = 2  # of a container that is bound to crash
PACE = (0.05, 0.4)  # seconds between two deeds of users
PATIENCE = 150.0  # seconds that users are without an API server
STEADY = ("s0", "s1")
WORDS = "words"  # the config map
TOLD = 24  # events of one object: from the next on they are only counted (N-63)
FINISHED, CRASHES_FIRST, STAYS = "finishes", "crashes", "stays"

_SCRIPT = """
echo start >> /diary/{name}
trap 'echo end >> /diary/{name}; exit 0' TERM
{rest}
"""
_RESTS = {
    STAYS: "sleep 100000 & wait",
    FINISHED: "sleep 0.3 & wait; echo end >> /diary/{name}; exit 0",
    CRASHES_FIRST: (
        "if [ $(grep -c start /diary/{name}) -le {crashes} ]; then sleep 0.2 & wait; exit 7; fi; "
        "sleep 100000 & wait"
    ),
}


class Traffic:
    """The pods of a test's namespace."""

    def __init__(self, node: ClusterNode, seed: int = 7) -> None:
        self.node = node
        self.chance = random.Random(seed)
        self.directory = node.kubelet.disk / f"diary-{node.namespace}"
        self.directory.mkdir()
        self.kinds: dict[str, str] = {}  # name -> what it does
        self.wanted: dict[str, str] = {}  # name -> uid
        self.dropped: dict[str, str] = {}
        self.ran: set[str] = set()  # uids of those that ran until they were dropped
        self.kept: dict[str, tuple[str, int]] = {}
        self.words = ""
        self.expected: dict[str, int] = {}  # name -> restarts, where somebody else caused them
        self.forgetful = False  # the kubelet has lost its tables meanwhile
        self.slack = 0  # starts that the runtime may have given up after all
        self._made = itertools.count()
        self._said = itertools.count(1)
        self._over = threading.Event()
        self._errors: list[BaseException] = []
        admin, one = node.admin, f"metadata.name={node.name}"
        self.pods = Witness(admin, node.pods_path)
        self.nodes = Witness(admin, "/api/v1/nodes", fieldSelector=one)
        self.leases = Witness(admin, LEASES, fieldSelector=one)

    # What users do.

    def begin(self) -> None:
        """Have the pods that run all the time."""
        self.say()
        for name in STEADY:
            self._create(name, STAYS)
        for name in STEADY:
            self.node.await_pod_ready(name)
        self.kept = {name: self.identity(name) for name in STEADY}

    def identity(self, name: str) -> tuple[str, int]:
        """Which container a pod has, and how often it was started again."""
        status = self.node.pod(name)["status"]
        return container_of(status)["containerID"], restarts(status)

    def add(self, kind: str | None = None) -> str:
        """One pod more; one whose kind was said is not dropped by anybody else."""
        name = f"{'t' if kind is None else 'x'}{next(self._made)}"
        self._create(name, kind or self.chance.choice((STAYS, CRASHES_FIRST, FINISHED)))
        return name

    def drop(self, name: str) -> None:
        """One pod less, whatever it is at."""
        seen = self.pods.states.get(self.wanted[name], [])
        if self.kinds[name] == STAYS and seen and is_ready(seen[-1]["status"]):
            self.ran.add(self.wanted[name])
        self._insist(lambda: self.node.delete(name))
        self.dropped[name] = self.wanted.pop(name)

    def say(self) -> None:
        """Change the config map that pods have as a volume."""
        words = f"{next(self._said)}"
        path = f"/api/v1/namespaces/{self.node.namespace}/configmaps"

        def work() -> None:
            self.node.admin.ensure(path, config_map(WORDS, text=words))
            self.node.admin.patch(f"{path}/{WORDS}", {"data": {"text": words}})

        self._insist(work)
        self.words = words

    def move(self) -> None:
        """Do something."""
        passing = [name for name in list(self.wanted) if name.startswith("t")]
        deed = self.chance.random()
        if deed < 0.25:
            self.say()
        elif deed < 0.6 and len(passing) < PODS:
            self.add()
        elif passing and (deed > 0.8 or len(passing) >= PODS):
            self.drop(self.chance.choice(passing))

    def expect_restarts(self, name: str, number: int) -> None:
        """Take that somebody has a container of a pod end."""
        self.expected[name] = number

    @contextmanager
    def running(self, *, forgetful: bool = False, cut_off: bool = False) -> Iterator[None]:
        """Have all of it done while something else happens; then see that all of it is right.

        With ``cut_off`` syncloop may die in the middle of a start: the runtime gives that up, maybe
        after the container has written its first word, and the start is made again uncounted.
        """
        self.forgetful = forgetful
        self.slack = int(cut_off)
        with self.pods, self.nodes, self.leases:
            self.begin()
            thread = threading.Thread(target=self._run, name="traffic")
            thread.start()
            try:
                yield
            finally:
                self._over.set()
                thread.join()
            if self._errors:
                raise self._errors[0]
            self.settle()
        self.judge()

    def _run(self) -> None:
        try:
            while not self._over.wait(self.chance.uniform(*PACE)):
                self.move()
        except BaseException as err:  # noqa: BLE001 - it is raised by who waits for the end
            self._errors.append(err)

    def _insist(self, work: Callable[[], Any]) -> None:
        """Do something, over any absence of the API server."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                work()
            except (Unreachable, Refused) as err:
                passing = isinstance(err, Unreachable) or err.status >= 500 or err.status == 429
                if not passing or time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_SECONDS)
            else:
                return

    def _create(self, name: str, kind: str) -> None:
        self.kinds[name] = kind
        document = self._document(name, kind)

        def work() -> None:
            found = self.node.admin.find(self.node.pod_path(name)) or self.node.create(document)
            self.wanted[name] = found["metadata"]["uid"]

        self._insist(work)

    def _document(self, name: str, kind: str) -> Json:
        rest = _RESTS[kind].format(name=name, crashes=CRASHES)
        mounts = [{"name": "diary", "mountPath": "/diary"}, {"name": WORDS, "mountPath": "/words"}]
        volumes = [
            {"name": "diary", "hostPath": {"path": str(self.directory)}},
            {"name": WORDS, "configMap": {"name": WORDS}},
        ]
        policy = "Never" if kind == FINISHED else "Always"
        script = _SCRIPT.format(name=name, rest=rest)
        return pod(name, sh(script, volumeMounts=mounts), volumes=volumes, restartPolicy=policy)

    # What must be true when it is over.

    def lines(self, name: str) -> list[str]:
        """What the containers of a pod wrote."""
        path = self.directory / name
        return path.read_text().split() if path.exists() else []

    def starts(self, name: str) -> int:
        """How often a container of a pod was started."""
        return self.lines(name).count("start")

    def settle(self) -> None:
        """Wait until every pod is as it should be, and those that were dropped are gone whole."""
        for name in list(self.wanted):
            self._await_end_of_story(name)
        for name, uid in self.dropped.items():
            self.node.await_gone(name, uid=uid)
        kubelet = self.node.kubelet
        for uid in self.dropped.values():
            wait_for(f"{uid} is gone whole", lambda u=uid: not traces(kubelet, u), 90, PAUSE)
        for name in STEADY:
            path = self.node.volume_dir(name, "configmap", WORDS) / "text"
            wait_for(f"{name} has words", lambda p=path: p.read_text() == self.words, 60, PAUSE)

    def _await_end_of_story(self, name: str) -> None:
        if self.kinds[name] == FINISHED:
            self.node.await_phase(name, "Succeeded")
        else:
            self.node.await_pod_ready(name)
        # A shell may need a while for its first word, and nobody tells when it has said it.
        what = f"{name} has come to rest"
        try:
            wait_for(what, lambda: self._fits(name, self.node.pod(name)["status"]), SECONDS, 0.1)
        except AssertionError as err:
            status = self.node.pod(name)["status"]
            raise AssertionError(f"{err}: {self.lines(name)} {status}") from None

    def _fits(self, name: str, status: Json) -> bool:
        """Whether a status says that all has happened to a pod, and no more than has happened."""
        starts = self.starts(name)
        ended = status["phase"] == "Succeeded" if self.kinds[name] == FINISHED else is_ready(status)
        counted = restarts(status) + 1
        return ended and self._crashes(name) < starts and counted <= starts <= counted + self.slack

    def _crashes(self, name: str) -> int:
        return self.expected.get(name, CRASHES if self.kinds[name] == CRASHES_FIRST else 0)

    def judge(self) -> None:
        """See that nothing was odd on the way."""
        odd = [line for states in self.pods.states.values() for line in setbacks(states)]
        assert not odd, "\n".join(odd)
        assert self.kept == {name: self.identity(name) for name in STEADY}
        for name in self.wanted if not self.forgetful else ():
            self._judge_events_of(name)
        self._judge_all_events()
        for name, uid in self.dropped.items():
            assert uid in self.pods.gone, f"{name} is still there"
        for name in (*self.wanted, *self.dropped):
            most = 1 + self._crashes(name) + self.slack
            assert self.starts(name) <= most, (name, self.lines(name))

    def never_unready(self, seconds: float | None = None) -> None:
        """See that the node was ready all the time, and its lease renewed so often."""
        (states,) = self.nodes.states.values()
        assert unready(states) == []
        assert seconds is None or longest_gap(self.renewed()) < seconds

    def renewed(self) -> list[float]:
        """When the lease was renewed."""
        (states,) = self.leases.states.values()
        return renewals(states)

    def status_changes(self) -> int:
        """How often the status of a pod was changed."""
        return sum(changes(states) for states in self.pods.states.values())

    # Events.

    def _judge_events_of(self, name: str) -> None:
        """The API server has each event of a pod as often as the pod's own row says."""
        table = collections.Counter[tuple[str, str]]()
        for event in self.node.kubelet.events(name):
            table[event["reason"], event["message"]] += event["count"]
        if sum(table.values()) > TOLD:
            return

        def same() -> bool:
            return self.told(name) == table

        try:
            wait_for(f"all events of {name} are told", same, SECONDS, 10 * PAUSE)
        except AssertionError as err:
            raise AssertionError(f"{err}: {self.told(name)} instead of {table}") from None

    def told(self, name: str) -> collections.Counter[tuple[str, str]]:
        """What the API server was told of a pod, and how often."""
        found = collections.Counter[tuple[str, str]]()
        for event in self.node.events(name):
            if event["source"].get("component") == "kubelet":
                found[event["reason"], event["message"]] += event["count"]
        return found

    def _judge_all_events(self) -> None:
        """No event is there twice, none more often than it happened, and none is missing."""
        odd: list[Any] = []

        def right() -> bool:
            odd[:] = self._odd_events(self._all_events())
            return not odd

        try:
            wait_for("all events are told", right, SECONDS / 2, 0.5)
        except AssertionError as err:
            raise AssertionError(f"{err}: {odd}") from None
        same = collections.Counter(
            (e["involvedObject"]["uid"], e["reason"], e["message"]) for e in self._all_events()
        )
        assert self.forgetful or max(same.values()) == 1, same

    def _all_events(self) -> list[Json]:
        path = f"/api/v1/namespaces/{self.node.namespace}/events"
        found = self.node.admin.get(path)["items"]
        return [event for event in found if event["source"].get("component") == "kubelet"]

    def _odd_events(self, events: list[Json]) -> list[Any]:
        """The pods of which something is not told, or too much, and what is told of them."""
        counts = collections.Counter[tuple[str, str]]()
        for event in events:
            counts[event["involvedObject"]["name"], event["reason"]] += event["count"]
        odd = []
        for name, uid in {**self.wanted, **self.dropped}.items():
            started, starts = counts[name, "Started"], self.starts(name)
            # Who is deleted in the middle of a start may not have written anything.
            fits = starts - self.slack <= started <= starts + (name in self.dropped)
            if not fits or (uid in self.ran and counts[name, "Killing"] != 1):
                told = {reason: n for (about, reason), n in counts.items() if about == name}
                odd.append((name, self.kinds[name], name in self.dropped, starts, told))
        return odd
