"""What the objects of pods stand on in tests: real tables, a scripted API server, time that runs.

The loop's time is virtual: where nothing is left to do it jumps to the next moment that anybody
waits for, so that a minute's rest takes no time and no test sleeps.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
import selectors
from collections import Counter
from types import SimpleNamespace

from kubelet import config
from kubelet.cluster.rows import CLUSTER, OBJECTS, ClaimRow, ObjectRow, TokenRow
from kubelet.process.tables import Tables
from procs.node.apiserver.types import ApiError
from procs.node.kit import Kit
from procs.node.objects.service import Objects

WALL = 1_700_000_000 * 10**9
NS = 10**9
RESOURCES = {"secret": "secrets", "configmap": "configmaps"}


class _Jumping(selectors.DefaultSelector):
    """A selector that does not wait, but lets the time pass."""

    passed = 0.0

    def select(self, timeout=None):
        found = super().select(0)
        if not found and timeout:
            self.passed += timeout
        return found


def story(work, seconds=36_000):
    """Run a story to its end, in virtual time."""
    selector = _Jumping()
    loop = asyncio.SelectorEventLoop(selector)
    real = loop.time
    start = real()
    loop.time = lambda: start + selector.passed

    async def main():
        async with asyncio.timeout(seconds):
            await work()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())


def now_ns():
    """The virtual time."""
    return int(asyncio.get_running_loop().time() * NS)


class Process:
    """A process with real tables and no channels."""

    def __init__(self, root, kind="node", **settings):
        os.makedirs(root / "run", exist_ok=True)
        flags = {"root-dir": root / "root", "run-dir": root / "run", **settings}
        argv = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
        self.config = config.load(argv).config
        self.node = "node-1"
        self.tables = Tables(root, kind)
        self.puts = Counter()
        self.tasks = set()

    def put(self, table, key, value, stamp_ns=0):
        self.tables.put(table, key, value, stamp_ns)
        self.puts[key] += 1

    def delete(self, table, key):
        self.tables.writers[table].delete(key)

    def spawn(self, work, name):
        task = asyncio.ensure_future(work)
        task.set_name(name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


class Watch:
    """One list and watch that goes on until it is stopped."""

    def __init__(self, server, watched, watcher, told):
        self.server = server
        self.watched = watched
        self.watcher = watcher
        self.told = told
        self.stopped = False
        asyncio.get_running_loop().call_soon(self.begin)

    def begin(self):
        if self.stopped:
            return
        error = self.server.fault("LIST", self.watched.path)
        if error is not None:
            self.told(error)
            return
        self.told(None)
        self.watcher.listed(self.server.items(self.watched), "1")

    async def stop(self):
        self.stopped = True
        self.server.watches.remove(self)


class Server:
    """An API server that says what the test wants."""

    def __init__(self):
        self.objects = {}  # path -> object
        self.faults = {}  # path -> list of errors, or one error for ever
        self.asked = []  # (verb, path, body)
        self.watches = []
        self.tokens = 0
        self.life = None  # seconds of a token, if not those that are asked for

    def fault(self, verb, path, body=None):
        self.asked.append((verb, path, body))
        fault = self.faults.get(path)
        if isinstance(fault, list):
            return fault.pop(0) if fault else None
        return fault

    def count(self, verb, path):
        return sum(1 for asked in self.asked if asked[:2] == (verb, path))

    def items(self, watched):
        return [item for path, item in self.objects.items() if _selected(watched, path, item)]

    # What is stored.

    def put(self, path, item):
        """Store an object, and tell who watches it."""
        self.objects[path] = item
        for watch in self.live(path, item):
            watch.watcher.changed(item)

    def remove(self, path):
        item = self.objects.pop(path)
        for watch in self.live(path, item):
            watch.watcher.deleted(item)

    def live(self, path, item):
        watches = [w for w in self.watches if not w.stopped]
        return [w for w in watches if _selected(w.watched, path, item)]

    def store(self, path, body):
        """Store a new object."""
        if path in self.objects:
            name = path.rpartition("/")[2]
            raise ApiError(f'"{name}" already exists', status=409, reason="AlreadyExists")
        self.put(path, body)
        return body

    # What is asked.

    def watch(self, watched, watcher, told):
        made = Watch(self, watched, watcher, told)
        self.watches.append(made)
        return made

    async def get(self, path, **_more):
        await asyncio.sleep(0)
        error = self.fault("GET", path)
        if error is not None:
            raise error
        if path not in self.objects:
            kind, name = path.split("/")[-2:]
            raise ApiError(f'{kind} "{name}" not found', status=404, reason="NotFound")
        return self.objects[path]

    async def create(self, path, body, **_more):
        await asyncio.sleep(0)
        error = self.fault("POST", path, body)
        if error is not None:
            raise error
        if not path.endswith("/token"):
            return self.store(f"{path}/{body['metadata']['name']}", body)
        self.tokens += 1
        seconds = self.life or body["spec"]["expirationSeconds"]
        status = {"token": f"token-{self.tokens}"}
        return {"spec": {**body["spec"], "expirationSeconds": seconds}, "status": status}


def _selected(watched, path, item):
    """Whether an object is one that is watched: by fields, and by labels that are to be equal."""
    collection, _, name = path.rpartition("/")
    known = {"metadata.name": name}
    known |= {f"spec.{key}": value for key, value in item.get("spec", {}).items()}
    fields = dict(one.split("=", 1) for one in watched.fields.split(",") if one)
    wanted = dict(one.split("=", 1) for one in watched.labels.split(",") if one)
    labels = item.get("metadata", {}).get("labels", {})
    return (
        collection == watched.path
        and fields.items() <= {k: v for k, v in known.items() if isinstance(v, str)}.items()
        and wanted.items() <= labels.items()
    )


class Pods:
    """The pods that are bound here."""

    def __init__(self):
        self.pods = {}
        self.listed = True
        self._callback = lambda _uid: None

    def on_change(self, callback):
        self._callback = callback

    def put(self, document):
        uid = document["metadata"]["uid"]
        self.pods[uid] = document
        self._callback(uid)

    def remove(self, uid):
        del self.pods[uid]
        self._callback(uid)


class Scene:
    """Objects over a process, a server and pods."""

    def __init__(self, root, **settings):
        self.root = root
        self.settings = settings
        self.server = Server()
        self.pods = Pods()
        self.told = {}
        self.view = SimpleNamespace(document=None)
        self.jump_ns = 0
        self.begin()

    def begin(self):
        """Be a new process over what there is."""
        self.process = Process(self.root, **self.settings)
        began = now_ns()
        self.kit = Kit(
            process=self.process,
            api=self.server,
            watch=self.server.watch,
            emit=None,
            ledger=None,
            view=self.view,
            troubles=SimpleNamespace(tell=self.told.__setitem__),
            wall=lambda: WALL + now_ns() - began + self.jump_ns,
            clock=now_ns,
            random=random.Random(1),
        )
        self.objects = Objects(self.kit, self.pods)

    async def die(self):
        """Be killed: only the tables are left."""
        await self.close()
        self.server.watches.clear()
        self.begin()

    async def close(self):
        tasks = list(self.process.tasks)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        self.process.tables.close()
        odd = [end for end in ends if isinstance(end, Exception)]
        assert not odd, odd

    def object(self, key):
        value = self.process.tables.value(OBJECTS, key)
        return None if value is None else ObjectRow.from_wire(value)

    def token(self, key):
        value = self.process.tables.value(OBJECTS, key)
        return None if value is None else TokenRow.from_wire(value)

    def claim(self, key):
        value = self.process.tables.value(OBJECTS, key)
        return None if value is None else ClaimRow.from_wire(value)

    def keys(self, table=OBJECTS):
        return sorted(self.process.tables.keys(table))

    def cluster(self):
        return dict(self.process.tables.items(CLUSTER))


def on_stage(root, work, seconds=36_000, **settings):
    """Run a story about a started scene."""

    async def main():
        scene = Scene(root, **settings)
        try:
            await work(scene)
        finally:
            await scene.close()

    story(main, seconds)


async def turns(number=20):
    """Let everybody do what they can without time passing."""
    for _ in range(number):
        await asyncio.sleep(0)


async def later(seconds):
    """Let time pass."""
    await asyncio.sleep(seconds)
    await turns()


def pod(uid="u1", name="web", namespace="ns", status=None, **spec):
    """A pod's document."""
    spec.setdefault("containers", [{"name": "c"}])
    metadata = {"name": name, "namespace": namespace, "uid": uid}
    return {"metadata": metadata, "spec": spec, "status": status or {}}


def secret(name, version="1", kind="Opaque", uid="s-uid", **data):
    """A secret as the API server sends it."""
    encoded = {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}
    metadata = {"name": name, "resourceVersion": version, "uid": uid}
    return {"metadata": metadata, "data": encoded, "type": kind}


def config_map(name, version="1", **data):
    """A config map as the API server sends it."""
    return {"metadata": {"name": name, "resourceVersion": version}, "data": data}


def forbidden(name="x"):
    """A refusal in the words of the API server."""
    text = f'secrets "{name}" is forbidden: User "system:node:n" cannot list resource "secrets"'
    return ApiError(text, status=403, reason="Forbidden")


def away():
    """A server that does not answer."""
    return ApiError("dial tcp 192.0.2.1:6443: connect: connection refused")
