"""The recorder: the last few thousand things that each process did.

A ring of fixed slots in a file, one file per process. A record is one ``pwrite``: no mapping, so
that the ring's pages are never part of the process's own memory. Each slot carries its sequence
number and a CRC; a slot that was half written, by a process killed in the middle or under the
eyes of a reader, fails the CRC and is left out. The successor of a dead process goes on counting
where that one stopped.

The records are ``struct``, not MessagePack, because the supervisor keeps one too and imports
nothing but the standard library.
"""

from __future__ import annotations

import os
import struct
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from shm.text import cut

SLOTS: Final = 4096
SLOT_BYTES: Final = 256
RING_BYTES: Final = SLOTS * SLOT_BYTES

_HEAD: Final = struct.Struct("=IBBBxQQQ")  # CRC of the rest, three lengths, seq, wall, monotonic
_POD_ROOM: Final = 64
_WHAT_ROOM: Final = 24
_ROOM: Final = SLOT_BYTES - _HEAD.size


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that one process did."""

    seq: int  # counts from 1 within its kind
    time_ns: int  # wall clock, for showing
    mono_ns: int  # monotonic, for ordering
    kind: str
    pod: str
    what: str  # a short word: started, exited, hint, request
    text: str


class RecorderWriter:
    """This process's ring."""

    def __init__(
        self, fd: int, seq: int, clock: Callable[[], int], wall: Callable[[], int]
    ) -> None:
        """Use :meth:`create` instead."""
        self._fd = fd
        self._clock = clock
        self._wall = wall
        self.seq = seq  # of the newest record
        self.lost = 0  # records that could not be written

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
        mode: int = 0o640,
    ) -> Self:
        """Open the ring, or go on with the one that a predecessor left."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        try:
            if os.fstat(fd).st_size > RING_BYTES:
                os.ftruncate(fd, RING_BYTES)
            newest = max(_sound_slots(os.pread(fd, RING_BYTES, 0)), default=0)
        except BaseException:
            os.close(fd)
            raise
        return cls(fd, newest, clock, wall)

    def record(self, what: str, text: str = "", pod: str = "") -> int:
        """Write down one thing and return the number of the newest record.

        It never fails: what the process is doing matters more than the note about it. A record
        that finds no room on a full tmpfs is counted in ``lost``.
        """
        seq = self.seq + 1
        data = _encode((seq, self._wall(), self._clock()), pod, what, text)
        try:
            os.pwrite(self._fd, data, seq % SLOTS * SLOT_BYTES)
        except OSError:
            self.lost += 1
            return self.seq
        self.seq = seq
        return seq

    def close(self) -> None:
        """Close the file; the records stay."""
        os.close(self._fd)


def read_records(path: Path, after: int = 0, limit: int | None = None) -> list[Record]:
    """Return the records with a higher number than ``after``, in order.

    With a limit, the newest that many. A ring whose newest record is older than ``after`` was
    begun anew, and is returned whole. A missing file holds no records.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        data = b"" if _nothing_new(fd, after) else os.pread(fd, RING_BYTES, 0)
    except OSError:
        return []
    finally:
        os.close(fd)
    return _select(data, path.name, after, limit)


def merge(
    directory: Path, after: Mapping[str, int] | None = None, limit: int | None = None
) -> list[Record]:
    """Return the records of every kind in the directory, in the order in which they happened.

    ``after`` gives, by kind, the number of the last record already seen: to follow, keep the
    highest number of each kind and ask again.
    """
    try:
        names = sorted(name for name in os.listdir(directory) if not name.startswith("."))
    except OSError:
        return []
    seen = after or {}
    records = [r for name in names for r in read_records(directory / name, seen.get(name, 0))]
    records.sort(key=lambda r: (r.mono_ns, r.kind, r.seq))
    return records if limit is None else records[max(0, len(records) - limit) :]


def _encode(numbers: tuple[int, int, int], pod: str, what: str, text: str) -> bytes:
    pod_bytes, what_bytes = cut(pod, _POD_ROOM), cut(what, _WHAT_ROOM)
    text_bytes = cut(text, _ROOM - len(pod_bytes) - len(what_bytes))
    lengths = len(pod_bytes), len(what_bytes), len(text_bytes)
    rest = _HEAD.pack(0, *lengths, *numbers)[4:] + pod_bytes + what_bytes + text_bytes
    return (zlib.crc32(rest).to_bytes(4, sys.byteorder) + rest).ljust(SLOT_BYTES, b"\0")


def _sound_slots(data: bytes) -> dict[int, int]:
    """Return where each record stands, by its number; what fails its CRC is left out."""
    found = {}
    for at in range(0, len(data) - SLOT_BYTES + 1, SLOT_BYTES):
        crc, pod, what, text, seq, _wall, _mono = _HEAD.unpack_from(data, at)
        end = _HEAD.size + pod + what + text
        if seq == 0 or end > SLOT_BYTES or at // SLOT_BYTES != seq % SLOTS:
            continue
        if zlib.crc32(data[at + 4 : at + end]) == crc:
            found[seq] = at
    return found


def _nothing_new(fd: int, after: int) -> bool:
    """Tell from two slots that ``after`` is the newest record, as a follower mostly finds.

    Anything unclear means a look at the whole ring.
    """
    if after == 0:
        return False
    last, following = (
        os.pread(fd, _HEAD.size, seq % SLOTS * SLOT_BYTES).ljust(_HEAD.size, b"\0")
        for seq in (after, after + 1)
    )
    blank_or_old = 0, after + 1 - SLOTS
    return _HEAD.unpack(last)[4] == after and _HEAD.unpack(following)[4] in blank_or_old


def _select(data: bytes, kind: str, after: int, limit: int | None) -> list[Record]:
    slots = _sound_slots(data)
    numbers = sorted(slots)
    if numbers and numbers[-1] >= after:
        numbers = [seq for seq in numbers if seq > after]
    if limit is not None:
        numbers = numbers[max(0, len(numbers) - limit) :]
    return [_decode(kind, data, slots[seq]) for seq in numbers]


def _decode(kind: str, data: bytes, at: int) -> Record:
    _crc, pod, what, text, seq, wall, mono = _HEAD.unpack_from(data, at)
    pod_at = at + _HEAD.size
    what_at = pod_at + pod
    text_at = what_at + what
    return Record(
        seq=seq,
        time_ns=wall,
        mono_ns=mono,
        kind=kind,
        pod=data[pod_at:what_at].decode(errors="replace"),
        what=data[what_at:text_at].decode(errors="replace"),
        text=data[text_at : text_at + text].decode(errors="replace"),
    )
