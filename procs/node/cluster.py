"""A node in a cluster: from a kubeconfig to everything that is said to its API server.

The order is that of a first start; a process that is started again finds all of it in the tables
and in the ledger, and goes through the same steps within milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from kubelet import logging as klog
from kubelet.process import Process
from kubelet.process.process import RestartWantedError
from procs.node.apiserver.client import Client
from procs.node.apiserver.connection import Connection
from procs.node.apiserver.kubeconfig import read_endpoint
from procs.node.apiserver.limiter import Limits
from procs.node.apiserver.metrics import RestMetrics
from procs.node.apiserver.reflector import watching
from procs.node.apiserver.types import Api, Endpoint
from procs.node.certificates import files
from procs.node.certificates.service import Certificates
from procs.node.events.recorder import Recorder
from procs.node.kit import Kit, Watch
from procs.node.ledger import Ledger
from procs.node.nodeobject.service import NodeObject
from procs.node.objects.classes import RuntimeClasses
from procs.node.objects.csidrivers import CsiDrivers
from procs.node.objects.service import Objects
from procs.node.objects.services import Services
from procs.node.pods.mirrors import Mirrors
from procs.node.pods.watch import AssignedPods
from procs.node.pods.writer import StatusWriter
from procs.node.reviews import Reviews
from procs.node.storage.attachments import Attachments
from procs.node.storage.claims import ClaimStatus
from procs.node.storage.drivers import CsiNode
from procs.node.troubles import Troubles
from procs.node.view import NodeView

log = klog.get_logger(__name__)

STOP_SECONDS: Final = 5.0  # for the last words; less than the supervisor waits
_LOOK_SECONDS: Final = 30.0  # between two looks at the kubeconfig, whatever inotify says


class Cluster:
    """Everything between this node and its API server."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ledger = Ledger(process)
        self._view = NodeView(process)
        self._troubles = Troubles(process)
        self._certificates = Certificates(process, self._ledger, self._troubles)
        self._recorder = Recorder(
            process,
            self._view,
            self._ledger,
            told=lambda err: self._troubles.tell("events", err),
        )

    async def run(self) -> None:
        """Find the API server, then keep everything going until asked to stop."""
        self._view.load()
        self._troubles.load()
        self._recorder.start()
        endpoint = await self._found()
        if endpoint is None:
            return
        self._troubles.note(server=endpoint.server)
        connection = Connection(endpoint, self._heard)
        try:
            await self._work(endpoint, connection)
        finally:
            await connection.close()

    async def _found(self) -> Endpoint | None:
        """Return where the API server is; None: the process is to stop before that is known."""
        looking = asyncio.create_task(self._certificates.endpoint(self._open), name="kubeconfig")
        stopping = asyncio.create_task(self._process.stopping.wait())
        try:
            await asyncio.wait((looking, stopping), return_when=asyncio.FIRST_COMPLETED)
            return looking.result() if looking.done() else None
        finally:
            looking.cancel()
            stopping.cancel()

    @asynccontextmanager
    async def _open(self, path: str) -> AsyncIterator[tuple[Api, Watch]]:
        """Open the API server that another kubeconfig names, for a while."""
        connection = Connection(await read_endpoint(path, None), self._heard)
        try:
            client = Client(connection, Limits.of(self._process.config))
            yield client, watching(self._process, client)
        finally:
            await connection.close()

    def _heard(self, error: str | None) -> None:
        was = self._troubles.row.connected
        self._troubles.connected(error)
        if error is None and not was:
            self._recorder.wake()

    async def _work(self, endpoint: Endpoint, connection: Connection) -> None:
        process = self._process
        metrics = RestMetrics(process.row.count)
        client = Client(connection, Limits.of(process.config), metrics=metrics)
        kit = Kit(
            process=process,
            api=client,
            watch=watching(process, client),
            emit=self._recorder.emit,
            ledger=self._ledger,
            view=self._view,
            troubles=self._troubles,
        )
        self._recorder.attach(client)
        storage = CsiNode(kit, ready=lambda: node.look())  # noqa: PLW0108 - it is made below
        node = NodeObject(kit, drop=connection.drop, storage=storage.problem)
        pods = AssignedPods(kit)
        writer = StatusWriter(kit, pods)
        objects = Objects(kit, pods)
        node.start()
        storage.start()
        pods.start()
        objects.start()
        writer.start()
        Mirrors(kit, pods).start()
        Services(kit).start()
        RuntimeClasses(kit).start()
        CsiDrivers(kit, objects.driver_changed).start()
        Attachments(kit).start()
        ClaimStatus(kit, objects.read_claim).start()
        Reviews(kit).start()
        self._certificates.start(kit, endpoint, renewed=connection.look)
        process.spawn(self._kubeconfig_changed(), name="kubeconfig")
        await process.stopping.wait()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await writer.stop()
                await node.stop()
        except TimeoutError:
            log.warning("Stopped before everything was said to the API server")

    async def _kubeconfig_changed(self) -> None:
        """Start anew when somebody gives the node another kubeconfig: nothing is lost by that."""
        path = self._process.config.str("--kubeconfig")
        before = _content(path)
        changes = files.Changes((path,))
        try:
            while True:
                await changes.wait(_LOOK_SECONDS)
                now = _content(path)
                if now and now != before:
                    raise RestartWantedError(f"{path} is another one now")
        finally:
            changes.close()


def _content(path: str) -> bytes:
    """Return what is in a file; nothing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
