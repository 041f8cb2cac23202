"""What the pods of the API server stand on in tests: real tables, and a server that is scripted.

The server keeps pods and applies patches as the real one does; what it shall refuse, and when it
shall answer, a test says. Time is virtual (:func:`story`).
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import random
from collections import Counter

from objects_scene import story

from kubelet import config
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.cluster.rows import ASSIGNED, ASSIGNED_KEY, AssignedRow, AssignedState
from kubelet.pods.rows import (
    EVENTS,
    FILE,
    PODS,
    SOURCES_KEY,
    STATUS,
    PodRow,
    SourcesRow,
    StatusRow,
)
from kubelet.process.tables import Tables
from procs.node.apiserver.types import ApiError, PatchType
from procs.node.kit import Kit
from procs.node.ledger import Ledger
from procs.node.pods.watch import AssignedPods
from procs.node.troubles import Troubles
from procs.node.view import NodeView

__all__ = ["NODE", "Scene", "condition", "pod", "scene", "story"]

NODE = "node-1"
MERGED = {"conditions": "type", "podIPs": "ip", "hostIPs": "ip"}


def pod(name="web", uid="", **more):
    """Return a pod as the API server has it."""
    metadata = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"}
    spec = {
        "nodeName": NODE,
        "restartPolicy": "Always",
        "containers": [{"name": "c", "image": "x"}],
    }
    status = {"phase": "Pending", **more.pop("status", {})}
    metadata |= more.pop("metadata", {})
    return {"metadata": metadata, "spec": {**spec, **more.pop("spec", {})}, "status": status}


def mirror(name="etcd", hash_="static-1", **more):
    """Return a mirror pod as the API server has it."""
    metadata = {"annotations": {"kubernetes.io/config.mirror": hash_}, **more.pop("metadata", {})}
    return pod(name, more.pop("uid", f"mirror-{name}"), metadata=metadata, **more)


def condition(type_, status="True", **more):
    return {"type": type_, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z", **more}


def applied(status, change):
    """Return a status after a strategic merge patch of it, as the API server applies one."""
    result = copy.deepcopy(status)
    for field, value in change.items():
        if field.startswith("$"):
            continue
        if field in MERGED:
            result[field] = _elements(result.get(field) or [], change, field)
        elif value is None:
            result.pop(field, None)
        elif isinstance(value, dict):
            result[field] = applied(result.get(field) or {}, value)
        else:
            result[field] = value
    return result


def _elements(old, change, field):
    key = MERGED[field]
    found = {element[key]: element for element in old}
    for element in change[field]:
        if element.get("$patch") == "delete":
            del found[element[key]]
        else:
            found[element[key]] = applied(found.get(element[key], {}), element)
    order = [element[key] for element in change.get(f"$setElementOrder/{field}", ())]
    names = [n for n in order if n in found] + [n for n in found if n not in order]
    return [found[n] for n in names]


class Server:
    """An API server with pods, and with a watch that tells at once unless it is held back."""

    def __init__(self):
        self.objects = {}  # path -> pod
        self.version = 100
        self.calls = []  # (verb, path, body)
        self.errors = {}  # verb, or verb and path -> an error, or a list of them
        self.gates = {}  # path -> an event that its answer waits for
        self.under_way = Counter()
        self.most = 0
        self.watcher = None
        self.watched = None
        self.told = None
        self.telling = True
        self.lossy = set()  # fields of a status that it does not keep

    # What a test does.

    def give(self, *pods):
        for one in pods:
            self._store(one)

    def change(self, one):
        """Store another version of a pod, as somebody else would."""
        self._store(one)

    def take(self, one):
        path = _path(one)
        gone = self.objects.pop(path)
        self.version += 1
        gone = copy.deepcopy(gone)
        gone["metadata"]["resourceVersion"] = str(self.version)
        if self.watcher is not None and self.telling:
            self.watcher.deleted(gone)

    def list(self):
        """Have the watcher hear everything."""
        items = [copy.deepcopy(one) for one in self.objects.values()]
        self.watcher.listed(items, str(self.version))

    def of(self, verb):
        return [(path, body) for what, path, body in self.calls if what == verb]

    def _store(self, one):
        self.version += 1
        stored = copy.deepcopy(one)
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.objects[_path(one)] = stored
        if self.watcher is not None and self.telling:
            self.watcher.changed(copy.deepcopy(stored))
        return copy.deepcopy(stored)

    # What the kubelet does.

    def watch(self, watched, watcher, told):
        self.watched, self.watcher, self.told = watched, watcher, told
        return self

    async def stop(self):
        self.watcher = None

    async def _meet(self, verb, path, body=None, about=""):
        self.calls.append((verb, path, body))
        about = about or path
        self.under_way[about] += 1
        self.most = max(self.most, self.under_way.total())
        assert self.under_way[about] == 1, f"two calls at once for {about}"
        try:
            gate = self.gates.get(path)
            await (gate.wait() if gate is not None else asyncio.sleep(0))
        finally:
            self.under_way[about] -= 1
        for key in ((verb, path), verb):
            error = self.errors.get(key)
            if isinstance(error, list):
                error = error.pop(0) if error else None
            if error is not None:
                raise error

    async def patch(self, path, body, kind):
        assert kind is PatchType.STRATEGIC
        await self._meet("patch", path, body)
        found = self.objects.get(path.removesuffix("/status"))
        if found is None:
            raise ApiError(f"{path} not found", status=404, reason="NotFound")
        if body["metadata"]["uid"] != found["metadata"]["uid"]:
            raise ApiError("metadata.uid: field is immutable", status=422, reason="Invalid")
        kept = {k: v for k, v in body["status"].items() if k not in self.lossy}
        changed = copy.deepcopy(found)
        changed["status"] = applied(found["status"], kept)
        return self._store(changed)

    async def create(self, path, body):
        one = copy.deepcopy(body)
        place = f"{path}/{one['metadata']['name']}"
        await self._meet("create", path, body, place)
        if place in self.objects:
            raise ApiError(f"{place} already exists", status=409, reason="AlreadyExists")
        one["metadata"]["uid"] = f"made-{self.version}"
        one.setdefault("status", {"phase": "Pending"})
        return self._store(one)

    async def delete(self, path, *, grace=None, uid=""):
        await self._meet("delete", path, {"grace": grace, "uid": uid})
        found = self.objects.get(path)
        if found is None:
            raise ApiError(f"{path} not found", status=404, reason="NotFound")
        if uid and found["metadata"]["uid"] != uid:
            raise ApiError("Precondition failed: UID", status=409, reason="Conflict")
        if not found["metadata"].get("finalizers"):
            self.take(found)
        return {"kind": "Status"}


def _path(one):
    return f"/api/v1/namespaces/{one['metadata']['namespace']}/pods/{one['metadata']['name']}"


class Board:
    """The board's row."""

    def __init__(self):
        self.counters = Counter()

    def count(self, name, n=1):
        self.counters[name] += n

    def depth(self, _name, _n):
        pass


class Process:
    """The node's process: real tables, no channels."""

    def __init__(self, root):
        os.makedirs(root / "run", exist_ok=True)
        self.config = config.load([f"--run-dir={root}/run"]).config
        self.node = NODE
        self.tables = Tables(root, "node")
        self.row = Board()
        self.writes = []  # (table, key)
        self.tasks = set()
        self.listeners = []
        self.broken = []

    def put(self, table, key, value, stamp_ns=0):
        self.tables.put(table, key, value, stamp_ns)
        self.writes.append((table, key))

    def delete(self, table, key):
        if self.tables.writers[table].delete(key):
            self.writes.append((table, key))

    def record(self, *_what):
        pass

    def doing(self, _operation, _pod=""):
        return contextlib.nullcontext()

    def on_hint(self, callback):
        self.listeners.append(callback)

    def hint(self, table, key=ANY_KEY):
        for listener in self.listeners:
            listener(Hint(table, key, 0))

    def spawn(self, work, name):
        task = asyncio.ensure_future(work)
        task.set_name(name)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task):
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.broken.append(task.exception())


class Scene:
    """The node process's parts, and the tables of syncloop beside them."""

    def __init__(self, root, server=None):
        self.root = root
        self.syncloop = Tables(root, "syncloop")
        self.server = server or Server()
        self.versions = Counter()
        self._begin()

    def _begin(self):
        self.process = Process(self.root)
        view = NodeView(self.process)
        view.load()
        self.kit = Kit(
            process=self.process,
            api=self.server,
            watch=self.server.watch,
            emit=lambda *_: None,
            ledger=Ledger(self.process),
            view=view,
            troubles=Troubles(self.process),
            random=random.Random(1),
        )
        self.pods = AssignedPods(self.kit)

    def die(self):
        """Kill the process; its successor finds the tables."""
        for task in self.process.tasks:
            task.cancel()
        self.server.watcher = None
        self.process.tables.close()
        self._begin()

    def registered(self, uid="node-uid", **metadata):
        self.kit.view.heard({"metadata": {"name": NODE, "uid": uid, **metadata}})

    # What syncloop says.

    def status(self, uid, name, *, finished=False, hint=True, **status):
        self.versions[uid] += 1
        text = json.dumps({"phase": "Running", **status}).encode()
        row = StatusRow(uid, name, "default", self.versions[uid], text, finished)
        self.syncloop.put(STATUS, uid, row.to_wire())
        if hint:
            self.process.hint(STATUS, uid)

    def static(self, name="etcd", uid="static-1", *, source=FILE, hint=True, **more):
        document = pod(name, uid)
        document["metadata"]["annotations"] = {"kubernetes.io/config.hash": uid}
        text = json.dumps(document).encode()
        row = PodRow(uid, name, "default", source, document=text, **{"admitted": True, **more})
        self.syncloop.put(PODS, uid, row.to_wire())
        if hint:
            self.process.hint(PODS, uid)

    def sources(self, **delivered):
        self.syncloop.put(EVENTS, SOURCES_KEY, SourcesRow(delivered).to_wire())
        self.process.hint(EVENTS, SOURCES_KEY)

    def forget(self, table, uid):
        self.syncloop.writers[table].delete(uid)
        self.process.hint(table, uid)

    # What is seen.

    @property
    def rows(self):
        """Return the pods in table assigned: uid -> document."""
        found = {}
        for key, value in self.process.tables.items(ASSIGNED):
            if key != ASSIGNED_KEY:
                found[key] = json.loads(AssignedRow.from_wire(value).document)
        return found

    @property
    def listed(self):
        value = self.process.tables.value(ASSIGNED, ASSIGNED_KEY)
        return value is not None and AssignedState.from_wire(value).listed

    @property
    def troubles(self):
        return {t.what: t.error for t in self.kit.troubles.row.troubles}

    async def settle(self):
        """Let everything happen that needs no time."""
        for _ in range(50):
            await asyncio.sleep(0)
        assert self.process.broken == []

    async def close(self):
        for task in self.process.tasks:
            task.cancel()
        await asyncio.gather(*self.process.tasks, return_exceptions=True)
        self.process.tables.close()
        self.syncloop.close()
        assert self.process.broken == []


@contextlib.asynccontextmanager
async def scene(root):
    """A scene whose node is registered and whose pods are watched and listed."""
    one = Scene(root)
    one.registered()
    try:
        yield one
    finally:
        await one.close()
