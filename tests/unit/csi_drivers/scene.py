"""What registration stands on: tasks, table rows and an ear for what process node is asked."""

from __future__ import annotations

import asyncio
import time

from kubelet.channels.errors import PeerDownError
from kubelet.channels.messages import CsiDriverNoted, RegisterCsiDriver
from kubelet.channels.wire import Hint
from kubelet.cluster.rows import CLUSTER, CONNECTION_KEY, ConnectionRow, CsiDriverRow, driver_key
from procs.volumes.csi.drivers import Drivers
from procs.volumes.csi.registration import Registration


class Tables:
    """Table cluster, as it is read."""

    def __init__(self):
        self.rows = {}

    def value(self, table, key):
        assert table == CLUSTER
        return self.rows.get(key)


class Scene:
    """A process with plugins; what it asks of ``node`` is answered here."""

    def __init__(self, root):
        self.root = str(root)
        self.registry = root / "plugins_registry"
        self.tables = Tables()
        self.channels = self
        self.drivers = Drivers()
        self.changes = []
        self.asked = []
        self.records = []
        self.error = ""  # what node answers
        self.down = False
        self._hints = []
        self._tasks = set()
        self._moved = asyncio.Event()
        self.registration = None

    def begin(self, **more):
        """Start the registration, again as a successor's too."""
        self.drivers = Drivers()
        self.drivers.on_change(lambda name: self._note(self.changes, name))
        settings = {"api_server": True, "dial_seconds": 2.0, **more}
        self.registration = Registration(self, self.root, self.drivers, **settings)
        self.registration.start()
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        if self.registration is not None:
            self.registration.close()
        for task in list(self._tasks):
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        assert not [r for r in results if isinstance(r, Exception)]

    def _note(self, where, what):
        where.append(what)
        self._moved.set()

    # What the process is asked for.

    def spawn(self, work, name):
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task):
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)  # a failed one stays, and is found at the end
        self._moved.set()

    def on_hint(self, callback):
        self._hints.append(callback)

    def record(self, what, text="", pod=""):
        self.records.append((what, text, pod))

    async def ask(self, peer, request, *, timeout):  # noqa: ASYNC109 - as the channel has it
        assert peer == "node"
        assert timeout > 0
        self._note(self.asked, request)
        if self.down:
            raise PeerDownError("node is away")
        return CsiDriverNoted(self.error)

    # What others do.

    def row(self, name, **fields):
        """Have a CSIDriver object."""
        self._write(driver_key(name), CsiDriverRow(name, **fields))

    def connection(self, *, connected):
        """Be connected with the API server, or not."""
        self._write(CONNECTION_KEY, ConnectionRow(connected=connected))

    def _write(self, key, row):
        self.tables.rows[key] = row.to_wire()
        for callback in self._hints:
            callback(Hint(CLUSTER, key, 0))

    # What comes of it.

    async def until(self, condition, seconds=20.0):
        """Wait until something is so: after what happened here, and now and then for the rest."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (self.asked, self.changes, self.records)
            self._moved.clear()
            try:
                async with asyncio.timeout(0.02):  # what happens in other processes has no event
                    await self._moved.wait()
            except TimeoutError:
                pass

    def registered(self, name):
        """Tell what the API server was told of a driver, the newest first."""
        return [
            ask
            for ask in reversed(self.asked)
            if isinstance(ask, RegisterCsiDriver) and ask.name == name
        ]
