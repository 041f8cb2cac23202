"""Plugins that appear in the registry directory become CSI drivers of this node (L-40, L-41).

For each socket there one task asks who it is, asks the driver what it calls this node, has the API
server know of it, and says what became of it. What fails is tried again, later each time. A socket
that is made anew is a plugin that registers anew; one that is gone takes its driver along. The
sockets are all there is to know: whoever starts anew finds them and registers all of them again.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import Final

from kubelet import logging as klog
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.cluster.rows import CLUSTER, CONNECTION_KEY, ConnectionRow
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process
from procs.volumes.csi.driver import Driver
from procs.volumes.csi.drivers import Drivers
from procs.volumes.csi.errors import CsiError, RegistrationError, TakenError
from procs.volumes.csi.registration_api import ApiServer, NodeInfo
from procs.volumes.csi.registration_calls import DIAL_SECONDS, Registrar
from procs.volumes.csi.registration_rules import (
    Offer,
    PluginInfo,
    Version,
    check_free,
    offer,
    wait_seconds,
)
from procs.volumes.csi.registration_updates import Updates
from procs.volumes.csi.watcher import LOOK_SECONDS, Stamp, Watcher

log = klog.get_logger(__name__)

DIRECTORY: Final = "plugins_registry"


@dataclass(slots=True, eq=False)
class _Plugin:
    """A registration socket, and how it stands with it."""

    socket: str
    stamp: Stamp
    holds: str = ""  # the driver that it has registered
    version: Version = ()
    failures: int = 0
    said: str = ""  # the complaint that was logged last
    error: RegistrationError | None = None  # why it is not registered
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Registration:
    """Keeps ``drivers`` as the sockets in the registry directory have it."""

    def __init__(  # noqa: PLR0913 - by name, once, and in tests
        self,
        process: Process,
        root: str,
        drivers: Drivers,
        *,
        api_server: bool,
        mutable_count: bool = True,  # gate MutableCSINodeAllocatableCount
        look_seconds: float = LOOK_SECONDS,
        dial_seconds: float = DIAL_SECONDS,
    ) -> None:
        self._process = process
        self._drivers = drivers
        self._dial_seconds = dial_seconds
        self._api = ApiServer(process, there=api_server)
        self._watcher = Watcher(os.path.join(root, DIRECTORY), self._found, look_seconds)
        self._updates = Updates(process, drivers, self.refresh) if mutable_count else None
        self._plugins: dict[str, _Plugin] = {}
        self._holders: dict[str, _Plugin] = {}  # driver -> the plugin that has registered it

    def start(self) -> None:
        """Register what is there, and from now on what comes."""
        self._process.on_hint(self._hinted)
        if self._updates is not None:
            self._updates.start()
        self._watcher.start()

    def close(self) -> None:
        """Look after no plugin any more; what the API server knows stays as it is."""
        self._watcher.close()
        if self._updates is not None:
            self._updates.close()
        for plugin in self._plugins.values():
            if plugin.task is not None:
                plugin.task.cancel()
        self._plugins.clear()
        self._holders.clear()
        self._drivers.close()

    async def refresh(self, name: str) -> None:
        """Ask a driver anew what it says of this node; the API server hears what is different.

        CsiError or RegistrationError say why it did not.
        """
        driver = self._drivers.get(name)
        if driver is None:
            return
        node = await _node_info(driver)
        if node != self._api.knows(name) and self._drivers.get(name) is driver:
            driver.node_id = node.node_id
            await self._api.register(name, node)

    # What the watcher finds.

    def _found(self, sockets: dict[str, Stamp]) -> None:
        for socket in self._plugins.keys() - sockets.keys():
            self._gone(self._plugins.pop(socket))
        for socket, stamp in sockets.items():
            known = self._plugins.get(socket)
            if known is None or known.stamp != stamp:
                self._begin(socket, stamp, known)

    def _begin(self, socket: str, stamp: Stamp, before: _Plugin | None) -> None:
        """Begin with a socket; what its predecessor has registered stays until it has answered."""
        plugin = self._plugins[socket] = _Plugin(socket, stamp)
        if before is not None:
            self._end(before)
            plugin.holds, plugin.version = before.holds, before.version
            if plugin.holds:
                self._holders[plugin.holds] = plugin
        plugin.task = self._process.spawn(self._serve(plugin), name=f"plugin {socket}")

    def _gone(self, plugin: _Plugin) -> None:
        self._end(plugin)
        self._lose(plugin, "its registration socket is gone")

    def _end(self, plugin: _Plugin) -> None:
        if plugin.task is not None:
            plugin.task.cancel()

    # One plugin.

    async def _serve(self, plugin: _Plugin) -> None:
        while True:
            plugin.wake.clear()
            wait = await self._attempt(plugin)
            try:
                async with asyncio.timeout(wait):
                    await plugin.wake.wait()
            except TimeoutError:
                pass

    async def _attempt(self, plugin: _Plugin) -> float | None:
        """Try to register; return after how long to try again, None: when it is woken."""
        try:
            async with Registrar(plugin.socket, self._dial_seconds) as registrar:
                await self._answered(plugin, registrar)
        except RegistrationError as err:
            plugin.error = err
            plugin.failures += 1
            self._complain(plugin, str(err))
            if not err.kept:
                self._lose(plugin, str(err))
            return wait_seconds(plugin.failures) if err.again else None
        plugin.error, plugin.failures, plugin.said = None, 0, ""
        return None

    async def _answered(self, plugin: _Plugin, registrar: Registrar) -> None:
        info = await registrar.info()
        try:
            await self._register(plugin, info)
        except RegistrationError as err:
            try:
                await registrar.notify(str(err))
            except RegistrationError as deaf:  # the reason itself is what matters
                log.v(2, "Plugin was not told why", socket=plugin.socket, err=deaf)
            raise
        await registrar.notify()

    async def _register(self, plugin: _Plugin, info: PluginInfo) -> None:
        wanted = offer(info, plugin.socket)
        check_free(wanted, self._holder(wanted.name), plugin.socket)
        driver = Driver(wanted.name, wanted.endpoint, version=wanted.version)
        try:
            node = await _node_info(driver)
            # Another plugin may have come first while this one's driver was thinking.
            check_free(wanted, self._holder(wanted.name), plugin.socket)
        except CsiError as err:
            driver.retire()
            raise RegistrationError(str(err)) from None
        except BaseException:
            driver.retire()
            raise
        driver.node_id = node.node_id
        self._take(plugin, wanted, driver)
        await self._api.register(wanted.name, node)

    def _take(self, plugin: _Plugin, wanted: Offer, driver: Driver) -> None:
        if plugin.holds != wanted.name:
            self._lose(plugin, "its plugin has another driver now")
        before = self._holders.get(wanted.name)
        if before is not None and before is not plugin:
            before.holds = ""  # it gets its turn again when this one has gone
            before.error = TakenError("another one with a higher version has come", wanted.name)
        plugin.holds, plugin.version = wanted.name, wanted.version
        self._holders[wanted.name] = plugin
        log.info("CSI driver is there", driver=driver.name, endpoint=driver.endpoint)
        self._process.record("csi driver registered", driver.name)
        self._drivers.put(driver)

    def _lose(self, plugin: _Plugin, why: str) -> None:
        """Have what a plugin registered no more, if it has registered anything."""
        name, plugin.holds = plugin.holds, ""
        if not name:
            return
        del self._holders[name]
        log.info("CSI driver is gone", driver=name, why=why)
        self._process.record("csi driver gone", f"{name}: {why}")
        self._drivers.remove(name)
        self._api.unregister(name)
        for other in self._plugins.values():
            if isinstance(other.error, TakenError) and other.error.name == name:
                other.wake.set()

    def _holder(self, name: str) -> tuple[str, Version] | None:
        holder = self._holders.get(name)
        return (holder.socket, holder.version) if holder is not None else None

    def _complain(self, plugin: _Plugin, text: str) -> None:
        if plugin.said != text:
            plugin.said = text
            log.error("Plugin could not be registered", socket=plugin.socket, err=text)

    # What else may let an attempt succeed.

    def _hinted(self, hint: Hint) -> None:
        if hint.table != CLUSTER or hint.key not in (CONNECTION_KEY, ANY_KEY):
            return
        waiting = [p for p in self._plugins.values() if p.error is not None and p.error.kept]
        if waiting and self._connected():
            for plugin in waiting:
                plugin.wake.set()

    def _connected(self) -> bool:
        value = self._process.tables.value(CLUSTER, CONNECTION_KEY)
        try:
            return value is not None and ConnectionRow.from_wire(value).connected
        except BadRecordError:
            return False


async def _node_info(driver: Driver) -> NodeInfo:
    """Ask a driver about this node; it has two minutes (L-41)."""
    from procs.volumes.csi.wire import csi_pb2 as pb  # with the first driver

    found = await driver.call("NodeGetInfo", pb.NodeGetInfoRequest(), pb.NodeGetInfoResponse)
    if not found.node_id:
        text = f"NodeGetInfo of CSI driver {driver.name}: node_id is empty"
        raise RegistrationError(text)
    topology = dict(found.accessible_topology.segments)
    return NodeInfo(found.node_id, max(0, found.max_volumes_per_node), topology)
