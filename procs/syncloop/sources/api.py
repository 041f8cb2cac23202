"""The source of the API server's pods: table ``assigned``, which ``node`` keeps.

Nobody validates them here: the API server did. A table that cannot be read, or that was begun anew
and is not complete yet, takes no pod away.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Final

from kubelet.api import codec
from kubelet.api.codec import DecodeError
from kubelet.api.pod import Pod
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.cluster.rows import ASSIGNED, ASSIGNED_KEY, AssignedRow, AssignedState
from kubelet.pods.rows import API
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process
from procs.syncloop.sources.changes import Candidate, Deliver, Delivery
from shm.codec import unpack

ORIGIN: Final = "the API server"


class ApiSource:
    """Delivers the pods that the API server gave this node."""

    name = API

    def __init__(self, process: Process, deliver: Deliver) -> None:
        self._process = process
        self._deliver = deliver
        self._pods: dict[str, Pod] = {}
        self._read_as: dict[str, int] = {}  # uid -> hash of its row as it was read last
        self._problems: dict[str, str] = {}  # uid -> what is wrong with its row
        self._listed = False
        self._news: set[str] = set()
        self._due = asyncio.Event()

    def start(self) -> None:
        """Deliver what is known, and follow the table."""
        self._process.on_hint(self._hinted)
        self._look({ANY_KEY})
        self._give()
        self._process.spawn(self._follow(), name="pods of the API server")

    def _hinted(self, hint: Hint) -> None:
        if hint.table == ASSIGNED:
            self._news.add(hint.key)
            self._due.set()

    async def _follow(self) -> None:
        """Deliver what many hints at once say as one."""
        while True:
            await self._due.wait()
            self._due.clear()
            news, self._news = self._news, set()
            if self._look(news):
                self._give()

    def _give(self) -> None:
        candidates = tuple(Candidate(API, ORIGIN, pod) for pod in self._pods.values())
        problems = tuple(self._problems.values())
        self._deliver(Delivery(API, candidates, problems, complete=self._listed))

    # Reading.

    def _look(self, keys: set[str]) -> bool:
        """Read these rows, ``*`` all; whether anything is to be told."""
        tables = self._process.tables
        every = ANY_KEY in keys
        there = tables.keys(ASSIGNED)
        if ASSIGNED in tables.unavailable:
            return False
        listed = self._is_listed()
        news = listed and not self._listed
        self._listed = self._listed or listed
        uids = {*there, *self._read_as} if every else keys
        for uid in sorted(uids - {ASSIGNED_KEY, ANY_KEY}):
            news = self._read(uid, may_go=listed) or news
        return news

    def _is_listed(self) -> bool:
        """Whether the table holds everything now; one that was begun anew does not at first."""
        value = self._process.tables.value(ASSIGNED, ASSIGNED_KEY)
        try:
            return value is not None and AssignedState.from_wire(value).listed
        except BadRecordError:
            return False

    def _read(self, uid: str, *, may_go: bool) -> bool:
        """Take one row; whether it is another now."""
        entry = self._process.tables.get(ASSIGNED, uid)
        if entry is None:
            if ASSIGNED in self._process.tables.unavailable or not may_go:
                return False
            known = self._read_as.pop(uid, None) is not None
            self._pods.pop(uid, None)
            self._problems.pop(uid, None)
            return known
        content = hash(entry.payload)
        if content == self._read_as.get(uid):
            return False
        self._read_as[uid] = content
        try:
            self._pods[uid] = _pod(unpack(entry.payload), uid)
            self._problems.pop(uid, None)
        except (BadRecordError, DecodeError, ValueError) as err:
            goes_on = f"; pod {self._pods[uid]} goes on as it was" if uid in self._pods else ""
            self._problems[uid] = f"{ORIGIN}: {_named(entry.payload, uid)}: {err}{goes_on}"
        return True


def _pod(value: object, uid: str) -> Pod:
    """Return the pod in a row; what differs from one write to the next and says nothing is left."""
    row = AssignedRow.from_wire(value)
    pod, _ = codec.decode(Pod, json.loads(row.document))  # what is unknown is for newer kubelets
    if pod.uid != uid:
        raise ValueError(f"metadata.uid: is {pod.uid!r}")
    if not pod.spec.containers or not all(one.name for one in pod.spec.containers):
        # It would be taken for one whose containers were all taken away, and ended.
        raise ValueError("spec.containers: must have at least one, each with a name")
    metadata = replace(pod.metadata, resource_version="", managed_fields=())
    return replace(pod, metadata=metadata)


def _named(payload: bytes, uid: str) -> str:
    try:
        row = AssignedRow.from_wire(unpack(payload))
    except (BadRecordError, ValueError):
        return f"pod {uid}"
    return f"pod {row.namespace}/{row.name}"
