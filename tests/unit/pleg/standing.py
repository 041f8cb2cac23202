"""What pleg's parts stand on in unit tests: real tables, real tasks, and a runtime in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

from kubelet.cri import api_pb2 as pb
from kubelet.cri.errors import Code, NotFound
from kubelet.pods.cache import View
from kubelet.pods.runtime import TABLE
from kubelet.process.tables import Tables
from procs.pleg.listing import UID_LABEL


class Row:
    """The board's row."""

    def __init__(self):
        self.counters = Counter()
        self.depths = {}

    def count(self, name, n=1):
        self.counters[name] += n

    def depth(self, name, n):
        self.depths[name] = n


class Standing:
    """A process with real tables and no channels."""

    def __init__(self, directory):
        self.tables = Tables(directory, "pleg")
        self.row = Row()
        self.quarantined = frozenset()
        self.records = []
        self.hints = []
        self.tasks = set()

    @property
    def view(self):
        return View(lambda key: self.tables.get(TABLE, key))

    def put(self, table, key, value, stamp_ns=0):
        self.tables.put(table, key, value, stamp_ns)
        self.hints.append(key)

    def delete(self, table, key):
        self.tables.writers[table].delete(key)
        self.hints.append(key)

    def record(self, what, text="", pod=""):
        self.records.append((what, text, pod))

    def doing(self, _operation, _pod="", **_more):
        return contextlib.nullcontext()

    def spawn(self, work, name):
        task = asyncio.ensure_future(work)
        task.set_name(name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


class Runtime:
    """A runtime's answers, as the client gives them."""

    def __init__(self):
        self.sandboxes = {}
        self.containers = {}
        self.faults = {}  # id, or name of a call -> an error, or an event to wait for
        self.calls = Counter()
        self.pids = {}

    def pod(self, uid, containers=("c",), state=pb.CONTAINER_RUNNING):
        labels = {UID_LABEL: uid}
        box = f"{uid}-box"
        self.sandboxes[box] = pb.PodSandbox(id=box, labels=labels, created_at=1)
        for name in containers:
            made = pb.Container(id=f"{uid}-{name}", pod_sandbox_id=box, labels=labels, created_at=1)
            made.metadata.name = name
            made.state = state
            self.containers[made.id] = made
        return box

    async def _meet(self, call, about=""):
        self.calls[call] += 1
        await asyncio.sleep(0)
        for name in (call, about):
            fault = self.faults.get(name)
            if isinstance(fault, asyncio.Event):
                await fault.wait()
            elif fault is not None:
                raise fault

    async def list_pod_sandbox(self, filter=None):  # noqa: A002 - the CRI's name
        await self._meet("ListPodSandbox")
        return [s for s in self.sandboxes.values() if _fits(s, filter)]

    async def list_containers(self, filter=None):  # noqa: A002 - as above
        await self._meet("ListContainers")
        return [_copy(c) for c in self.containers.values() if _fits(c, filter)]

    async def pod_sandbox_status(self, id_):
        await self._meet("PodSandboxStatus", id_)
        box = self.sandboxes.get(id_)
        if box is None:
            raise NotFound(Code.NOT_FOUND, "no", "PodSandboxStatus", id_)
        status = pb.PodSandboxStatus(id=id_, state=box.state, created_at=box.created_at)
        return pb.PodSandboxStatusResponse(status=status)

    async def container_status(self, id_, *, verbose=False):
        await self._meet("ContainerStatus", id_)
        found = self.containers.get(id_)
        if found is None:
            raise NotFound(Code.NOT_FOUND, "no", "ContainerStatus", id_)
        status = pb.ContainerStatus(id=id_, metadata=found.metadata, created_at=1)
        status.state = found.state
        info = {"pid": str(self.pids[id_])} if verbose and id_ in self.pids else {}
        return pb.ContainerStatusResponse(status=status, info=info)


def _fits(listed, chosen):
    return chosen is None or chosen.label_selector[UID_LABEL] == listed.labels[UID_LABEL]


def _copy(container):
    made = pb.Container()
    made.CopyFrom(container)
    return made


async def until(condition, seconds=5.0):
    """Let the loop run until something is true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.001)
