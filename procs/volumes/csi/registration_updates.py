"""Drivers whose CSIDriver object asks for it are asked anew now and then how many volumes fit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kubelet import logging as klog
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.cluster.rows import CLUSTER, CsiDriverRow, driver_key
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process
from procs.volumes.csi.drivers import Drivers
from procs.volumes.csi.errors import CsiError, RegistrationError

log = klog.get_logger(__name__)


class Updates:
    """One task for each driver that has a period: spec.nodeAllocatableUpdatePeriodSeconds."""

    def __init__(
        self, process: Process, drivers: Drivers, refresh: Callable[[str], Awaitable[None]]
    ) -> None:
        self._process = process
        self._drivers = drivers
        self._refresh = refresh
        self._running: dict[str, tuple[int, asyncio.Task[None]]] = {}  # driver -> period, task

    def start(self) -> None:
        """Follow drivers and their objects."""
        self._drivers.on_change(self._look)
        self._process.on_hint(self._hinted)

    def close(self) -> None:
        """Ask nobody any more."""
        for _, task in self._running.values():
            task.cancel()
        self._running.clear()

    def _hinted(self, hint: Hint) -> None:
        if hint.table != CLUSTER:
            return
        for name in self._drivers.names():
            if hint.key in (driver_key(name), ANY_KEY):
                self._look(name)

    def _look(self, name: str) -> None:
        """Begin, end or change the period of a driver's questions."""
        wanted = self._period(name) if self._drivers.get(name) is not None else 0
        period, task = self._running.get(name, (0, None))
        if period == wanted:
            return
        if task is not None:
            task.cancel()
            del self._running[name]
        if wanted:
            asking = self._process.spawn(self._ask(name, wanted), name=f"capacity of {name}")
            self._running[name] = (wanted, asking)

    def _period(self, name: str) -> int:
        value = self._process.tables.value(CLUSTER, driver_key(name))
        try:
            return 0 if value is None else CsiDriverRow.from_wire(value).update_seconds
        except BadRecordError as err:
            log.error("What is known of a CSIDriver cannot be read", driver=name, err=err)
            return 0

    async def _ask(self, name: str, period: int) -> None:
        said = ""
        while True:
            await asyncio.sleep(period)
            try:
                await self._refresh(name)
                said = ""
            except (CsiError, RegistrationError) as err:
                if str(err) != said:
                    said = str(err)
                    log.error("CSI driver did not say what fits", driver=name, err=err)
