"""Setting volumes of CSI drivers up and taking them down, from wherever a predecessor left them.

The order is what makes this safe to be killed at any instruction. Set up: the pod's record, then
the stage's, then NodeStageVolume, NodePublishVolume, and what the kubelet itself adds; only then
the record says that it is done. Taken down: NodeUnpublishVolume, a record that says so, then
NodeUnstageVolume if no other pod has the volume, and the pod's record last.
"""

from __future__ import annotations

import asyncio
from binascii import crc32
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubelet import logging as klog
from kubelet.process import Process
from procs.volumes import ownership_events
from procs.volumes.csi import disk, events, references, saved
from procs.volumes.csi.attach import Attachments
from procs.volumes.csi.calls import Call
from procs.volumes.csi.driver import CsiError, Driver
from procs.volumes.csi.drivers import Drivers
from procs.volumes.csi.events import Events
from procs.volumes.csi.expand import Expander
from procs.volumes.csi.local import Local
from procs.volumes.csi.paths import Paths, Place, Stage
from procs.volumes.csi.publish import Publisher
from procs.volumes.csi.references import Device
from procs.volumes.csi.requests import Terms
from procs.volumes.csi.saved import Record
from procs.volumes.csi.stage import Stages
from procs.volumes.csi.wants import EPHEMERAL, PERSISTENT
from procs.volumes.csi.wire import csi_pb2
from procs.volumes.errors import VolumeError
from procs.volumes.operations.runner import Operations
from procs.volumes.plugin import Done, PodInfo, Say, Standing
from procs.volumes.wants import CsiWant

log = klog.get_logger(__name__)

REPUBLISH_SECONDS: Final = 60  # L-15: as often as a pod is looked at
_SPREAD: Final = 30  # and up to so much later, each at its own time
RETRY_SECONDS: Final = 10.0  # after a call that failed on a volume that stays usable
_FIRST_RETRY, _LAST_RETRY = 1.0, 120.0
_STATS: Final = csi_pb2.NodeServiceCapability.RPC.GET_VOLUME_STATS


@dataclass(frozen=True, slots=True)
class _Job:
    """One volume of one pod."""

    want: CsiWant
    pod: PodInfo
    place: Place
    device: Device
    record: Record
    say: Say


class CsiVolumes:
    """All volumes of CSI drivers on this node."""

    def __init__(
        self, process: Process, paths: Paths, ops: Operations, drivers: Drivers, node: str
    ) -> None:
        self._process = process
        self._paths = paths
        self._ops = ops
        self._drivers = drivers
        self._node = node
        self._local = Local(ops)
        self._events = Events(process)
        self._stages = Stages(paths, self._local)
        self._publisher = Publisher(paths, self._local, ops)
        self._expander = Expander(process, self._events, node)
        self.attachments = Attachments(process, node)
        self._changed = asyncio.Event()
        drivers.on_change(lambda _name: self._changed.set())

    def _driver(self, name: str) -> Driver:
        driver = self._drivers.get(name)
        if driver is None:
            raise VolumeError(f"driver name {name} not found in the list of registered CSI drivers")
        return driver

    # Setting up.

    async def set_up(self, want: CsiWant, pod: PodInfo, say: Say) -> Done:
        """Have a volume published to a pod."""
        job = self._job(want, pod, say)
        found = await self._local.do(lambda: disk.found(job.place, job.record))
        if await self._local.do(lambda: disk.is_published(job.place, found)):
            return Done(job.place.path, again=await self._renew(job))
        await self._publish(job, found)
        return Done(job.place.path, changed=True, again=self._republished(want, pod))

    def _job(self, want: CsiWant, pod: PodInfo, say: Say) -> _Job:
        spec, block = want.of.spec, want.of.block
        mode = "" if block else EPHEMERAL if want.ephemeral else PERSISTENT
        return _Job(
            want,
            pod,
            self._paths.place(pod.uid, spec, block=block),
            Device(want.driver, want.handle, spec, block),
            Record(want.driver, want.handle, spec, self._node, mode),
            say,
        )

    async def _publish(self, job: _Job, found: Record | None) -> None:
        """Do all that is to be done, from the beginning."""
        driver = self._driver(job.want.driver)
        context = await self.attachments.context(job.want, job.pod.uid)
        terms = Terms(job.want, job.pod, await driver.capabilities(), context)
        begun = found is not None and found.published
        async with self._stages.lock(job.device):
            record = job.record.at(saved.PUBLISHING if begun else saved.RESERVED)
            await self._local.do(lambda: disk.reserve(job.place, record))
            if found is not None and found.done:
                self._stages.doubt(job.device)
            staged = await self._stage(job, terms, driver, begun=begun)
        call = Call(driver, terms, job.place, job.say, staged)
        await self._publisher.publish(call, job.record)
        if job.want.of.block:
            await self._publisher.link(job.place)
        else:
            await self._give(job, terms)
        if self._expander.needed(job.want):
            async with self._stages.lock(job.device):
                await self._expander.grow(call)
        await self._finish(job)

    async def _stage(self, job: _Job, terms: Terms, driver: Driver, *, begun: bool) -> str:
        if not terms.stages:
            return ""
        try:
            return await self._stages.stage(terms, job.device, job.place, driver, job.say)
        except CsiError as err:
            stage = self._stage_of(job.device)
            if err.final and not begun and not await self._local.do(lambda: disk.is_staged(stage)):
                await self._local.do(lambda: disk.forget(job.place))
            raise

    async def _give(self, job: _Job, terms: Terms) -> None:
        """Give the files to the pod's group, unless the driver has done so (L-33)."""
        of, path = job.want.of, job.place.target
        if not job.want.gives or terms.groups or of.fs_group is None:
            return
        job.say("change of ownership")
        await ownership_events.give(
            self._ops,
            self._process,
            job.pod,
            path,
            of.fs_group,
            of.read_only,
            of.policy,
            path,
            shown=job.place.standing,
        )

    async def _finish(self, job: _Job) -> None:
        """Write down that all is done."""

        def write() -> None:
            saved.save(job.place.state, job.record.at(saved.mark(job.place.target)))

        await self._local.do(write)

    # A volume that is set up.

    async def _renew(self, job: _Job) -> float:
        """Do what is to be done now and then; the seconds until it is to be done again."""
        after = [await self._republish(job), await self._grow(job)]
        return min((seconds for seconds in after if seconds), default=0.0)

    async def _republish(self, job: _Job) -> float:
        """Have the driver look after a volume again, if it wants to; it stays if that fails."""
        again = self._republished(job.want, job.pod)
        if not again:
            return 0.0
        try:
            driver = self._driver(job.want.driver)
            context = await self.attachments.context(job.want, job.pod.uid)
            await self._publisher.ask(await self._call(job, driver, context))
        except VolumeError as err:
            text = f'MountVolume.SetUp failed for volume "{job.want.of.spec}" : {err}'
            await self._events.on_pod(job.pod, "Warning", events.FAILED_MOUNT, text)
            return RETRY_SECONDS
        return again

    async def _grow(self, job: _Job) -> float:
        """Grow a volume that is in use (L-16); a driver that is gone has it tried when it comes."""
        driver = self._drivers.get(job.want.driver)
        if driver is None or not self._expander.needed(job.want):
            return 0.0
        async with self._stages.lock(job.device):
            if not self._expander.needed(job.want):  # another pod's has seen to it
                return 0.0
            try:
                call = await self._call(job, driver, {})
            except CsiError:
                return RETRY_SECONDS
            return await self._expander.in_use(call)

    async def _call(self, job: _Job, driver: Driver, context: Mapping[str, str]) -> Call:
        """Return what another call for a volume that is published is made of."""
        terms = Terms(job.want, job.pod, await driver.capabilities(), context)
        staged = self._stage_of(job.device).target if terms.stages else ""
        return Call(driver, terms, job.place, job.say, staged)

    def _stage_of(self, device: Device) -> Stage:
        return self._paths.stage(device.driver, device.handle, device.spec, block=device.block)

    def _republished(self, want: CsiWant, pod: PodInfo) -> float:
        if want.info is None or not want.info.requires_republish or want.of.block:
            return 0.0
        return float(REPUBLISH_SECONDS + crc32(f"{pod.uid}/{want.name}".encode()) % _SPREAD)

    # Taking down.

    async def tear_down(self, volume: Standing, record: Record, say: Say) -> None:
        """Take a volume away from a pod, and from the node if it was the last one."""
        place = self._paths.place(volume.uid, volume.name, block=volume.block)
        device = Device(record.driver, record.handle, volume.name, volume.block)
        driver = self._driver(record.driver)
        if record.published:
            await self._publisher.unpublish(driver, record.handle, place, say)
            await self._local.do(lambda: saved.save(place.state, record.at(saved.RESERVED)))
        async with self._stages.lock(device):
            others = await self._local.do(lambda: references.referring(self._paths, device))
            if not others - {place.standing}:
                await self._leave(device, driver, record, say)
            await self._local.do(lambda: _forget(place))

    async def _leave(self, device: Device, driver: Driver, record: Record, say: Say) -> None:
        """Have a volume on the node no more; what a pod brought with it was never staged."""
        self._expander.forget(device.key)
        if record.mode == EPHEMERAL:
            return
        await self._stages.unstage(device, self._stage_of(device), driver, say)

    async def unstage_unused(self, wanted: frozenset[tuple[str, str]]) -> None:
        """Unstage what no pod has any more, for as long as it takes."""
        pause = _FIRST_RETRY
        while True:
            self._changed.clear()
            if not await self._unstage_each(wanted):
                return
            wanted = frozenset()  # who has come to want one since has its record on disk
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                pause = min(2 * pause, _LAST_RETRY)

    async def _unstage_each(self, wanted: frozenset[tuple[str, str]]) -> bool:
        """Try it with each once; whether any is left."""
        left = False
        for device, stage in await self._local.do(lambda: references.staged(self._paths)):
            if device.key in wanted:
                continue
            try:
                await self._unstage_if_unused(device, stage)
            except VolumeError as err:
                left = True
                what = {"driver": device.driver, "volume": device.handle}
                log.warning("Volume that no pod has is still staged", **what, err=err)
        return left

    async def _unstage_if_unused(self, device: Device, stage: Stage) -> None:
        async with self._stages.lock(device):
            if await self._local.do(lambda: references.referring(self._paths, device)):
                return
            await self._stages.unstage(
                device, stage, self._driver(device.driver), lambda _text: None
            )
            log.info("Unstaged what no pod has", driver=device.driver, volume=device.handle)

    # Statistics.

    async def volume_stats(
        self, driver: str, handle: str, path: str, stage: str
    ) -> csi_pb2.NodeGetVolumeStatsResponse | None:
        """Return what a driver says of a volume; None: it does not say such things."""
        known = self._driver(driver)
        capabilities = await known.capabilities()
        if _STATS not in capabilities:
            return None
        request = csi_pb2.NodeGetVolumeStatsRequest(
            volume_id=handle, volume_path=path, staging_target_path=stage
        )
        return await known.call("NodeGetVolumeStats", request, csi_pb2.NodeGetVolumeStatsResponse)


def _forget(place: Place) -> None:
    if not place.block:
        disk.vacate(place)
    disk.forget(place)
