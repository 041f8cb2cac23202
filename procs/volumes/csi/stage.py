"""Staging a volume once for all pods of the node, and unstaging it after the last of them.

Of one volume there is never more than one such call under way. A pod's own record is on disk before
its volume is staged, and goes after it is unstaged: whoever holds the lock sees who needs it.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import Final

from procs.volumes.csi import disk, references, requests, saved
from procs.volumes.csi.driver import CsiError, Driver
from procs.volumes.csi.local import Local
from procs.volumes.csi.paths import Paths, Place, Stage
from procs.volumes.csi.references import Device
from procs.volumes.csi.requests import Terms
from procs.volumes.csi.saved import Record
from procs.volumes.csi.wire import csi_pb2
from procs.volumes.plugin import Say

_STAGES: Final = csi_pb2.NodeServiceCapability.RPC.STAGE_UNSTAGE_VOLUME


class Stages:
    """The volumes that are staged on this node."""

    def __init__(self, paths: Paths, local: Local) -> None:
        self._paths = paths
        self._local = local
        self._staged: set[tuple[str, str]] = set()  # by this process: nobody else is believed
        self._locks: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock]
        self._locks = weakref.WeakValueDictionary()

    def lock(self, device: Device) -> asyncio.Lock:
        """Return what is held while anything is done that concerns all pods of a volume."""
        lock = self._locks.get(device.key)
        if lock is None:
            lock = self._locks[device.key] = asyncio.Lock()
        return lock

    def doubt(self, device: Device) -> None:
        """Have a volume staged again: what stood on it is gone."""
        self._staged.discard(device.key)

    async def stage(
        self, terms: Terms, device: Device, place: Place, driver: Driver, say: Say
    ) -> str:
        """Stage a volume, under its lock; where. A CsiError that is final: it is not staged."""
        stage = self._paths.stage(device.driver, device.handle, device.spec, block=device.block)
        if device.key in self._staged:
            return stage.target
        record = Record(device.driver, device.handle)
        await self._local.do(lambda: disk.prepare(stage, record))
        say(f"NodeStageVolume of {device.driver}")
        request = requests.stage(terms, stage.target)
        try:
            await driver.call("NodeStageVolume", request, csi_pb2.NodeStageVolumeResponse)
        except CsiError as err:
            if err.final:
                await self._local.do(lambda: self._give_up(stage, device, place))
            raise
        self._staged.add(device.key)
        return stage.target

    def _give_up(self, stage: Stage, device: Device, place: Place) -> None:
        """Leave nothing of a volume that was not staged, unless others have it."""
        if references.referring(self._paths, device) - {place.standing}:
            return
        if not saved.mounted_below(stage.target):
            disk.clear(stage, block=device.block)

    async def unstage(self, device: Device, stage: Stage, driver: Driver, say: Say) -> None:
        """Unstage a volume, under its lock, and remove where it was."""
        staged = await self._local.do(lambda: disk.is_staged(stage))
        if staged and _STAGES in await driver.capabilities():
            self._staged.discard(device.key)
            say(f"NodeUnstageVolume of {device.driver}")
            request = csi_pb2.NodeUnstageVolumeRequest(
                volume_id=device.handle, staging_target_path=stage.target
            )
            await driver.call("NodeUnstageVolume", request, csi_pb2.NodeUnstageVolumeResponse)
        self._staged.discard(device.key)
        await self._local.do(lambda: disk.clear(stage, block=device.block))
