"""Which pods have a volume of a CSI driver, as the disk tells: no more than that survives."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from procs.volumes import layout
from procs.volumes.csi import saved
from procs.volumes.csi.paths import DATA, Paths, Stage
from procs.volumes.csi.saved import Record
from procs.volumes.errors import VolumeError


@dataclass(frozen=True, slots=True)
class Device:
    """A volume as it is on the node, for however many pods."""

    driver: str
    handle: str
    spec: str = ""  # the persistent volume's name
    block: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from any other."""
        return self.driver, self.handle


def referring(paths: Paths, device: Device) -> set[str]:
    """Return where pods have a volume; a record that cannot be read may be one by its name."""
    found = set()
    for standing, spec, record in _all(paths):
        if record is None:
            refers = bool(spec) and spec == device.spec
        else:
            refers = (record.driver, record.handle) == device.key
        if refers:
            found.add(standing)
    return found


def staged(paths: Paths) -> list[tuple[Device, Stage]]:
    """Return what is staged, or was begun to be; what cannot be read is left alone."""
    found = []
    for driver in filter(paths.is_driver, _names(paths.stages)):
        for name in _names(f"{paths.stages}/{driver}"):
            stage = paths.mount_stage(driver, name)
            record, known = _load(stage.record)
            if known and record is not None:
                found.append((Device(record.driver, record.handle), stage))
    for spec in _names(paths.devices):
        stage = paths.block_stage(spec)
        record, known = _load(stage.record)
        if known and record is not None:
            found.append((Device(record.driver, record.handle, spec, block=True), stage))
    return found


def _all(paths: Paths) -> Iterator[tuple[str, str, Record | None]]:
    """Yield what pods have: where, its name, and its record unless that cannot be read."""
    plugin = layout.escaped(layout.CSI)
    for uid in _names(paths.layout.pods):
        mounts = f"{paths.layout.volumes(uid)}/{plugin}"
        for spec in _names(mounts):
            record, known = _load(f"{mounts}/{spec}/{DATA}")
            if record is not None or not known:
                yield f"{mounts}/{spec}", spec, record
        devices = f"{paths.layout.devices(uid)}/{plugin}"
        for spec in _names(devices):
            record, known = _load(paths.block(uid, spec).record)
            if record is not None or not known:
                yield f"{devices}/{spec}", spec, record


def _load(path: str) -> tuple[Record | None, bool]:
    """Return a record, and whether it could be told what is there."""
    try:
        return saved.load(path), True
    except VolumeError:
        return None, False


def _names(path: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return os.listdir(path)
    return []
