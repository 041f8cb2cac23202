"""What a process is given to work with; its ``main`` reads as a story over this."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from kubelet import logging as klog
from kubelet.channels.channels import Channels
from kubelet.channels.errors import ChannelError
from kubelet.channels.messages import CheckTable
from kubelet.channels.waiting import Waiters
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.config import Effective
from kubelet.process.heartbeat import Heartbeat
from kubelet.process.operations import Operations
from kubelet.process.tables import Tables
from shm.board import RowWriter
from shm.recorder import RecorderWriter
from shm.table import Entry
from shm.tables import BY_NAME as TABLES

log = klog.get_logger(__name__)


class RestartWantedError(Exception):
    """The process must start anew; its text says why."""


class Process:
    """One process of the tree."""

    def __init__(  # noqa: PLR0913 - by name, once, from the frame
        self,
        *,
        kind: str,
        node: str,
        config: Effective,
        row: RowWriter,
        recorder: RecorderWriter,
        tables: Tables,
        heartbeat: Heartbeat,
        listeners: dict[str, int],
        quarantined: frozenset[str],
    ) -> None:
        self.kind = kind
        self.node = node
        self.config = config
        self.row = row
        self.tables = tables
        self.listeners = listeners  # name -> descriptor of a listening socket
        self.quarantined = quarantined  # pods whose handling kept killing this kind: leave them
        self.stopping = asyncio.Event()
        self.heartbeat = heartbeat
        self.waiters = Waiters()
        self._recorder = recorder
        self._operations = Operations(row)
        self._complaints: set[str] = set()
        self._hints: list[Callable[[Hint], None]] = []
        self._tasks: asyncio.TaskGroup | None = None
        self._spawned: set[asyncio.Task[None]] = set()
        self._channels: Channels | None = None

    # Made by the frame once the loop runs.

    def enter(self, tasks: asyncio.TaskGroup, channels: Channels) -> None:
        """Take the task group and the channels, which exist only inside the loop."""
        self._tasks = tasks
        self._channels = channels
        self.tables.on_broken(self._ask_writer)
        for name, writer in self.tables.writers.items():
            channels.offer(name, partial(getattr, writer, "generation"))
        channels.subscribe(self.tables.read, self._hinted)
        self.heartbeat.on_tick(self._tick)

    def leave(self) -> None:
        """Beat no more, and end what still runs beside ``main``."""
        self.heartbeat.stop()
        for task in self._spawned:
            task.cancel()

    @property
    def channels(self) -> Channels:
        """The process's sockets."""
        assert self._channels is not None
        return self._channels

    # Working.

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run something beside; an error in it that nobody expected ends the process."""
        assert self._tasks is not None
        task = self._tasks.create_task(work, name=name)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)
        return task

    def doing(self, operation: str, pod: str = "") -> AbstractContextManager[None]:
        """Be in an operation, shown on the board with its age."""
        return self._operations.doing(operation, pod)

    def record(self, what: str, text: str = "", pod: str = "") -> None:
        """Note something that was done, for ``kubeletctl events``."""
        self._recorder.record(what, text, pod)

    # Tables.

    def put(self, table: str, key: str, value: Any, stamp_ns: int = 0) -> None:
        """Write an entry and tell the readers."""
        generation = self.tables.put(table, key, value, stamp_ns)
        self.channels.publish(table, key, generation)

    def delete(self, table: str, key: str) -> None:
        """Remove an entry and tell the readers."""
        writer = self.tables.writers[table]
        if writer.delete(key):
            self.channels.publish(table, key, writer.generation)

    async def get_newer_than(self, table: str, key: str, stamp_ns: int, seconds: float) -> Entry:
        """Wait for an entry observed after a moment; TimeoutError when none came in time."""

        def look() -> Entry | None:
            entry = self.tables.get(table, key)
            return entry if entry is not None and entry.stamp_ns > stamp_ns else None

        return await self.waiters.wait(table, key, look, seconds)

    def on_hint(self, callback: Callable[[Hint], None]) -> None:
        """Call back when a table that this process reads has changed; key ``*`` is anything."""
        self._hints.append(callback)

    def _hinted(self, hint: Hint) -> None:
        self.row.count("hints")
        self.waiters.notify(hint.table, hint.key)
        for callback in self._hints:
            callback(hint)

    def _tick(self) -> None:
        # A hint may be lost, a table may have been replaced: the generations tell.
        for table in self.tables.tick():
            self._hinted(Hint(table, ANY_KEY, 0))

    def _ask_writer(self, table: str, reason: str) -> None:
        if table not in self._complaints:
            self._complaints.add(table)
            self.record("table broken", f"{table}: {reason}")
            self.spawn(self._complain(table), name=f"complain about {table}")

    async def _complain(self, table: str) -> None:
        """Have the writer look at its table; a reader without root opens it at a new start."""
        try:
            found = await self.channels.ask(TABLES[table].writer, CheckTable(table), timeout=5.0)
        except ChannelError as err:  # it may be starting; the next tick asks again
            log.v(1, "Could not ask the writer about its table", table=table, err=err)
        else:
            if found.problem is None and not self.tables.can_open:
                raise RestartWantedError(f"table {table} was replaced; it can be opened at a start")
        finally:
            self._complaints.discard(table)
