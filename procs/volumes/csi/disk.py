"""What is done to the kubelet's own directories for a volume of a CSI driver.

Nothing here touches what a driver has mounted: the kernel's list of mounts says what is, and a
directory on which something is mounted is neither looked at nor removed.
"""

from __future__ import annotations

import contextlib
import os

from procs.volumes import mounts
from procs.volumes.csi import saved
from procs.volumes.csi.paths import Place, Stage
from procs.volumes.csi.saved import Record
from procs.volumes.errors import VolumeError
from procs.volumes.removal import remove_tree


def reserve(place: Place, record: Record) -> None:
    """Write down that a pod has a volume, before anything is done for it."""
    saved.save(place.record, record)
    if not place.block:
        return
    saved.save(place.state, record)
    saved.make(os.path.dirname(place.target))
    saved.make(os.path.dirname(place.standing))
    _link(place.target, place.standing)


def _link(target: str, link: str) -> None:
    with contextlib.suppress(OSError):
        if os.readlink(link) == target:
            return
    temporary = link + ".tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    os.symlink(target, temporary)
    os.rename(temporary, link)


def found(place: Place, record: Record) -> Record | None:
    """Return what is known of a volume of a pod; what cannot be read may be anything."""
    try:
        known = saved.load(place.state)
    except VolumeError:
        return record.at(saved.PUBLISHING)
    if known is None and place.block and os.path.lexists(place.standing):
        return record.at(saved.PUBLISHING)  # another kubelet's
    if known is not None and (known.driver, known.handle) != (record.driver, record.handle):
        raise VolumeError(
            f"{place.state} is of volume {known.handle} of driver {known.driver},"
            f" not of {record.handle} of {record.driver}"
        )
    return known


def is_published(place: Place, record: Record | None) -> bool:
    """Tell whether all that was to be done for a volume is done, and stands."""
    if record is None or not record.done:
        return False
    if place.block and not os.path.islink(place.standing):
        return False
    return record.state == saved.mark(place.target)


def vacate(place: Place) -> None:
    """Remove what a driver was to publish a volume at; a VolumeError if it still does."""
    point = saved.mounted_below(place.target)
    if point:
        raise VolumeError(f"{point} is still mounted")
    if place.block:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(place.target)
    else:
        saved.remove_directory(place.target)


def forget(place: Place) -> None:
    """Remove all that is written down of a volume of a pod; nothing is published there."""
    saved.forget(place.state)
    if place.block:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(place.standing)
    else:
        saved.remove_directory(place.standing)


def prepare(stage: Stage, record: Record) -> None:
    """Make where a volume is staged, and write down what it is."""
    if not os.path.lexists(stage.record):
        saved.save(stage.record, record)
    if not saved.mounted(stage.target):
        saved.make(stage.target)


def is_staged(stage: Stage) -> bool:
    """Tell whether a volume is staged, or was begun to be; its directory is not touched."""
    above, name = os.path.split(stage.target)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return name in os.listdir(above)
    return False


def clear(stage: Stage, *, block: bool) -> None:
    """Remove where a volume was staged; a VolumeError if it still is."""
    point = saved.mounted_below(stage.target)
    if point:
        raise VolumeError(f"{point} is still mounted")
    if block:
        _clear_block(stage)
        return
    saved.remove_directory(stage.target)
    saved.forget(stage.record)
    saved.remove_directory(os.path.dirname(stage.record))


def _clear_block(stage: Stage) -> None:
    """Remove all of a device: a driver may have left what it liked where it staged it."""
    for directory in stage.made:
        if directory == stage.published:
            saved.remove_directory(directory)
        else:
            remove_tree(directory, mounts.points())
