"""What the sources stand on in tests: real tables, files and tasks, and events to wait for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os

from kubelet import config
from kubelet.pods.rows import EVENTS, PODS, SOURCES_KEY, PodRow, SourcesRow, document_of
from kubelet.process.tables import Tables
from procs.syncloop.sources.sources import Sources

NODE = "node-1"


def pod(name="web", image="app:1", **more):
    """Return a pod's document; ``more`` goes into its spec."""
    metadata = more.pop("metadata", {})
    container = {"name": "main", "image": image, **more.pop("container", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [container], **more},
    }


def text(document):
    return json.dumps(document).encode()


class Standing:
    """A process with real tables and no channels."""

    def __init__(self, root, **settings):
        self.node = NODE
        os.makedirs(root / "run", exist_ok=True)
        flags = {"root-dir": root / "root", "run-dir": root / "run", **settings}
        argv = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
        self.config = config.load(argv).config
        self.tables = Tables(root, "syncloop")
        self.records = []
        self.changed = asyncio.Event()
        self.tasks = set()

    def put(self, table, key, value, stamp_ns=0):
        self.tables.put(table, key, value, stamp_ns)
        self.changed.set()

    def record(self, what, text="", pod=""):
        self.records.append((what, text, pod))

    def doing(self, _operation, _pod=""):
        return contextlib.nullcontext()

    def spawn(self, work, name):
        task = asyncio.ensure_future(work)
        task.set_name(name)
        self.tasks.add(task)
        return task


class Scene:
    """Sources over a process, and all they said."""

    def __init__(self, root, **settings):
        self.process = Standing(root, **settings)
        self.changes = []
        self.calls = 0
        self.sources = Sources(self.process, NODE, self._told)

    def _told(self, changes):
        self.calls += 1
        self.changes += changes
        self.process.changed.set()

    @property
    def ops(self):
        return [(str(c.op), c.pod.name) for c in self.changes]

    @property
    def wanted(self):
        """Return the names of the pods that are wanted now, with their images."""
        pods = [pod for pod, _ in self.sources.desired().values()]
        return {p.name: p.spec.containers[0].image for p in pods}

    @property
    def row(self):
        value = self.process.tables.value(EVENTS, SOURCES_KEY)
        return SourcesRow() if value is None else SourcesRow.from_wire(value)

    @property
    def problems(self):
        return "\n".join(self.row.problems)

    async def until(self, true):
        """Wait for an event after which something holds."""
        while not true():
            self.process.changed.clear()
            for task in self.process.tasks:
                if task.done():
                    task.result()
            await self.process.changed.wait()

    def remember(self):
        """Write the rows of the pods that are wanted, as the pod workers do."""
        for uid, (one, source) in self.sources.desired().items():
            row = PodRow(uid, one.name, one.namespace, source, document=document_of(one))
            self.process.tables.put(PODS, uid, row.to_wire())

    async def close(self):
        for task in self.process.tasks:
            task.cancel()
        await asyncio.gather(*self.process.tasks, return_exceptions=True)
        self.process.tables.close()


def story(work, seconds=20):
    """Run a story to its end."""

    async def main():
        async with asyncio.timeout(seconds):
            await work()

    asyncio.run(main())


@contextlib.asynccontextmanager
async def scene(root, **settings):
    """A started scene."""
    one = Scene(root, **settings)
    one.sources.start()
    try:
        yield one
    finally:
        await one.close()


def place(path, document):
    """Put a file in place whole, by a rename."""
    data = document if isinstance(document, bytes) else text(document)
    half = path.parent / f".{path.name}.new"
    half.write_bytes(data)
    os.replace(half, path)


def writing(path):
    """Open a file for writing, without a buffer."""
    return open(path, "wb", buffering=0)
