"""What the recorder stands on in unit tests: real tables, a server, no channels."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import replace

from kubelet import config
from kubelet.channels.messages import BY_TYPE
from kubelet.channels.wire import Hint
from kubelet.pods.rows import EVENTS, EventsRow
from kubelet.process.tables import Tables
from procs.node.apiserver.client import Client
from procs.node.apiserver.limiter import Limits
from procs.node.events.recorder import Recorder
from procs.node.ledger import Ledger
from procs.node.view import NodeView
from procs.syncloop.events import added
from shm.codec import pack
from shm.table import Writer
from shm.tables import BY_NAME
from tests.unit.node.loopback import answer, refusal, serving

S = 1_000_000_000
T0 = 1_700_000_000 * S


class Row:
    """The board's row, on which one can wait."""

    def __init__(self):
        self.counters = Counter()
        self._changed = asyncio.Event()

    def count(self, name, n=1):
        self.counters[name] += n
        self._changed.set()

    async def until(self, name, number):
        """Wait until something was counted so often."""
        while self.counters[name] < number:
            self._changed.clear()
            await self._changed.wait()

    def depth(self, name, n):
        pass


class Channels:
    """Keeps the handlers, and asks them as the process would be asked."""

    def __init__(self):
        self.handlers = {}

    def handle(self, body, handler):
        assert "node" in BY_TYPE[body].handled_by
        self.handlers[body] = handler

    async def ask(self, message, caller=None):
        reply = await self.handlers[type(message)](message, caller)
        assert isinstance(reply, BY_TYPE[type(message)].reply)
        return reply

    def publish(self, table, key, generation):
        pass


class Standing:
    """The node process."""

    def __init__(self, directory, *flags):
        self.kind, self.node = "node", "n1"
        self.config = config.load(list(flags)).config
        self.tables = Tables(directory, "node")
        self.row = Row()
        self.channels = Channels()
        self.tasks = set()
        self.records = []
        self._hints = []

    def on_hint(self, callback):
        self._hints.append(callback)

    def hint(self, key):
        for callback in self._hints:
            callback(Hint(EVENTS, key, 0))

    def record(self, what, text="", pod=""):
        self.records.append((what, text, pod))

    def put(self, table, key, value, stamp_ns=0):
        self.tables.put(table, key, value, stamp_ns)

    def spawn(self, work, name):
        task = asyncio.create_task(work, name=name)
        self.tasks.add(task)
        return task

    async def end(self):
        """Be killed: nothing of it gets to run any more."""
        for task in self.tasks:
            task.cancel()
        for task in self.tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self.tables.close()


class Kept:
    """What an API server has of events: applies what it is sent, and counts it."""

    def __init__(self):
        self.events = {}
        self.calls = []
        self.troubles = []  # steps that come first, one for each request
        self.after = []  # the same, but what was asked is done before
        self.changed = asyncio.Event()

    def _apply(self, asked):
        name = asked.path.rsplit("/", 1)[1]
        if asked.method == "POST":
            name = asked.json["metadata"]["name"]
            if name in self.events:
                return refusal(409, "AlreadyExists")
            self.events[name] = asked.json
        elif name not in self.events:
            return refusal(404, "NotFound")
        else:
            self.events[name] = {**self.events[name], **asked.json}
        return answer(self.events[name])

    async def step(self, asked, writer):
        if self.troubles:
            self.calls.append("refused")
            await self.troubles.pop(0)(asked, writer)
        else:
            self.calls.append(asked.method)
            found = self._apply(asked)
            await (self.after.pop(0) if self.after else found)(asked, writer)
        self.changed.set()

    async def until(self, condition):
        """Wait until something is true of it."""
        while not condition(self):
            self.changed.clear()
            await self.changed.wait()

    @property
    def said(self):
        """Reason, message and count of each event, in order."""
        return [(e["reason"], e["message"], e["count"]) for e in self.events.values()]


class Forever(list):
    """A script that never ends."""

    def __init__(self, step):
        super().__init__([step])

    def pop(self, _index=0):
        return self[0]


class Wall:
    """The time of day."""

    def __init__(self):
        self.now_ns = T0

    def __call__(self):
        self.now_ns += 1
        return self.now_ns


class Never:
    """Chance that has every first wait end at once."""

    def random(self):
        return 0.0


class Scene:
    """Syncloop's table, an API server, and one life of the node process after the other."""

    def __init__(self, directory, transport):
        self.directory = directory
        self.syncloop = Writer.attach(directory, BY_NAME[EVENTS])
        self.rows = {}
        self.kept = Kept()
        self.wall = Wall()
        self.clock = Wall()
        self.transport = transport
        self.process = None
        self.heard = []

    def live(self, *flags, attach=True):
        """Start the process anew."""
        self.process = Standing(self.directory, *(flags or ("--kubeconfig=/k",)))
        view = NodeView(self.process)
        self.recorder = Recorder(
            self.process,
            view,
            Ledger(self.process),
            self.wall,
            self.clock,
            chance=Never(),
            told=self.heard.append,
        )
        self.recorder.start()
        if attach:
            self.attach()
        return self.recorder

    def attach(self):
        self.recorder.attach(Client(self.transport, Limits()))

    async def die(self):
        if self.process is not None:
            await self.process.end()
            self.process = None

    def happen(self, event, uid="u1", name="web", *, hint=True):
        """Have syncloop note an event of a pod."""
        row = self.rows.get(uid) or EventsRow(uid, name, "shop")
        self.rows[uid] = row = replace(row, events=added(row.events, event))
        self.syncloop.put(uid, pack(row.to_wire()))
        if hint and self.process is not None:
            self.process.hint(uid)

    def gone(self, uid="u1"):
        """Have syncloop forget a pod."""
        self.rows.pop(uid, None)
        self.syncloop.delete(uid)
        self.process.hint(uid)


@contextlib.asynccontextmanager
async def scene(tmp_path):
    directory = tmp_path / "tables"
    directory.mkdir()
    async with serving() as (server, transport):
        found = Scene(directory, transport)
        found.server = server
        server.script = Forever(found.kept.step)
        try:
            yield found
        finally:
            await found.die()
            found.syncloop.close()
