"""Keeps CSINode, and has it and the Node name the CSI drivers of this node (L-41).

One change at a time: each reads what there is, so that two drivers that come at the same moment
do not write over each other. The drivers are in the ledger: a Node that is made anew has lost what
it said of them, and its CSINode goes with the old one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kubelet import logging as klog
from kubelet.channels.messages import CsiDriverNoted, RegisterCsiDriver, UnregisterCsiDriver
from kubelet.channels.server import Caller
from kubelet.config.errors import one_line
from procs.node.apiserver.types import ApiError, Json
from procs.node.kit import Kit
from procs.node.nodeobject import cadence, odd
from procs.node.nodeobject.register import COLLECTION as NODES
from procs.node.storage import csinode
from procs.node.storage.collisions import Sleep, settle
from procs.node.storage.csinode import CollisionError

log = klog.get_logger(__name__)

_WHAT: Final = "CSINode"
_PART: Final = "csidriver"
_READY: Final = "csinode/node"  # in the ledger: the UID of the Node whose CSINode was there
NOT_YET: Final = "CSINode is not yet initialized"
_START_NS: Final = 2 * 10**9  # for what collides at the start, before that is said


def _nobody() -> None:
    """Tell nobody."""


class CsiNode:
    """The CSINode object of this node."""

    def __init__(
        self, kit: Kit, *, sleep: Sleep = asyncio.sleep, ready: Callable[[], None] = _nobody
    ) -> None:
        """``ready`` is called when ``problem`` says something else."""
        self._kit = kit
        self._sleep = sleep
        self._ready = ready
        self._node = kit.process.node
        self._path = f"{csinode.COLLECTION}/{self._node}"
        self._lock = asyncio.Lock()
        self._wake = asyncio.Event()
        self._error = ""
        self._done = ""  # the UID of the Node for which everything is there

    def start(self) -> None:
        """Have the object there, and answer from now on."""
        self._kit.view.on_heard(self._wake.set)
        self._kit.process.channels.handle(RegisterCsiDriver, self._register)
        self._kit.process.channels.handle(UnregisterCsiDriver, self._unregister)
        self._kit.process.spawn(self._run(), name=_WHAT)

    def problem(self) -> str:
        """Say why pods with CSI volumes cannot run here yet (N-14); "": they can."""
        uid = self._kit.view.uid
        if uid and uid in (self._done, self._kit.ledger.get(_READY)):
            return ""
        return f"failed to initialize CSINode: {self._error}" if self._error else NOT_YET

    async def _run(self) -> None:
        """See to the object at the start, and whenever the Node is another."""
        pause = 0.0
        while True:
            self._wake.clear()
            uid = self._kit.view.uid
            if not uid or uid == self._done:
                await self._wake.wait()
                continue
            try:
                await self._settled(self._begin, self._kit.clock() + _START_NS)
            except (ApiError, CollisionError) as err:
                self._failed(err)
                pause = cadence.next_retry(pause)
                await self._sleep(pause)
            else:
                pause = 0.0

    def _failed(self, err: Exception) -> None:
        self._kit.troubles.tell(_WHAT, err)
        self._error = one_line(str(err))
        self._ready()

    async def _begin(self) -> None:
        """Have the object there, and the drivers in it that a Node of another UID had."""
        node = await self._kit.api.get(f"{NODES}/{self._node}")
        uid = odd.text(node, "metadata", "uid")
        found = await self._there(uid)
        changed = csinode.annotated(found)
        if changed is not None:
            await self._kit.api.replace(self._path, changed)
        if self._kit.ledger.get(_READY) != uid:
            for name, value in list(self._kit.ledger.items(_PART)):
                driver = _remembered(name, value)
                if driver is not None:
                    await self._install(driver)
        self._kit.ledger.put(_READY, uid)
        self._done, self._error = uid, ""
        self._kit.troubles.tell(_WHAT, None)
        self._ready()

    async def _there(self, uid: str) -> Json:
        """Return the object; it is made if there is none, and made anew if it is another's."""
        api = self._kit.api
        try:
            found = await api.get(self._path)
        except ApiError as err:
            if not err.not_found:
                raise
        else:
            if csinode.is_owned(found, self._node, uid):
                return found
            log.info("CSINode of an earlier node is removed", node=self._node)
            await api.delete(self._path, uid=odd.text(found, "metadata", "uid"))
        return await api.create(csinode.COLLECTION, csinode.new(self._node, uid))

    # Requests.

    async def _register(self, request: RegisterCsiDriver, caller: Caller) -> CsiDriverNoted:
        problem = csinode.problem_with(request)
        if problem:
            return CsiDriverNoted(problem)
        try:
            await self._settled(lambda: self._install(request), caller.deadline_ns)
        except (ApiError, CollisionError) as err:
            return CsiDriverNoted(one_line(str(err)))
        self._kit.ledger.put(f"{_PART}/{request.name}", _memory(request))
        return CsiDriverNoted()

    async def _unregister(self, request: UnregisterCsiDriver, caller: Caller) -> CsiDriverNoted:
        self._kit.ledger.delete(f"{_PART}/{request.name}")
        try:
            await self._settled(lambda: self._remove(request.name), caller.deadline_ns)
        except (ApiError, CollisionError) as err:
            return CsiDriverNoted(one_line(str(err)))
        return CsiDriverNoted()

    async def _settled(self, work: Callable[[], Awaitable[None]], deadline_ns: int) -> None:
        """Do something alone, and again where somebody else was faster, while there is time.

        A Node that is not there is about to be registered.
        """

        async def alone() -> None:
            async with self._lock:
                await work()

        def again(err: ApiError) -> bool:
            return err.conflict or err.not_found

        await settle(self._kit, alone, deadline_ns, again=again, sleep=self._sleep)

    async def _install(self, driver: RegisterCsiDriver) -> None:
        node = await self._kit.api.get(f"{NODES}/{self._node}")
        patch = csinode.node_with(node, driver)
        if patch is not None:
            await self._kit.api.patch(f"{NODES}/{self._node}/status", patch)
        found = await self._there(odd.text(node, "metadata", "uid"))
        changed = csinode.with_driver(found, driver)
        if changed is not None:
            await self._kit.api.replace(self._path, changed)
            log.info("CSI driver noted in CSINode", driver=driver.name)

    async def _remove(self, name: str) -> None:
        try:
            found = await self._kit.api.get(self._path)
        except ApiError as err:
            if not err.not_found:
                raise
            found = {}
        changed = csinode.without_driver(found, name)
        if changed is not None:
            await self._kit.api.replace(self._path, changed)
            log.info("CSI driver removed from CSINode", driver=name)
        node = await self._kit.api.get(f"{NODES}/{self._node}")
        patch = csinode.node_without(node, name)
        if patch is not None:
            await self._kit.api.patch(f"{NODES}/{self._node}/status", patch)


def _memory(driver: RegisterCsiDriver) -> list[Any]:
    return [driver.node_id, driver.max_volumes, dict(driver.topology)]


def _remembered(name: str, value: Any) -> RegisterCsiDriver | None:
    """Read a driver back from the ledger; anything else is none."""
    match value:
        case [str(node_id), int(most), dict(topology)]:
            known = {str(key): str(text) for key, text in topology.items()}
            return RegisterCsiDriver(name, node_id, most, known)
    return None
