"""What this process knows of a pod, and what the table of pods says of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TypeAlias

from kubelet.pods.rows import PODS, MountsRow, PodRow
from kubelet.pods.wire import BadRecordError
from kubelet.process.tables import Tables
from procs.volumes.progress import Failure
from shm.codec import DecodeError, unpack

Seen: TypeAlias = tuple[object, ...]  # what matters of a row; empty where there is none


class UnknownError(Exception):
    """A pod's row cannot be read now: nothing is to be concluded from that."""


@dataclass(slots=True)
class Known:
    """What this process knows of a pod."""

    uid: str
    row: MountsRow | None = None  # as it is in our table
    seen: Seen = ()  # of the row in table pods that was looked at last
    document: tuple[int, int] | None = None  # version and hash of what is mounted
    tried: dict[str, int] = field(default_factory=dict)  # volume -> hash of what was tried last
    failures: dict[str, Failure] = field(default_factory=dict)  # by volume
    deleted: bool = False  # the row's writer said that it is gone
    stale: bool = False  # an object that it refers to is another now
    dirty: bool = False
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None


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
