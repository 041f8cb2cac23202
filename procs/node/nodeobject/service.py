"""This node's own object: registered, its status told, its lease renewed.

Three tasks that do not wait for each other: registration (``register``), status (``reporter``)
and lease (``lease``). The object itself is heard of by a watch of its own, and by the answers to
what we send; whoever hears says so in ``kit.view``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from kubelet import logging as klog
from kubelet.inotify import MOVED_TO, Inotify
from procs.node.apiserver.types import ApiError, Json, Purpose, Watched
from procs.node.kit import Kit, Watching
from procs.node.nodeobject import conditions, node, odd, settings
from procs.node.nodeobject.announcer import Announcer
from procs.node.nodeobject.calls import Calls
from procs.node.nodeobject.facts import Facts
from procs.node.nodeobject.gathering import Gathering, no_problem
from procs.node.nodeobject.lease import Lease
from procs.node.nodeobject.register import COLLECTION, Registration
from procs.node.nodeobject.reporter import Reporter
from procs.node.nodeobject.startup import Startup

log = klog.get_logger(__name__)

_STATE_FILE: Final = "state.json"
_WHAT: Final = "watch of the node"


def keep(_purpose: Purpose) -> None:
    """Drop no connection."""


class NodeObject:
    """Registration, status and lease."""

    def __init__(
        self,
        kit: Kit,
        *,
        drop: Callable[[Purpose], None] = keep,
        root: str = "/",
        storage: Callable[[], str] = no_problem,
    ) -> None:
        """``storage`` says why volumes do not work here yet, which makes a new node wait."""
        self._kit = kit
        self._settings = settings.read(kit.process.config, kit.process.node)
        calls = Calls(kit.api)
        self._announcer = Announcer(kit, root)
        self._gathering = Gathering(kit, self._settings, self.look, root, storage)
        self._registration = Registration(
            kit, self._settings, calls, self._announcer, self._facts, self.hear
        )
        self._reporter = Reporter(
            kit, self._settings, calls, self._announcer, self.hear, self._heard, drop
        )
        self._lease = Lease(kit, self._settings, calls, drop)
        self._startup = Startup(kit)
        self._watching: Watching | None = None
        self._inotify: Inotify | None = None

    @property
    def startup(self) -> dict[str, float]:
        """How long the parts of the node's start took, in seconds, by metric (N-66)."""
        return self._startup.durations

    def start(self) -> None:
        """Begin."""
        look = self._gathering.tree.look()
        state = look.state if look is not None else None
        self._registration.fresh = self._announcer.started(state)
        self._startup.begin(state)
        self._gathering.start()
        self._follow_tree()
        spawn = self._kit.process.spawn
        spawn(self._lease.run(), name="node lease")
        spawn(self._work(), name="node registration")

    async def stop(self) -> None:
        """Watch no more; what runs ends with the process."""
        if self._watching is not None:
            await self._watching.stop()
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    async def _work(self) -> None:
        await self._gathering.prepare()
        spawn = self._kit.process.spawn
        spawn(self._reporter.run(self._gathering), name="node status")
        spawn(self._registration.run(), name="node registration")
        # Only now: a list from before our own creation would say that there is no node.
        await self._registration.tried.wait()
        watched = Watched(COLLECTION, f"metadata.name={self._settings.node}", name="this node")
        self._watching = self._kit.watch(watched, self, self._watch_said)

    def _facts(self) -> Facts:
        self._startup.registering()
        return self._gathering.take().facts

    def look(self) -> None:
        """Look at once at what the status is to say."""
        self._reporter.wake()

    # What is heard of the object.

    def _heard(self) -> Json | None:
        """Return the object; what a predecessor knew of it lacks parts, and may be old."""
        return self._kit.view.document if self._registration.live else None

    def hear(self, item: Json | None) -> None:
        """Take the object as the API server has it now; None: there is none."""
        known = self._kit.view.document
        live, self._registration.live = self._registration.live, True
        if item is None:
            if known is not None or not live:
                log.info("There is no node object", node=self._settings.node)
                self._kit.view.heard(None)
                self._registration.wake()
            return
        found = node.sound(item, self._settings.node)
        if found is None:
            log.error("An answer is not this node's object", field="metadata.name")
            return
        self._kit.view.heard(found)
        self._announcer.heard(found)
        ready = odd.condition(found, conditions.READY).get("status") == conditions.TRUE
        self._startup.heard(ready=ready)
        if odd.text(known, "metadata", "uid") != self._kit.view.uid or not live:
            self._registration.wake()
            self._lease.wake()
        self._reporter.wake()

    def listed(self, items: list[Json], _version: str) -> None:
        """Take what the watch begins with."""
        mine = [item for item in items if node.sound(item, self._settings.node) is not None]
        self.hear(mine[0] if mine else None)

    def changed(self, item: Json) -> None:
        """Take a change from the watch."""
        found = node.sound(item, self._settings.node)
        if found is None:
            log.error("What was watched is not this node's object", field="metadata.name")
        elif not node.known_already(found, self._kit.view.document):  # our own answers are faster
            self.hear(found)

    def deleted(self, item: Json) -> None:
        """Take that the object is gone, unless there is another one by now."""
        uid = odd.text(item, "metadata", "uid")
        if not uid or uid == self._kit.view.uid:
            self.hear(None)

    def _watch_said(self, error: ApiError | None) -> None:
        self._kit.troubles.tell(_WHAT, error)
        if error is None:
            self._lease.retry()
            self._reporter.retry()
            self._registration.wake()

    # What is seen of the other processes.

    def _follow_tree(self) -> None:
        """Look again when the supervisor's word changes; without it, at the next usual look."""
        try:
            inotify = Inotify()
            inotify.add(self._settings.run_dir, MOVED_TO)
        except OSError as err:
            log.warning("The state of the processes is not followed, only polled", err=err)
            return
        self._inotify = inotify
        asyncio.get_running_loop().add_reader(inotify.fileno(), self._tree_changed)

    def _tree_changed(self) -> None:
        assert self._inotify is not None
        with contextlib.suppress(OSError):
            if any(event.name == _STATE_FILE for event in self._inotify.read()):
                self._reporter.wake()
