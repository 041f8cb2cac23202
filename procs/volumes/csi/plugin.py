"""Volumes of CSI drivers, as the rest of this process has them (L-42..L-47).

gRPC and the message types are loaded by the first volume that needs them: a node without CSI
volumes does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubelet.process import Process
from procs.volumes.csi import disk, references, saved
from procs.volumes.csi.drivers import Drivers
from procs.volumes.csi.local import Local
from procs.volumes.csi.paths import Paths, Place
from procs.volumes.csi.saved import Record
from procs.volumes.errors import VolumeError
from procs.volumes.layout import Layout
from procs.volumes.operations.runner import Operations
from procs.volumes.plugin import Done, PodInfo, Say, Standing
from procs.volumes.wants import CsiWant

if TYPE_CHECKING:
    from procs.volumes.csi.volume import CsiVolumes
    from procs.volumes.csi.wire import csi_pb2


class CsiPlugin:
    """The plugin kubernetes.io/csi."""

    def __init__(  # noqa: PLR0913 - the parts of the process that it stands on
        self,
        process: Process,
        layout: Layout,
        ops: Operations,
        drivers: Drivers,
        *,
        node: str,
        api_server: bool,
    ) -> None:
        self._process = process
        self._paths = Paths(layout)
        self._ops = ops
        self._drivers = drivers
        self._node = node
        self._api_server = api_server
        self._local = Local(ops)
        self._made: CsiVolumes | None = None

    @property
    def _volumes(self) -> CsiVolumes:
        if self._made is None:
            from procs.volumes.csi.volume import CsiVolumes  # its memory is for nodes with drivers

            self._made = CsiVolumes(
                self._process, self._paths, self._ops, self._drivers, self._node
            )
        return self._made

    async def set_up(self, want: CsiWant, pod: PodInfo, say: Say) -> Done:
        """Have a volume published to a pod; a VolumeError says why it cannot be.

        A volume that is published stays so whatever fails afterwards: then nothing is raised, and
        what failed is told by events and tried again.
        """
        if want.device and not self._api_server:
            raise VolumeError(
                f"volume {want.handle} of driver {want.driver} is to be attached by a controller,"
                " which needs an API server"
            )
        return await self._volumes.set_up(want, pod, say)

    async def tear_down(self, volume: Standing, say: Say) -> None:
        """Take a volume away from a pod; the last pod's is unstaged too. Then nothing is left."""
        place = self._paths.place(volume.uid, volume.name, block=volume.block)
        record = await self._local.do(lambda: _known(place))
        if record is None:
            await self._local.do(lambda: _remove_bare(place))
        else:
            await self._volumes.tear_down(volume, record, say)
        if self._made is not None:
            self._made.attachments.forget(volume.uid)

    async def unstage_unused(self, wanted: frozenset[tuple[str, str]]) -> None:
        """Unstage what no pod has any more: a predecessor died before it could.

        ``wanted``: driver and handle of what pods want now. To be called once, when all pods are
        known; it returns when nothing is left to do, which may take until a driver registers.
        """
        if await self._local.do(lambda: references.staged(self._paths)):
            await self._volumes.unstage_unused(wanted)

    async def volume_stats(
        self, driver: str, handle: str, path: str, stage: str
    ) -> csi_pb2.NodeGetVolumeStatsResponse | None:
        """Return what a driver says of a volume; None: it does not say such things (L-50)."""
        return await self._volumes.volume_stats(driver, handle, path, stage)

    def stage_path(self, driver: str, handle: str, spec: str, *, block: bool = False) -> str:
        """Return where a volume is staged, if its driver stages volumes."""
        return self._paths.stage(driver, handle, spec, block=block).target


def _known(place: Place) -> Record | None:
    """Return what was written down of a volume of a pod."""
    state = saved.load(place.state)
    return state if state is not None else saved.load(place.record)


def _remove_bare(place: Place) -> None:
    """Remove what is no volume yet; a VolumeError if it may be one."""
    for path in (place.target, place.standing):
        point = saved.mounted_below(path)
        if point:
            raise VolumeError(f"{point} is mounted, but {place.record} is missing")
    disk.vacate(place)
    disk.forget(place)
