"""Which volumes are looked at for how full they are, and how CSI drivers are asked (L-50)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from kubelet.api.codec import DecodeError
from procs.volumes.kit import Kit
from procs.volumes.known import UnknownError, read
from procs.volumes.manager import Volumes
from procs.volumes.stats import Found, Stats
from procs.volumes.subjects import StatsSubject, VolumeSubject, subject_of
from procs.volumes.wants import CsiWant

_PERIOD: Final = "volumeStatsAggPeriod"
# What a driver counts, and how the two kinds of it are called here.
_BYTES: Final = {"total": "capacity", "available": "available", "used": "used"}
_INODES: Final = {"total": "inodes", "available": "inodes_free", "used": "inodes_used"}
_UNITS: Final = {1: _BYTES, 2: _INODES}


class CsiVolumes(Protocol):
    """What is asked of the plugin."""

    async def volume_stats(self, driver: str, handle: str, path: str, stage: str) -> Any:
        """Return a driver's answer on a volume; None: it gives none."""

    def stage_path(self, driver: str, handle: str, spec: str, *, block: bool = False) -> str:
        """Return where a volume is staged, if its driver stages volumes."""


def make_stats(kit: Kit, volumes: Volumes, csi: CsiVolumes) -> Stats:
    """Return what looks at volumes, put together."""

    async def ask(pod: StatsSubject, volume: VolumeSubject) -> Found | None:
        wants = next((p.wants for p in volumes.pods() if p.uid == pod.uid), ())
        want = next((w for w in wants if w.name == volume.name), None)
        if not isinstance(want, CsiWant):
            return None
        driver, handle, of = want.driver, want.handle, want.of
        stage = "" if want.ephemeral else csi.stage_path(driver, handle, of.spec, block=of.block)
        answer = await csi.volume_stats(driver, handle, volume.path, stage)
        return None if answer is None else found_in(answer)

    stats = Stats(
        kit.process,
        kit.layout,
        kit.ops,
        source=lambda: _subjects(kit, volumes),
        csi=ask,
        period_seconds=kit.process.config.duration(_PERIOD),
    )
    kit.told = stats.changed
    return stats


def _subjects(kit: Kit, volumes: Volumes) -> Iterator[StatsSubject]:
    for pod in volumes.pods():
        if pod.row is None:
            continue
        try:
            row = read(kit.process.tables, pod.uid)
            if row is not None and row.document:
                yield subject_of(row.pod, pod.row)
        except (UnknownError, DecodeError, ValueError):
            continue  # what is odd about it has been said


def found_in(answer: Any) -> Found:
    """Return what a driver says of a volume."""
    usage = {}
    for one in answer.usage:
        for theirs, ours in _UNITS.get(one.unit, {}).items():
            usage[ours] = int(getattr(one, theirs))
    if not answer.HasField("volume_condition"):
        return Found(usage)
    condition = answer.volume_condition
    return Found(usage, bool(condition.abnormal), condition.message)
