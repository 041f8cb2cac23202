"""Has the node's object there (N-1, N-5), and there again when somebody deletes it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from kubelet import logging as klog
from procs.node.apiserver.types import ApiError, Json
from procs.node.kit import Kit
from procs.node.nodeobject import cadence, node
from procs.node.nodeobject.announcer import Announcer
from procs.node.nodeobject.calls import Calls
from procs.node.nodeobject.facts import Facts
from procs.node.nodeobject.settings import Settings

log = klog.get_logger(__name__)

COLLECTION: Final = "/api/v1/nodes"
_WHAT: Final = "node registration"
_SETTLED_NS: Final = 60 * 10**9  # a node that was there for so long was not deleted by a habit
_DEVICES: Final = "device-plugins/kubelet_internal_checkpoint"

# Takes the object as the API server has it now; None: there is none.
Hear = Callable[[Json | None], None]


class Registration:
    """Keeps the node registered."""

    def __init__(  # noqa: PLR0913, PLR0917 - once, from the service
        self,
        kit: Kit,
        settings: Settings,
        calls: Calls,
        announcer: Announcer,
        facts: Callable[[], Facts],
        hear: Hear,
    ) -> None:
        self._kit = kit
        self._settings = settings
        self._calls = calls
        self._announcer = announcer
        self._facts = facts
        self._hear = hear
        self._path = f"{COLLECTION}/{settings.node}"
        self._reconciled = ""  # the UID of the object that was looked through
        self._created_ns = 0
        self._pause = 0.0  # after a failure
        self._patience = -1.0  # before the object is made anew: none, the first time
        self._wake = asyncio.Event()
        self.live = False  # the object, or that there is none, was heard of in this life
        self.tried = asyncio.Event()  # there was a first answer
        self.fresh = False  # the whole kubelet was started, not this process alone

    def wake(self) -> None:
        """Look again at what there is to do."""
        self._wake.set()

    async def run(self) -> None:
        """Register, and again whenever it is needed."""
        while True:
            self._wake.clear()
            try:
                seconds = await self._step()
            except ApiError as err:
                self._kit.troubles.tell(_WHAT, err)
                self._pause = cadence.next_retry(self._pause)
                seconds = max(self._pause, min(err.retry_after or 0.0, 60.0))
            self.tried.set()
            await self._sleep(seconds)

    async def _sleep(self, seconds: float | None) -> None:
        """Wait for news; None: for as long as it takes."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _step(self) -> float | None:
        """Do the next thing; how long to wait then, None: until something happens."""
        known = self._kit.view.document
        if known is not None and not self.live:
            await self._get()
        elif known is None and self._settings.register:
            await self._wait_to_remake()
            await self._register()
        elif known is None and not self.live:
            await self._get()
        known = self._kit.view.document
        if known is None:
            self._kit.troubles.note(registered=False)
            if not self._settings.register:
                self._kit.troubles.tell(_WHAT, "the node is not there, and registerNode is false")
            return 0.0 if self._settings.register else None
        await self._reconcile(known)
        self._pause = 0.0
        self._kit.troubles.tell(_WHAT, None)
        self._kit.troubles.note(registered=True)
        return None

    async def _wait_to_remake(self) -> None:
        """Wait a little where somebody deletes the object as soon as it is made."""
        if not self._created_ns or self._kit.clock() - self._created_ns >= _SETTLED_NS:
            self._patience = -1.0
            return
        self._patience = 0.0 if self._patience < 0 else cadence.next_retry(self._patience)
        await asyncio.sleep(self._patience)

    async def _get(self) -> None:
        try:
            self._hear(await self._calls.get(self._path))
        except ApiError as err:
            if not err.not_found:
                raise
            self._hear(None)

    async def _register(self) -> None:
        """Create the object, or find the one that is there."""
        body = node.initial(self._facts(), self._settings)
        self._announcer.creating()
        try:
            created = await self._calls.create(COLLECTION, body)
        except ApiError as err:
            there = err.already_exists or (err.forbidden and not self._settings.exists_only)
            if not there:
                raise
            await self._find(err)
            return
        log.info("Node registered", node=self._settings.node)
        self._kit.process.row.count("node_registrations")
        self._created_ns = self._kit.clock()
        self._hear(created)

    async def _find(self, refused: ApiError) -> None:
        try:
            found = await self._calls.get(self._path)
        except ApiError as err:
            raise refused if err.not_found else err from None
        self._announcer.existed()
        self._hear(found)
        log.info("Node was registered before", node=self._settings.node)

    async def _reconcile(self, existing: Json) -> None:
        uid = self._kit.view.uid
        if self._reconciled == uid:
            return
        wanted = node.initial(self._facts(), self._settings)
        patch = node.reconcile(existing, wanted, reset=self.fresh and self._without_devices())
        if patch is not None:
            self._hear(await self._calls.patch(f"{self._path}/status", patch))
            log.info("Node put right", node=self._settings.node, fields=sorted(patch))
        self._reconciled = uid

    def _without_devices(self) -> bool:
        """Whether nothing on the disk tells of devices that were offered here (N-5)."""
        return not os.path.exists(f"{self._settings.root_dir}/{_DEVICES}")
