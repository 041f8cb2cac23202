"""Publishing a volume to one pod, and taking it away from it (L-42, L-43)."""

from __future__ import annotations

from procs.volumes import blockdev
from procs.volumes.csi import disk, requests, saved
from procs.volumes.csi.calls import Call
from procs.volumes.csi.driver import CsiError, Driver
from procs.volumes.csi.local import Local
from procs.volumes.csi.paths import Paths, Place
from procs.volumes.csi.saved import Record
from procs.volumes.csi.wire import csi_pb2
from procs.volumes.errors import VolumeError
from procs.volumes.operations.runner import Operations
from procs.volumes.plugin import Say


class Publisher:
    """Makes the calls, and keeps the records as true as they can be meanwhile."""

    def __init__(self, paths: Paths, local: Local, ops: Operations) -> None:
        self._paths = paths
        self._local = local
        self._ops = ops

    async def publish(self, call: Call, record: Record) -> None:
        """Publish a volume; afterwards it is not sure to be usable yet, but written down."""
        place = call.place
        await self._local.do(lambda: saved.save(place.state, record.at(saved.PUBLISHING)))
        try:
            await self.ask(call)
        except CsiError as err:
            if err.final:
                await self._local.do(lambda: _withdraw(place, record, keep=bool(call.staged)))
            raise

    async def ask(self, call: Call) -> None:
        """Make the call alone: a volume that is published already stays so if it fails."""
        call.say(f"NodePublishVolume of {call.driver.name}")
        request = requests.publish(call.terms, call.place.target, call.staged)
        await call.driver.call("NodePublishVolume", request, csi_pb2.NodePublishVolumeResponse)

    async def link(self, place: Place) -> None:
        """Let a pod have a device that is published: bound, locked, and linked to (L-34)."""
        shared = self._paths.mapped(place.spec)
        await blockdev.mapped(self._ops, place.target, shared, place.uid, place.standing)

    async def unpublish(self, driver: Driver, handle: str, place: Place, say: Say) -> None:
        """Take a volume away from a pod; a VolumeError if it is there still."""
        if place.block:
            # The pod's link stays: it is what is found of the volume until all is done.
            bound = {"shared": self._paths.mapped(place.spec), "uid": place.uid, "link": ""}
            await self._ops.child(blockdev.UNMAP, bound, key=place.target)
        say(f"NodeUnpublishVolume of {driver.name}")
        request = csi_pb2.NodeUnpublishVolumeRequest(volume_id=handle, target_path=place.target)
        await driver.call("NodeUnpublishVolume", request, csi_pb2.NodeUnpublishVolumeResponse)
        try:
            await self._local.do(lambda: disk.vacate(place))
        except VolumeError as err:
            raise VolumeError(
                f"CSI driver {driver.name} has unpublished volume {handle}, but {err}"
            ) from err


def _withdraw(place: Place, record: Record, *, keep: bool) -> None:
    """Leave nothing of a volume that was not published, unless it is staged for the pod."""
    if saved.mounted_below(place.target):
        return  # whatever the driver says, it is to be unpublished
    disk.vacate(place)
    if keep or place.block:
        saved.save(place.state, record.at(saved.RESERVED))
    else:
        disk.forget(place)
