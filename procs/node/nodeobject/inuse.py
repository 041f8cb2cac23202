"""Which volumes that a controller attaches are in use here: ``status.volumesInUse`` (L-13).

``volumes`` says so in its rows before it mounts, and waits until the node's object says it too: a
controller detaches nothing that is in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.pods.rows import MOUNTS, MountsRow
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process
from procs.node.nodeobject.tree import Look

WRITER: Final = "volumes"
# What it finds on the disk at its start is in its rows by then; until then a device that was said
# to be in use, and of which no row tells, may still be.
SETTLED_NS: Final = 10 * 10**9


def settles_ns(look: Look | None) -> int:
    """Return from when on the rows are all that there is; 0: nobody knows."""
    for process in look.state.processes if look is not None else ():
        if process.name == WRITER and process.pid:
            return process.started_ns + SETTLED_NS
    return 0


def devices_of(value: Any) -> frozenset[str]:
    """Return the devices that the volumes of one pod are of."""
    try:
        row = MountsRow.from_wire(value)
    except BadRecordError:
        return frozenset()
    return frozenset(volume.device for volume in row.volumes if volume.device)


class InUse:
    """What table ``mounts`` says, kept so that a hint costs one row."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._of: dict[str, frozenset[str]] = {}  # by pod

    def devices(self) -> frozenset[str]:
        """Read all rows; every device in use."""
        items = self._process.tables.items(MOUNTS)
        self._of = _named({uid: devices_of(value) for uid, value in items})
        return self._all()

    @property
    def readable(self) -> bool:
        """Whether the table can be read: one that cannot tells nothing, not that there is none."""
        return MOUNTS not in self._process.tables.unavailable

    def hinted(self, hint: Hint) -> bool:
        """Take that rows changed; whether other devices are in use now."""
        if hint.table != MOUNTS:
            return False
        before = self._all()
        if hint.key == ANY_KEY:
            return self.devices() != before
        value = self._process.tables.value(MOUNTS, hint.key)
        now = {**self._of, hint.key: devices_of(value) if value is not None else frozenset()}
        self._of = _named(now)
        return self._all() != before

    def _all(self) -> frozenset[str]:
        return frozenset().union(*self._of.values())


def _named(found: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Leave out pods without any: most have none."""
    return {uid: devices for uid, devices in found.items() if devices}
