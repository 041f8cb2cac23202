"""What to do for a pod, and what to tell of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from kubelet.pods.rows import MountsRow, VolumeRow, VolumeState, WorkerState
from procs.volumes.layout import EPHEMERAL, LOCAL, WRITTEN
from procs.volumes.wants import (
    CsiWant,
    HostPathWant,
    LocalWant,
    NfsWant,
    Waiting,
    Want,
    plugin_of,
)

SECOND: Final = 10**9
FIRST_DELAY: Final = SECOND // 2  # T-11
LAST_DELAY: Final = 122 * SECOND

# Volumes whose labels are the kubelet's to change: not the host's own, nor a server's.
_RELABELLED: Final = EPHEMERAL | {LOCAL}


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
    fatal: str = ""  # the pod is to fail with this reason


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, on both clocks: the one that counts and the one that is shown."""

    mono_ns: int
    wall_ns: int


def next_failure(
    before: Failure | None, reason: str, now: Moment, *, waiting: bool = False
) -> Failure:
    """Return what a failure now means for the next try."""
    tried = before is not None and before.delay_ns and before.waiting == waiting
    delay = min(before.delay_ns * 2, LAST_DELAY) if before is not None and tried else FIRST_DELAY
    return Failure(reason, delay, now.mono_ns + delay, now.wall_ns + delay, waiting=waiting)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a volume stands: where it is, what went wrong, what is done for it now."""

    path: str | None = None  # None: it is not there
    failure: Failure | None = None
    operation: str = ""
    operation_ns: int = 0


@dataclass(frozen=True, slots=True)
class Telling:
    """What a row of table ``mounts`` says whatever its volumes are doing."""

    uid: str
    version: int
    before: MountsRow | None  # the row as it is now
    now: Moment

    def mounting(self, wants: Iterable[Want], standings: Mapping[str, Standing]) -> MountsRow:
        """Return the row of a pod whose volumes stand like this."""
        return self._row(_volume(want, standings[want.name]) for want in wants)

    def unmounting(self, standings: Mapping[str, Standing]) -> MountsRow:
        """Return the row of a pod whose volumes are going: those it had, and those on disk.

        What is said of a directory counts for the volume whose it is; under ``""``, for all of
        which nothing else is said.
        """
        old = self._old()
        owners = {volume.spec: name for name, volume in old.items() if volume.spec}
        told = {owners.get(key, key): standing for key, standing in standings.items()}
        rest = told.pop("", Standing())
        names = dict.fromkeys((*old, *told))
        return self._row(_going(name, old.get(name), told.get(name, rest)) for name in names)

    def _old(self) -> dict[str, VolumeRow]:
        rows = self.before.volumes if self.before is not None else ()
        return {volume.name: volume for volume in rows}

    def _row(self, volumes: Iterable[VolumeRow]) -> MountsRow:
        old = self._old()
        kept = tuple(_since(volume, old.get(volume.name), self.now) for volume in volumes)
        return MountsRow(self.uid, self.version, kept)


def _volume(want: Want, standing: Standing) -> VolumeRow:
    """Return a volume's row. One that is there and could not be renewed is there nevertheless."""
    failure = standing.failure
    row = _told(_plain(want), standing)
    if standing.path is not None:
        return replace(row, state=VolumeState.MOUNTED, host_path=standing.path)
    failed = failure is not None and not failure.waiting
    state = VolumeState.FAILED if failed else VolumeState.PENDING
    return replace(row, state=state, fatal=failure.fatal if failure is not None else "")


def _plain(want: Want) -> VolumeRow:
    """Return what a volume's row says however it stands."""
    plugin = plugin_of(want)
    row = VolumeRow(
        want.name,
        plugin=plugin,
        read_only=plugin in WRITTEN,
        selinux_relabel=plugin in _RELABELLED,
    )
    match want:
        case LocalWant() | NfsWant() | CsiWant():
            of = want.of
            return replace(
                row,
                spec=of.spec if of.spec != want.name else "",
                read_only=of.read_only,
                gid=of.gid,
                block=of.block,
                claim=of.claim,
                device=want.device if isinstance(want, CsiWant) else "",
            )
        case HostPathWant() if want.of is not None:
            of = want.of
            return replace(row, claim=of.claim, gid=of.gid, read_only=of.read_only)
        case Waiting():
            return replace(row, claim=want.claim)
        case _:
            return row


def _going(name: str, before: VolumeRow | None, standing: Standing) -> VolumeRow:
    row = VolumeRow(name, VolumeState.UNMOUNTING)
    if before is not None:
        kept = {field: getattr(before, field) for field in ("plugin", "spec", "device", "claim")}
        row = replace(row, **kept)
    return _told(row, standing)


def _told(row: VolumeRow, standing: Standing) -> VolumeRow:
    failure = standing.failure
    return replace(
        row,
        reason=failure.reason if failure is not None else "",
        retry_ns=failure.retry_ns if failure is not None else 0,
        operation=standing.operation,
        operation_ns=standing.operation_ns if standing.operation else 0,
    )


def _since(volume: VolumeRow, before: VolumeRow | None, now: Moment) -> VolumeRow:
    same = before is not None and before.state is volume.state
    return replace(volume, since_ns=before.since_ns if before and same else now.wall_ns)
