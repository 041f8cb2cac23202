"""What the API server is told of this node's CSI drivers, through process ``node`` (L-41)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from kubelet import logging as klog
from kubelet.channels.errors import ChannelError
from kubelet.channels.messages import RegisterCsiDriver, UnregisterCsiDriver
from kubelet.process import Process
from procs.volumes.csi.errors import RegistrationError
from procs.volumes.csi.registration_rules import wait_seconds

log = klog.get_logger(__name__)

ASK_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """What a driver says of this node."""

    node_id: str
    max_volumes: int = 0  # 0: it does not say
    topology: dict[str, str] = field(default_factory=dict)


class ApiServer:
    """Tells of one driver one thing after the other, so that the last word is the newest."""

    def __init__(self, process: Process, *, there: bool) -> None:
        self._process = process
        self._there = there
        self._locks: dict[str, asyncio.Lock] = {}
        self._said: dict[str, NodeInfo] = {}  # driver -> what the API server knows of it
        self._wanted: set[str] = set()

    def knows(self, name: str) -> NodeInfo | None:
        """Return what the API server was last told of a driver."""
        return self._said.get(name)

    async def register(self, name: str, node: NodeInfo) -> None:
        """Tell of a driver; RegistrationError says why that did not work."""
        self._wanted.add(name)
        if not self._there:
            self._said[name] = node
            return
        async with self._lock(name):
            ask = RegisterCsiDriver(name, node.node_id, node.max_volumes, node.topology)
            try:
                answer = await self._process.channels.ask("node", ask, timeout=ASK_SECONDS)
                error = answer.error
            except ChannelError as err:
                error = str(err)
            if error:
                text = f"the API server does not know of driver {name!r} yet: {error}"
                raise RegistrationError(text, kept=True)
            self._said[name] = node

    def unregister(self, name: str) -> None:
        """Have the API server forget a driver, unless it is registered anew before."""
        self._wanted.discard(name)
        self._said.pop(name, None)
        if self._there:
            self._process.spawn(self._unregister(name), name=f"unregister CSI driver {name}")

    async def _unregister(self, name: str) -> None:
        failures = 0
        while True:
            async with self._lock(name):
                error = "" if name in self._wanted else await self._forget(name)
            if not error:
                return
            failures += 1
            if failures == 1:
                log.warning("The API server has not forgotten a CSI driver", driver=name, err=error)
            await asyncio.sleep(wait_seconds(failures))

    async def _forget(self, name: str) -> str:
        ask = UnregisterCsiDriver(name)
        try:
            return (await self._process.channels.ask("node", ask, timeout=ASK_SECONDS)).error
        except ChannelError as err:
            return str(err)

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())
