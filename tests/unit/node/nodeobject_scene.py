"""What the node's object stands on in tests: facts of a made-up machine, and an API server.

The server is a real one on the loopback with nodes and leases in memory; the client, the
connection and the watch are those of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import time
from collections import Counter
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

from kubelet import config
from kubelet.channels.errors import PeerDownError
from kubelet.channels.messages import NodeImage, NodeImages
from kubelet.channels.waiting import Waiters
from kubelet.channels.wire import Hint
from kubelet.machine.addresses import Address
from kubelet.machine.identity import Identity
from kubelet.pods.runtime import RUNTIME_KEY, Condition, Handler, RuntimeRecord
from kubelet.pods.runtime import TABLE as RUNTIME
from kubelet.process.tables import Tables
from procs.node.apiserver.client import Client
from procs.node.apiserver.connection import Connection
from procs.node.apiserver.limiter import Limits
from procs.node.apiserver.reflector import watching
from procs.node.apiserver.types import Endpoint
from procs.node.kit import Kit
from procs.node.ledger import Ledger
from procs.node.nodeobject.facts import Facts, Machine
from procs.node.nodeobject.service import NodeObject
from procs.node.nodeobject.settings import Settings
from procs.node.troubles import Troubles
from procs.node.view import NodeView
from shm.board import RowWriter
from shm.codec import pack
from shm.table import Writer
from shm.tables import BY_NAME
from tests.unit.node.loopback import status_object

WALL = 1_700_000_000 * 10**9  # 2023-11-14T22:13:20Z
NOW = "2023-11-14T22:13:20Z"
SECOND = 10**9
NAME = "node-1"
SETTINGS = Settings(NAME, labels={"kubernetes.io/hostname": NAME, "rack": "1"})

WELL = RuntimeRecord(
    name="containerd",
    version="2.4.2",
    connected=True,
    looked=True,
    healthy=True,
    conditions=(Condition("RuntimeReady", True), Condition("NetworkReady", True)),
    handlers=(Handler("", True, True), Handler("runc")),
    features=("supplemental_groups_policy",),
)
MACHINE = Machine(
    capacity={"cpu": "4", "memory": "8Gi", "pods": "110", "hugepages-2Mi": "4Mi"},
    allocatable={"cpu": "3500m", "memory": "7Gi", "pods": "110", "hugepages-2Mi": "4Mi"},
    identity=Identity("machine", "system", "boot", "6.1.0", "Debian", "amd64"),
    addresses=(Address("InternalIP", "192.0.2.5"), Address("Hostname", NAME)),
)
FACTS = Facts(WALL, MACHINE, WELL, (NodeImage(("a@sha256:1", "a:1"), 10),))


# --- a tree of processes, as the supervisor and the board tell of it ----------------------------


def state_of(processes, *, started_ns=SECOND, phase="running", pid=1):
    """A state file."""
    return {
        "schema": 1,
        "version": "v",
        "node": NAME,
        "pid": pid,
        "started_ns": started_ns,
        "started_unix": 0.0,
        "ready": True,
        "phase": phase,
        "heartbeat_timeout_ms": 5000,
        "processes": processes,
    }


def process_of(name, pid=7, state="running", started_ns=SECOND, last_exit=None):
    """A process in a state file."""
    return {
        "name": name,
        "pid": pid,
        "state": state,
        "restarts": 0,
        "started_ns": started_ns,
        "last_exit": last_exit,
        "next_start_ns": 0,
        "cgroup": None,
    }


# --- the API server -----------------------------------------------------------------------------


class ApiServer:
    """Nodes and leases in memory; what it is told to refuse it refuses."""

    def __init__(self):
        self.objects = {}  # path -> object
        self.asked = []  # (method, path, body)
        self.faults = []  # (method, part of the path, step) - the first that fits is taken
        self.dropped = frozenset()  # fields of a node's status that this server does not know
        self.version = 100
        self._watchers = []
        self._news = asyncio.Condition()
        self._server = None
        self._writers = set()
        self.port = 0

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self):
        """Be gone: nobody listens any more."""
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    def refuse(self, method, part, status, reason="", times=1, **headers):
        self.faults += [(method, part, (status, reason, headers))] * times

    def requests(self, method, part=""):
        return [body for verb, path, body in self.asked if verb == method and part in path]

    async def until(self, condition, seconds=10.0):
        """Wait until something is true after a request."""
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(condition)

    @property
    def node(self):
        return self.objects.get(f"/api/v1/nodes/{NAME}")

    @property
    def lease(self):
        return self.objects.get(f"{LEASES}/{NAME}")

    def ready(self):
        found = (self.node or {}).get("status", {}).get("conditions", [])
        return next((c["status"] for c in found if c["type"] == "Ready"), None)

    # What somebody else does.

    def put(self, path, item):
        """Change or create an object behind the node's back."""
        there = path in self.objects
        self._store(path, item)
        self._tell("MODIFIED" if there else "ADDED", path)

    def remove(self, path):
        item = self.objects.pop(path)
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self._event("DELETED", path, item)

    def _store(self, path, item):
        self.version += 1
        metadata = item.setdefault("metadata", {})
        metadata["resourceVersion"] = str(self.version)
        metadata.setdefault("uid", f"uid-{self.version}")
        self.objects[path] = item

    def _tell(self, kind, path):
        self._event(kind, path, self.objects[path])

    def _event(self, kind, path, item):
        line = json.dumps({"type": kind, "object": item}).encode() + b"\n"
        for collection, writer in self._watchers:
            if path.startswith(collection + "/"):
                writer.write(b"%x\r\n%s\r\n" % (len(line), line))

    # HTTP.

    async def _serve(self, reader, writer):
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                text = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = text.strip().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method, target, _ = first.split()
                parts = urlsplit(target)
                query = dict(parse_qsl(parts.query))
                if query.get("watch"):
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    self._watchers.append((parts.path, writer))
                    continue
                sent = json.loads(body) if body else None
                answer = self._answer(method, parts.path, sent)
                if answer is None:
                    break  # hang up
                status, found, more = answer
                data = json.dumps(found).encode()
                extra = "".join(f"{k}: {v}\r\n" for k, v in more.items())
                head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{extra}"
                writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
                await writer.drain()
                async with self._news:
                    self._news.notify_all()
        self._writers.discard(writer)
        writer.close()

    def _answer(self, method, path, body):
        self.asked.append((method, path, body))
        for fault in self.faults:
            verb, part, step = fault
            if verb == method and part in path:
                self.faults.remove(fault)
                if step is None:
                    return None
                status, reason, headers = step
                return status, status_object(status, reason, f"refused: {reason}"), headers
        return *getattr(self, f"_{method.lower()}")(path, body), {}

    def _get(self, path, _body):
        if path in (NODES, LEASES):
            items = [v for k, v in self.objects.items() if k.startswith(path + "/")]
            meta = {"resourceVersion": str(self.version)}
            return 200, {"kind": "List", "metadata": meta, "items": items}
        return (200, self.objects[path]) if path in self.objects else self._missing()

    def _missing(self):
        return 404, status_object(404, "NotFound", "not found")

    def _post(self, path, body):
        where = f"{path}/{body['metadata']['name']}"
        if where in self.objects:
            return 409, status_object(409, "AlreadyExists", "already exists")
        self._store(where, self._known(body))
        self._tell("ADDED", where)
        return 201, self.objects[where]

    def _put(self, path, body):
        there = self.objects.get(path)
        if there is None:
            return self._missing()
        if body["metadata"].get("resourceVersion") != there["metadata"]["resourceVersion"]:
            return 409, status_object(409, "Conflict", "the object has been modified")
        self._store(path, body)
        return 200, body

    def _patch(self, path, body):
        where = path.removesuffix("/status")
        if where not in self.objects:
            return self._missing()
        self._store(where, self._known(_strategic(self.objects[where], body)))
        self._tell("MODIFIED", where)
        return 200, self.objects[where]

    def _delete(self, path, body):
        there = self.objects.get(path)
        if there is None:
            return self._missing()
        wanted = (body or {}).get("preconditions", {}).get("uid", "")
        if wanted and wanted != there["metadata"]["uid"]:
            return 409, status_object(409, "Conflict", "the UID in the precondition is another")
        self.remove(path)
        return 200, status_object(200)

    def _known(self, item):
        status = {k: v for k, v in item.get("status", {}).items() if k not in self.dropped}
        return {**item, "status": status}


NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def _strategic(there, patch):
    """Merge as the API server does, as far as nodes are concerned."""
    found = dict(there)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif name == "conditions":
            by = {c["type"]: c for c in found.get(name, [])}
            by |= {c["type"]: {**by.get(c["type"], {}), **c} for c in value}
            found[name] = list(by.values())
        elif name == "addresses":
            assert value[-1] == {"$patch": "replace"}, "two addresses of a type would become one"
            found[name] = value[:-1]
        elif isinstance(value, dict):
            found[name] = _strategic(found.get(name) or {}, value)
        else:
            found[name] = value
    return found


# --- the process --------------------------------------------------------------------------------


class Process:
    """A process with real tables, and channels on which syncloop tells of images."""

    def __init__(self, root, *flags):
        self.run_dir = root / "run"
        for name in ("board", "tables"):
            os.makedirs(self.run_dir / name, exist_ok=True)
        argv = ["--kubeconfig=/k", f"--root-dir={root}/root", f"--run-dir={self.run_dir}"]
        self.config = config.load([*argv, "--node-ip=0.0.0.0", *flags]).config
        self.kind = "node"
        self.node = NAME
        self.tables = Tables(self.run_dir / "tables", "node")
        self.row = SimpleNamespace(counters=Counter())
        self.row.count = lambda name, n=1: self.row.counters.update({name: n})
        self.waiters = Waiters()
        self.ticks, self.hints, self.tasks = [], [], set()
        self.heartbeat = SimpleNamespace(on_tick=self.ticks.append)
        self.channels = SimpleNamespace(ask=self._ask)
        self.images = (NodeImage(("a:1",), 5),)

    async def _ask(self, kind, request, timeout):  # noqa: ASYNC109 - the channel's signature
        assert (kind, request.limit, timeout > 0) == ("syncloop", 50, True)
        if self.images is None:
            raise PeerDownError("nobody is there")
        return NodeImages(self.images)

    def on_hint(self, callback):
        self.hints.append(callback)

    def put(self, table, key, value, stamp_ns=0):
        self.tables.put(table, key, value, stamp_ns)

    def spawn(self, work, name):
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task):
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            raise task.exception()

    async def kill(self):
        """Die at once, wherever everything is."""
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.tables.close()


class Scene:
    """A node against its API server; ``restart`` kills the process and starts another."""

    def __init__(self, root, *flags):
        self.root = root
        self.flags = flags
        self.server = ApiServer()
        self.events = []  # (type, reason) as emitted
        self.dropped = []
        os.makedirs(root / "run" / "tables", exist_ok=True)
        self.pleg = Writer.attach(root / "run" / "tables", BY_NAME[RUNTIME])
        self.process = self.node = self.kit = self.connection = None

    def runtime(self, record, *, hint=True):
        """Pleg's word."""
        self.pleg.put(RUNTIME_KEY, pack(record.to_wire()))
        if hint and self.process is not None:
            for callback in self.process.hints:
                callback(Hint(RUNTIME, RUNTIME_KEY, 0))

    def tree(self, *processes, **more):
        """The supervisor's word, replaced as the supervisor does."""
        path = self.root / "run" / "state.json"
        os.makedirs(path.parent, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(state_of(list(processes), **more)))
        os.replace(new, path)

    def beat(self, kind):
        """Have a kind beat now, as this very process."""
        os.makedirs(self.root / "run" / "board", exist_ok=True)
        row = RowWriter.create(self.root / "run" / "board" / kind)
        row.beat()
        row.close()

    async def start(self, *flags):
        self.process = process = Process(self.root, *self.flags, *flags)
        view, troubles = NodeView(process), Troubles(process)
        view.load()
        troubles.load()
        endpoint = Endpoint(f"http://127.0.0.1:{self.server.port}")
        self.connection = Connection(endpoint, troubles.connected)
        client = Client(self.connection, Limits.of(process.config))
        self.kit = Kit(
            process=process,
            api=client,
            watch=watching(process, client),
            emit=self._emit,
            ledger=Ledger(process),
            view=view,
            troubles=troubles,
            random=random.Random(1),
        )
        self.node = NodeObject(self.kit, drop=self._drop)
        self.node.start()

    def _emit(self, reference, kind, reason, message, at_ns=0):
        del at_ns
        assert (reference.kind, reference.name) == ("Node", NAME)
        assert message
        self.events.append((kind, reason))

    def _drop(self, purpose):
        self.dropped.append(purpose)
        self.connection.drop(purpose)

    async def kill(self):
        await self.process.kill()
        await self.node.stop()
        await self.connection.close()

    async def restart(self, *flags):
        await self.kill()
        await self.start(*flags)

    async def settled(self):
        """Wait until the node is watched and has heard of its object as it is."""
        await soon(lambda: self.server._watchers and self._version() == self._heard())

    def _version(self):
        return self.server.node["metadata"]["resourceVersion"]

    def _heard(self):
        return (self.kit.view.document or {}).get("metadata", {}).get("resourceVersion")

    async def look(self):
        """Have the status looked at once, as at any tick."""
        await self.node._reporter._turn(self.node._gathering)

    def trouble(self, what):
        found = {t.what: t.error for t in self.kit.troubles.row.troubles}
        return found.get(what)

    def close(self):
        self.pleg.close()


async def soon(condition, seconds=10.0):
    """Wait for what has no event of its own."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it never came true"
        await asyncio.sleep(0.002)
