"""The board: one row per process that says how it is.

A row is a file of 4 KiB, written by its process alone, through a mapping, because the event loop
writes it many times a second. Everyone else takes it with a single ``pread``, never through a
mapping: the supervisor must not die of a SIGBUS because somebody cut a file short.

Every number is one aligned 8-byte store, so none is ever seen half. What belongs together (the
text of an operation; a pair of CPU samples) stands twice, with a word that selects which of the
two counts: the writer fills the other one and then turns the word. The text also carries a CRC;
where that fails, the previous text is shown, and where that fails too, none.

Counters never go back: a successor starts from the values it finds, so that a metric survives a
restart. Everything else starts anew. The whole row can be thrown away at any time.

A row belongs to one thread, that of the event loop: an increment is a load and a store.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from shm.fence import fence
from shm.text import cut

ROW_BYTES: Final = 4096
MAGIC: Final = b"KBLROW01"
NAME_BYTES: Final = 31
MAX_COUNTERS: Final = 64
MAX_QUEUES: Final = 8
OVERFLOW: Final = "overflow"  # holds what was counted under names that found no room
SAMPLE_NS: Final = 500_000_000  # asking the kernel for the CPU time costs as much as a beat
OLDER_SAMPLE_NS: Final = 5_000_000_000

_ALL_ONES: Final = (1 << 64) - 1

# Places of single words, in units of 8 bytes.
_BEATS, _BEAT, _LAG, _LAG_MAX = 4, 5, 6, 7
_TEXT_TURN, _SAMPLE_TURN, _COUNTERS, _QUEUES = 8, 9, 10, 11
_HEAD: Final = struct.Struct("=8sQQQ8Q")  # magic, pid, started, CRC of those; the words above
_CONST: Final = struct.Struct("=8sQQ")

_SAMPLES: Final = struct.Struct("=QQQQ")  # older: when, CPU; newer: when, CPU
_SAMPLES_AT: Final = _HEAD.size

_TEXT: Final = struct.Struct("=IBBBBQ")  # CRC of the rest, four lengths, since when
_TEXT_CRC: Final = struct.Struct("=I")
_TEXT_AT: Final = _SAMPLES_AT + 2 * _SAMPLES.size
_TEXT_BYTES: Final = 512
_PHASE_ROOM, _OPERATION_ROOM, _POD_ROOM = 31, 200, 128

_NAMED: Final = struct.Struct("=Q32s")  # value, name
_COUNTERS_AT: Final = _TEXT_AT + 2 * _TEXT_BYTES
_QUEUES_AT: Final = _COUNTERS_AT + MAX_COUNTERS * _NAMED.size

Samples = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Row:
    """What one process says about itself. Times are monotonic nanoseconds."""

    pid: int
    started_ns: int
    beats: int
    beat_ns: int  # 0 until the first beat
    phase: str
    operation: str  # "" between operations
    operation_since_ns: int
    pod: str  # the pod that the operation is about
    lag_ns: int
    lag_max_ns: int
    cpu_samples: Samples  # (when, CPU time used by then), the older first
    queues: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    blamed: str = ""  # the pod that a fatal error happened on

    @property
    def cpu_millicores(self) -> float:
        """Return the recent CPU use, from the two samples in the row."""
        (since, used_then), (until, used) = self.cpu_samples
        return 1000.0 * (used - used_then) / (until - since) if until > since else 0.0


class _Names:
    """Named words of one kind (counters or queue depths), in the order of their first use."""

    def __init__(self, start: int, room: int, number_word: int) -> None:
        self._start = start
        self._room = room
        self._number_word = number_word
        self.words: dict[str, int] = {}  # name -> place of its value, in units of 8 bytes

    def add(self, view: memoryview, words: memoryview, name: str, value: int) -> int:
        """Give the name a place and return it; the last place takes all that find no room."""
        if not 0 < len(name.encode()) <= NAME_BYTES:
            raise ValueError(f"board name {name!r}: must have 1 to {NAME_BYTES} bytes")
        number = words[self._number_word]
        if number == self._room:
            return self.words[OVERFLOW]
        if number == self._room - 1:
            name = OVERFLOW
        _NAMED.pack_into(view, self._start + number * _NAMED.size, value, name.encode())
        fence()
        words[self._number_word] = number + 1  # a name is there whole before it counts
        self.words[name] = place = (self._start + number * _NAMED.size) // 8
        return place


class RowWriter:
    """This process's row."""

    def __init__(
        self,
        mapping: mmap.mmap,
        clock: Callable[[], int],
        cpu_clock: Callable[[], int],
    ) -> None:
        """Use :meth:`create` instead."""
        self._mapping = mapping
        self._view = memoryview(mapping)
        self._words = self._view.cast("Q")
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._counters = _Names(_COUNTERS_AT, MAX_COUNTERS, _COUNTERS)
        self._queues = _Names(_QUEUES_AT, MAX_QUEUES, _QUEUES)
        self._phase, self._operation, self._pod, self._blamed = b"starting", b"", b"", b""
        self._since = 0
        self._next_sample = 0
        self._older = self._next_older = (clock(), cpu_clock())

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        cpu_clock: Callable[[], int] = time.process_time_ns,
        mode: int = 0o640,
    ) -> Self:
        """Make this process's row, or take it over from the predecessor with its counters.

        The file is reset where it stands and never replaced: who holds it open keeps seeing it.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        try:
            previous = read_row(fd)
            os.posix_fallocate(fd, 0, ROW_BYTES)  # a full tmpfs is an error here, not a SIGBUS
            os.ftruncate(fd, ROW_BYTES)
            os.pwrite(fd, _blank_row(clock()), 0)
            mapping = mmap.mmap(fd, ROW_BYTES)
        finally:
            os.close(fd)
        row = cls(mapping, clock, cpu_clock)
        row._begin_anew(previous.counters if previous else {})
        return row

    def _begin_anew(self, counters: dict[str, int]) -> None:
        for name, value in counters.items():
            self._counters.add(self._view, self._words, name, value)
        self._write_samples(*self._older)
        self._write_text()

    def beat(self, lag_ns: int = 0) -> None:
        """Say that the event loop turns, and how late it was."""
        words = self._words
        now = self._clock()
        lag_ns = max(0, lag_ns)
        words[_LAG] = lag_ns
        words[_LAG_MAX] = max(words[_LAG_MAX], lag_ns)
        words[_BEAT] = now
        words[_BEATS] += 1
        if now >= self._next_sample:
            self._write_samples(now, self._cpu_clock())

    def begin(self, operation: str, pod: str = "") -> None:
        """Say what is being done from now on, and for which pod."""
        self._operation, self._pod = cut(operation, _OPERATION_ROOM), cut(pod, _POD_ROOM)
        self._since = self._clock()
        self._write_text()

    def end(self) -> None:
        """Say that the operation is over."""
        self._operation, self._pod, self._since = b"", b"", 0
        self._write_text()

    def set_phase(self, phase: str) -> None:
        """Say which part of its life the process is in: starting, running, stopping."""
        self._phase = cut(phase, _PHASE_ROOM)
        self._write_text()

    def blame(self, pod: str) -> None:
        """Name the pod that a fatal error happened on; it stays until the row is reset."""
        self._blamed = cut(pod, _POD_ROOM)
        self._write_text()

    def count(self, name: str, n: int = 1) -> None:
        """Add to a counter, which is made at its first use."""
        place = self._counters.words.get(name)
        if place is None:
            place = self._counters.add(self._view, self._words, name, 0)
        self._words[place] = self._words[place] + n & _ALL_ONES

    def depth(self, name: str, n: int) -> None:
        """Set the depth of a queue, which is made at its first use."""
        place = self._queues.words.get(name)
        if place is None:
            place = self._queues.add(self._view, self._words, name, 0)
        self._words[place] = max(0, n)

    def close(self) -> None:
        """Let go of the mapping; the row stays as it is."""
        self._words.release()
        self._view.release()
        self._mapping.close()

    def _write_text(self) -> None:
        phase, operation, pod, blamed = self._phase, self._operation, self._pod, self._blamed
        lengths = len(phase), len(operation), len(pod), len(blamed)
        rest = _TEXT.pack(0, *lengths, self._since)[4:] + phase + operation + pod + blamed
        turn = self._words[_TEXT_TURN] + 1
        at = _TEXT_AT + (turn & 1) * _TEXT_BYTES
        self._view[at : at + 4 + len(rest)] = _TEXT_CRC.pack(zlib.crc32(rest)) + rest
        fence()
        self._words[_TEXT_TURN] = turn

    def _write_samples(self, now: int, used: int) -> None:
        # The older sample is 5 to 10 s old, so that whoever looks can tell the recent CPU use
        # from one look.
        if now - self._next_older[0] >= OLDER_SAMPLE_NS:
            self._older, self._next_older = self._next_older, (now, used)
        self._next_sample = now + SAMPLE_NS
        turn = self._words[_SAMPLE_TURN] + 1
        at = _SAMPLES_AT + (turn & 1) * _SAMPLES.size
        _SAMPLES.pack_into(self._view, at, *self._older, now, used)
        self._words[_SAMPLE_TURN] = turn


def read_row(source: Path | int) -> Row | None:
    """Read a row from its file or an open descriptor; None where there is no sound row."""
    try:
        data = os.pread(source, ROW_BYTES, 0) if isinstance(source, int) else _read_file(source)
    except OSError:
        return None
    return parse_row(data)


def parse_row(data: bytes) -> Row | None:
    """Turn the bytes of a row into a Row; None where they are not a sound row."""
    if len(data) != ROW_BYTES:
        return None
    head = _HEAD.unpack_from(data)
    magic, pid, started, crc, beats, beat, lag, lag_max, text_turn, sample_turn, *numbers = head
    if magic != MAGIC or crc != zlib.crc32(_CONST.pack(magic, pid, started)):
        return None
    text = _parse_text(data, text_turn) or _parse_text(data, text_turn + 1) or ("", "", "", "", 0)
    phase, operation, pod, blamed, since = text
    at = _SAMPLES_AT + (sample_turn & 1) * _SAMPLES.size
    older, older_used, newer, newer_used = _SAMPLES.unpack_from(data, at)
    return Row(
        pid=pid,
        started_ns=started,
        beats=beats,
        beat_ns=beat,
        phase=phase,
        operation=operation,
        operation_since_ns=since,
        pod=pod,
        lag_ns=lag,
        lag_max_ns=lag_max,
        cpu_samples=((older, older_used), (newer, newer_used)),
        counters=_parse_names(data, _COUNTERS_AT, min(numbers[0], MAX_COUNTERS)),
        queues=_parse_names(data, _QUEUES_AT, min(numbers[1], MAX_QUEUES)),
        blamed=blamed,
    )


def _read_file(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.pread(fd, ROW_BYTES, 0)
    finally:
        os.close(fd)


def _blank_row(now: int) -> bytes:
    pid = os.getpid()
    crc = zlib.crc32(_CONST.pack(MAGIC, pid, now))
    return _HEAD.pack(MAGIC, pid, now, crc, *[0] * 8).ljust(ROW_BYTES, b"\0")


def _parse_text(data: bytes, turn: int) -> tuple[str, str, str, str, int] | None:
    at = _TEXT_AT + (turn & 1) * _TEXT_BYTES
    crc, phase, operation, pod, blamed, since = _TEXT.unpack_from(data, at)
    lengths = phase, operation, pod, blamed
    end = at + _TEXT.size + sum(lengths)
    if sum(lengths) > _TEXT_BYTES - _TEXT.size or crc != zlib.crc32(data[at + 4 : end]):
        return None
    text = data[at + _TEXT.size : end]
    parts, start = [], 0
    for length in lengths:
        parts.append(text[start : start + length].decode(errors="replace"))
        start += length
    return parts[0], parts[1], parts[2], parts[3], since


def _parse_names(data: bytes, start: int, number: int) -> dict[str, int]:
    names = {}
    for at in range(start, start + number * _NAMED.size, _NAMED.size):
        value, padded = _NAMED.unpack_from(data, at)
        name = padded.rstrip(b"\0").decode(errors="replace")
        if name.isprintable() and 0 < len(name.encode()) <= NAME_BYTES:
            names[name] = value
    return names
