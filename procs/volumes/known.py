"""What this process knows of a pod, and what the table of pods says of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TypeAlias

from kubelet.pods.rows import PODS, MountsRow, PodRow
from kubelet.pods.wire import BadRecordError
from kubelet.process.tables import Tables
from procs.volumes.plugin import Done
from procs.volumes.progress import Failure
from procs.volumes.wants import Want
from shm.codec import DecodeError, unpack

Seen: TypeAlias = tuple[object, ...]  # what matters of a row; empty where there is none


class UnknownError(Exception):
    """A pod's row cannot be read now: nothing is to be concluded from that."""


@dataclass(slots=True)
class Work:
    """What is known of one volume, or of one part of a pod's end, in this life of the process."""

    tried: int | None = None  # hash of what was tried last
    done: Done | None = None  # how it is set up
    failure: Failure | None = None
    again_ns: int = 0  # monotonic: it is set up again then; 0: never
    task: asyncio.Task[None] | None = None  # an operation is under way
    operation: str = ""  # which
    operation_ns: int = 0  # wall clock: since when
    shown: asyncio.TimerHandle | None = None  # it takes long from then on, and is shown

    def due(self, now_ns: int) -> bool:
        """Tell whether it is time to try again what failed, or to renew what is to be renewed."""
        if self.failure is not None:
            return bool(self.failure.delay_ns) and self.failure.until_ns <= now_ns
        return bool(self.again_ns) and self.again_ns <= now_ns

    @property
    def next_ns(self) -> int:
        """When it is time, monotonic; 0: never."""
        if self.task is not None:
            return 0  # its end is told
        if self.failure is not None:
            return self.failure.until_ns if self.failure.delay_ns else 0
        return self.again_ns


@dataclass(slots=True)
class Known:
    """What this process knows of a pod."""

    uid: str
    row: MountsRow | None = None  # as it is in our table
    seen: Seen = ()  # of the row in table pods that was looked at last
    document: tuple[int, int] | None = None  # version and hash of what is mounted
    version: int = 0  # of the pod's row which our row is for
    wants: tuple[Want, ...] = ()  # of that version
    work: dict[str, Work] = field(default_factory=dict)  # by volume
    ending: dict[str, Work] = field(default_factory=dict)  # by what is taken down
    deleted: bool = False  # the row's writer said that it is gone
    orphan: bool = False  # it was found on disk, and nobody wants it
    stale: bool = False  # an object that it refers to is another now
    dirty: bool = False
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether any operation is under way."""
        works = (*self.work.values(), *self.ending.values())
        return any(work.task is not None for work in works)


def glance(tables: Tables, uid: str) -> Seen:
    """Return what matters of a pod's row: most of its changes do not concern volumes."""
    entry = tables.get(PODS, uid)
    if entry is None:
        return ()
    try:
        value = unpack(entry.payload)
    except DecodeError:
        return (entry.generation,)
    if not isinstance(value, dict) or not isinstance(value.get("document", b""), bytes):
        return (entry.generation,)
    return value.get("state"), value.get("version"), hash(value.get("document", b""))


def read(tables: Tables, uid: str) -> PodRow | None:
    """Return a pod's row; an UnknownError says why nobody knows whether there is one."""
    entry = tables.get(PODS, uid)
    if entry is None:
        if PODS in tables.unavailable:
            raise UnknownError("table pods cannot be read")
        return None
    try:
        return PodRow.from_wire(unpack(entry.payload))
    except (BadRecordError, DecodeError) as err:
        raise UnknownError(str(err)) from None
