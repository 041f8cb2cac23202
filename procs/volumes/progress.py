"""What to do for a pod, and what to tell of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from kubelet.pods.rows import MountsRow, VolumeRow, VolumeState, WorkerState
from procs.volumes.layout import HOST_PATH, WRITTEN
from procs.volumes.wants import Want, plugin_of

SECOND: Final = 10**9
FIRST_DELAY: Final = SECOND // 2  # T-11
LAST_DELAY: Final = 122 * SECOND


class Decision(StrEnum):
    """What is to be done for a pod."""

    MOUNT = "mount"
    UNMOUNT = "unmount"
    LEAVE = "leave"  # nothing is known of it that would allow either


def decide(state: WorkerState | None, known: MountsRow | None, *, deleted: bool) -> Decision:
    """Return what to do for a pod in this state; None is a pod without a row.

    ``deleted``: the row's writer has said that it took the row away. A row that is merely not
    there may be in a table that was begun anew, with its pod running on: volumes of such a pod
    stay, until the row is back or syncloop asks for their end with a row that is terminated.
    What was begun to be unmounted is unmounted, whatever came then.
    """
    if known is not None and is_unmounting(known):
        return Decision.UNMOUNT
    match state:
        case None:
            return Decision.UNMOUNT if known is not None and deleted else Decision.LEAVE
        case WorkerState.SYNC | WorkerState.TERMINATING:
            return Decision.MOUNT
        case WorkerState.TERMINATED | WorkerState.FINISHED:
            return Decision.UNMOUNT


def is_unmounting(row: MountsRow) -> bool:
    """Tell whether the end of a pod's volumes has begun."""
    return any(volume.state is VolumeState.UNMOUNTING for volume in row.volumes)


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that did not work, and when it is tried again (L-11)."""

    reason: str
    delay_ns: int = 0  # 0: there is nothing to be tried again
    until_ns: int = 0  # monotonic
    retry_ns: int = 0  # the same on the wall clock, for showing
    waiting: bool = False  # it has not failed: what it needs is not there yet


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, on both clocks: the one that counts and the one that is shown."""

    mono_ns: int
    wall_ns: int


def next_failure(before: Failure | None, reason: str, now: Moment) -> Failure:
    """Return what a failure now means for the next try."""
    delay = min(before.delay_ns * 2, LAST_DELAY) if before is not None else FIRST_DELAY
    return Failure(reason, delay, now.mono_ns + delay, now.wall_ns + delay)


@dataclass(frozen=True, slots=True)
class Telling:
    """What a row of table ``mounts`` says whatever its volumes are doing."""

    uid: str
    version: int
    before: MountsRow | None  # the row as it is now
    now: Moment

    def mounting(
        self, wants: Iterable[Want], paths: Mapping[str, str], failures: Mapping[str, Failure]
    ) -> MountsRow:
        """Return the row of a pod whose volumes are at these paths or failed like this."""
        return self._row(
            _volume(want, paths.get(want.name), failures.get(want.name)) for want in wants
        )

    def unmounting(self, names: Iterable[str], failure: Failure | None) -> MountsRow:
        """Return the row of a pod whose volumes are going: those it had, and those on disk."""
        old = self._old()
        row = VolumeRow("", VolumeState.UNMOUNTING)
        if failure is not None:
            row = replace(row, reason=failure.reason, retry_ns=failure.retry_ns)
        return self._row(
            replace(row, name=name, plugin=old[name].plugin if name in old else "")
            for name in dict.fromkeys((*old, *names))
        )

    def _old(self) -> dict[str, VolumeRow]:
        rows = self.before.volumes if self.before is not None else ()
        return {volume.name: volume for volume in rows}

    def _row(self, volumes: Iterable[VolumeRow]) -> MountsRow:
        old = self._old()
        kept = tuple(_since(volume, old.get(volume.name), self.now) for volume in volumes)
        return MountsRow(self.uid, self.version, kept)


def _volume(want: Want, path: str | None, failure: Failure | None) -> VolumeRow:
    """Return a volume's row. One that is there and could not be renewed is there nevertheless."""
    plugin = plugin_of(want)
    reason, retry_ns = (failure.reason, failure.retry_ns) if failure is not None else ("", 0)
    if path is not None:
        return VolumeRow(
            want.name,
            VolumeState.MOUNTED,
            plugin,
            host_path=path,
            read_only=plugin in WRITTEN,
            selinux_relabel=plugin != HOST_PATH,  # the host's own labels are not ours to change
            reason=reason,
            retry_ns=retry_ns,
        )
    failed = failure is not None and not failure.waiting
    state = VolumeState.FAILED if failed else VolumeState.PENDING
    return VolumeRow(want.name, state, plugin, reason=reason, retry_ns=retry_ns)


def _since(volume: VolumeRow, before: VolumeRow | None, now: Moment) -> VolumeRow:
    same = before is not None and before.state is volume.state
    return replace(volume, since_ns=before.since_ns if before and same else now.wall_ns)
