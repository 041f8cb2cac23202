"""What is said about volumes, against the API server on the loopback with objects in memory."""

from __future__ import annotations

import asyncio
import contextlib
import time
from types import SimpleNamespace

from procs.node.apiserver.client import Client
from procs.node.apiserver.connection import Connection
from procs.node.apiserver.limiter import Limits
from procs.node.apiserver.types import Endpoint
from procs.node.kit import Kit
from procs.node.ledger import Ledger
from procs.node.storage.attachments import Attachments
from procs.node.storage.claims import ClaimStatus
from procs.node.storage.drivers import CsiNode
from procs.node.troubles import Troubles
from procs.node.view import NodeView
from tests.unit.node.events_scene import Standing
from tests.unit.node.nodeobject_scene import ApiServer, soon

NAME = "n1"
NODE = f"/api/v1/nodes/{NAME}"
CSINODES = "/apis/storage.k8s.io/v1/csinodes"
CSINODE = f"{CSINODES}/{NAME}"
SECOND_NS = 10**9


class Scene:
    """The parts of the process that speak about volumes, asked as ``volumes`` asks them."""

    def __init__(self, root, server):
        self.root = root
        self.server = server
        self.noted = []  # claims that are to be read again
        self.looks = []  # what was wrong with storage, each time that it changed
        self.begin()

    def begin(self):
        """Be a new process over what there is."""
        self.process = Standing(self.root, "--kubeconfig=/k")
        view, troubles = NodeView(self.process), Troubles(self.process)
        view.load()
        self.connection = Connection(
            Endpoint(f"http://127.0.0.1:{self.server.port}"), troubles.connected
        )
        client = Client(self.connection, Limits.of(self.process.config))
        self.kit = Kit(self.process, client, None, None, Ledger(self.process), view, troubles)
        self.drivers = CsiNode(self.kit, ready=lambda: self.looks.append(self.drivers.problem()))
        Attachments(self.kit).start()
        ClaimStatus(self.kit, lambda *claim: self.noted.append(claim)).start()

    async def ask(self, message, seconds=5.0):
        """Ask as another process does."""
        deadline = time.monotonic_ns() + int(seconds * SECOND_NS)
        caller = SimpleNamespace(kind="volumes", uid=0, pid=1, deadline_ns=deadline)
        return await self.process.channels.ask(message, caller)

    def registered(self, uid="", **metadata):
        """Have the node be there, as its registration heard of it."""
        made = {"name": NAME, **({"uid": uid} if uid else {}), **metadata}
        self.server.put(NODE, {"metadata": made, "spec": {}, "status": {}})
        self.kit.view.heard(self.server.objects[NODE])

    async def started(self, **metadata):
        """Have the node be there, and its CSINode."""
        self.registered(**metadata)
        self.drivers.start()
        await soon(lambda: self.drivers.problem() == "")

    async def end(self):
        await self.process.end()
        await self.connection.close()

    async def die(self):
        """Be killed: only the tables are left."""
        await self.end()
        self.looks.clear()
        self.begin()

    @property
    def node(self):
        return self.server.objects[NODE]["metadata"]

    @property
    def csinode(self):
        return self.server.objects.get(CSINODE)

    def names(self):
        return [driver["name"] for driver in self.csinode["spec"]["drivers"]]

    def writes(self):
        """What was written so far: method and path."""
        return [(verb, path) for verb, path, _ in self.server.asked if verb != "GET"]


def on_stage(root, work, seconds=30.0):
    """Run a story about a scene that is not started."""

    async def main():
        server = ApiServer()
        async with asyncio.timeout(seconds):
            await server.start()
            scene = Scene(root, server)
            try:
                await work(scene)
            finally:
                with contextlib.suppress(asyncio.CancelledError):
                    await scene.end()
                await server.stop()

    asyncio.run(main())
