"""What an administrator sees who never looks away: every state of objects, and what is odd in it.

A watch is resumed where it ended, also over a restart of the API server; what is lost with its
cache is only that much less to be judged.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Self

from tests.cluster.admin import RETRY_SECONDS, Admin, Json, Refused, Unreachable

LOOK_SECONDS = 1.0  # of one watch: so long takes the end of a witness at most
PHASES = ("", "Pending", "Running", "Succeeded", "Failed")
RANKS = {"waiting": 0, "running": 1, "terminated": 2}
NEVER_RAN = "StartError"
UNREACHABLE = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")


class Witness:
    """Writes down each state of each object of a collection, in a thread of its own."""

    def __init__(self, admin: Admin, collection: str, **query: str) -> None:
        self._admin = admin
        self._collection = collection
        self._query = query
        self._over = False
        self._versions: dict[str, str] = {}  # uid -> the last that was noted
        self.states: dict[str, list[Json]] = {}  # uid -> in order
        self.gone: set[str] = set()  # uids
        self._began = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"witness of {collection}")

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._began.wait(30), f"{self._collection} cannot be watched"
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Look no more."""
        self._over = True
        self._thread.join()

    @property
    def last(self) -> Json:
        """The newest state of the only object."""
        (states,) = self.states.values()
        return states[-1]

    def _run(self) -> None:
        version = ""
        while not self._over:
            began = time.monotonic()
            try:
                version = version or self._list()
                self._began.set()
                last = self._watch(version)
            except (Unreachable, Refused):
                time.sleep(RETRY_SECONDS)
                continue
            ended_at_once = last == version and time.monotonic() - began < LOOK_SECONDS / 2
            version = "" if ended_at_once else last  # it is too old to go on from
        self._finish()

    def _finish(self) -> None:
        """See how it all is in the end, if there is anything to be seen."""
        deadline = time.monotonic() + LOOK_SECONDS
        while time.monotonic() < deadline:
            try:
                self._list()
            except (Unreachable, Refused):
                time.sleep(RETRY_SECONDS)
            else:
                return

    def _list(self) -> str:
        found = self._admin.get(self._collection, **self._query)
        there = {item["metadata"]["uid"] for item in found["items"]}
        self.gone |= self.states.keys() - there
        for item in found["items"]:
            self._note(item)
        return str(found["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> str:
        """Note what happens since a version; the last one."""
        deadline = time.monotonic() + LOOK_SECONDS
        for event in self._admin.watch(self._collection, version, deadline, **self._query):
            item = event["object"]
            version = item["metadata"]["resourceVersion"]
            if event["type"] == "DELETED":
                self.gone.add(item["metadata"]["uid"])
            elif event["type"] != "BOOKMARK":
                self._note(item)
            if self._over:
                break
        return version

    def _note(self, item: Json) -> None:
        meta = item["metadata"]
        if self._versions.get(meta["uid"]) != meta["resourceVersion"]:
            self._versions[meta["uid"]] = meta["resourceVersion"]
            self.states.setdefault(meta["uid"], []).append(item)


# What is odd in the states of a pod.


def setbacks(states: list[Json]) -> Iterator[str]:
    """What in the statuses of one pod goes back: phase, count, readiness, state, or all of it."""
    name = states[0]["metadata"]["name"]
    for what, key in (("phase", _phase), ("containers", _containers)):
        values = [key(state["status"]) for state in states]
        for before, after in itertools.pairwise(values):
            if not _ahead(before, after):
                all_of_it = "\n".join(json.dumps(state["status"]) for state in states)
                yield f"{name}: {what} went from {before} to {after} in\n{all_of_it}"
    yield from _other_containers(name, states)
    yield from _wavering(name, states)
    yield from _again(name, states)


def _phase(status: Json) -> dict[str, Any]:
    phase = PHASES.index(status.get("phase", ""))
    return {"phase": min(phase, PHASES.index("Succeeded")), "": 0}


def _containers(status: Json) -> dict[str, tuple[int, int]]:
    """How far each container is: the number of its restarts, then its state."""
    found = status.get("containerStatuses") or []
    return {c["name"]: (c["restartCount"], _rank(c)) for c in found}


def _rank(container: Json) -> int:
    (kind,) = container.get("state") or ("waiting",)
    ended = (container.get("lastState") or {}).get("terminated") or {}
    # It waits for its back-off, and is still the one that has ended.
    loops = bool(ended) and ended.get("containerID") == container.get("containerID")
    return RANKS["terminated" if loops else kind]


def _ahead(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return all(name in after and after[name] >= value for name, value in before.items())


def _other_containers(name: str, states: list[Json]) -> Iterator[str]:
    """Containers that are another one than ran before, without having been counted."""
    known: dict[tuple[str, int], str] = {}
    for state in states:
        for container in state["status"].get("containerStatuses") or ():
            key = container["name"], container["restartCount"]
            found = container.get("containerID", "")
            if found and _ran(container) and known.setdefault(key, found) != found:
                yield f"{name}: {key} is {found}, and was {known[key]}"


def _ran(container: Json) -> bool:
    """Whether a container runs or has run; one whose start was given up has not."""
    state = container.get("state") or {}
    return "running" in state or state.get("terminated", {}).get("reason", NEVER_RAN) != NEVER_RAN


def _wavering(name: str, states: list[Json]) -> Iterator[str]:
    """Losses of readiness that nobody caused: no deletion, no end of a container."""
    for before, after in itertools.pairwise(states):
        lost = condition_of(before, "Ready") == "True" != condition_of(after, "Ready")
        ended = any(
            "running" not in (c.get("state") or {})
            for c in after["status"].get("containerStatuses") or ()
        )
        counts = _containers(before["status"]), _containers(after["status"])
        deleted = "deletionTimestamp" in after["metadata"]
        if lost and not ended and not deleted and counts[0] == counts[1]:
            yield f"{name}: not ready any more: {after['status']}"


def _again(name: str, states: list[Json]) -> Iterator[str]:
    """Whole statuses that come back after another one."""
    seen: list[str] = []
    for state in states:
        text = json.dumps(state["status"], sort_keys=True)
        if seen and text == seen[-1]:
            continue  # something else has changed
        if text in seen:
            yield f"{name}: the same status again: {text}"
        seen.append(text)


def condition_of(state: Json, kind: str) -> str:
    """The status of a condition of an object; "" if it has none."""
    found = state.get("status", {}).get("conditions") or ()
    return next((str(c["status"]) for c in found if c["type"] == kind), "")


def changes(states: list[Json]) -> int:
    """How often a status was another one than before, after the object was made."""
    texts = [json.dumps(state["status"], sort_keys=True) for state in states]
    return sum(before != after for before, after in itertools.pairwise(texts))


# What is odd in the states of a node and its lease.


def unready(states: list[Json]) -> list[str]:
    """What was said whenever the node was not ready, or not reachable."""
    bad = [s for s in states if condition_of(s, "Ready") != "True"]
    told = [c for s in bad for c in s["status"]["conditions"] if c["type"] == "Ready"]
    taints = [t for s in states for t in s["spec"].get("taints", ())]
    return [*map(str, told), *(str(t) for t in taints if t["key"] in UNREACHABLE)]


def renewals(states: list[Json]) -> list[float]:
    """When a lease was renewed, in seconds of the wall clock."""
    times = (datetime.fromisoformat(s["spec"]["renewTime"]) for s in states)
    return [moment.timestamp() for moment in times]


def longest_gap(moments: list[float]) -> float:
    """The longest time between two moments."""
    pairs = itertools.pairwise(moments)
    return max((after - before for before, after in pairs), default=0.0)
