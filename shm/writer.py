"""The writing side of a table. See :mod:`shm.table` for how the two sides meet."""

from __future__ import annotations

import errno
import mmap
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from shm import files, layout
from shm.arena import Arena, block_size
from shm.census import Census, Damage, take_census
from shm.errors import BadKey, CorruptEntry, TableFull, TableUnavailable
from shm.fence import fence
from shm.layout import Entry
from shm.tables import Declaration

GROWTH: Final = 64 * 1024
_ALL_ONES: Final = layout.ALL_ONES
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)
_ATTEMPTS: Final = 100
_MAX_STAMP: Final = 1 << 64


class _Slot:
    """What the writer knows of a slot; it never has to read that back."""

    __slots__ = ("base", "blocks", "key_crc", "number", "seq")

    def __init__(self, number: int, base: int, key_crc: int, seq: int) -> None:
        self.number = number
        self.base = base
        self.key_crc = key_crc
        self.seq = seq
        self.blocks = [(0, 0), (0, 0)]  # (offset, size) of the two buffers; size 0: none


class Writer:
    """The one process that may change a table. It belongs to one thread."""

    def __init__(
        self, fd: int, declaration: Declaration, *, fresh: bool, reason: str | None
    ) -> None:
        """Use :meth:`attach` instead."""
        self.table = declaration.name
        self.fresh = fresh  # it began empty: first of its kind, or rebuilt
        self.reason = reason  # why it was rebuilt, in a sentence
        self._limit = declaration.max_bytes // layout.PAGE * layout.PAGE
        self._fd = fd
        self._generation = 0
        self._slots: dict[str, _Slot] = {}
        self._free_numbers: list[int] = []
        self._map(layout.header_word(files.read_header(fd)[0], layout.W_SIZE))
        try:
            self._adopt(take_census(self._view, self._words))
        except BaseException:
            self._unmap()
            raise

    @classmethod
    def attach(
        cls,
        directory: Path,
        declaration: Declaration,
        *,
        wait: float = files.LOCK_WAIT,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> Self:
        """Go on with the table that is there; make it if there is none; rebuild it if it is unfit.

        Raises TableLocked if another process still writes it after ``wait`` seconds, and
        TableUnavailable if the file system does not let us.
        """
        path = directory / declaration.name
        for _ in range(_ATTEMPTS):
            fd = files.open_table(path, declaration.name, os.O_RDWR)
            if fd is None:
                fd = files.create(path, declaration, clock(), replace=False)
                if fd is not None:
                    return cls(fd, declaration, fresh=True, reason=None)
                continue
            try:
                files.lock(fd, declaration.name, wait)
                if files.is_at(fd, path):
                    files.sweep(path)
                    return cls._take_over(fd, path, declaration, clock)
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
        raise TableUnavailable(declaration.name, f"{path} keeps being replaced")

    @classmethod
    def _take_over(
        cls, fd: int, path: Path, declaration: Declaration, clock: Callable[[], int]
    ) -> Self:
        head, size = files.read_header(fd)
        problem = layout.header_problem(head, size, declaration)
        if problem is None:
            try:
                return cls(fd, declaration, fresh=False, reason=None)
            except Damage as damage:
                problem = str(damage)
        # Generations go on from the old table's where that can be told, and from the clock's
        # where not, so that what a reader remembers is always older than all of the new ones.
        generation = clock()
        if len(head) == layout.PAGE:
            old = layout.header_word(head, layout.W_GENERATION)
            generation = (
                max(generation, old + 2) if old < layout.MAX_GENERATION // 2 else generation
            )
        new = files.create(path, declaration, generation, replace=True)
        if new is None:
            raise TableUnavailable(declaration.name, f"{path} was removed while it was rebuilt")
        files.supersede(fd)
        reason = f"table {declaration.name}: {problem}; rebuilt empty"
        writer = cls(new, declaration, fresh=True, reason=reason)
        os.close(fd)
        return writer

    # -- what others call -------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """The generation of the newest change."""
        return self._generation

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self._arena.end

    @property
    def used(self) -> int:
        """How many of them are in use."""
        return self._arena.end - self._arena.free_bytes

    def put(self, key: str, payload: bytes, stamp_ns: int = 0) -> int:
        """Store a value and return its generation. Readers see the old one or this one."""
        if not 0 <= stamp_ns < _MAX_STAMP:
            raise ValueError(
                f"table {self.table}: stamp {stamp_ns} is not an unsigned 64-bit number"
            )
        if not isinstance(payload, bytes):
            raise TypeError(f"table {self.table}: a payload is bytes, not {type(payload).__name__}")
        slot = self._slots.get(key)
        known = slot is not None
        if slot is None:
            slot = self._new_slot(key)
        length = len(payload)
        side = ~slot.seq & 1
        offset, capacity = slot.blocks[side]
        if capacity == 0 or not length <= capacity <= max(4 * length, 512):
            try:
                offset, capacity = self._new_block(slot, side, length)
            except BaseException:
                if not known:
                    self._free_numbers.append(slot.number)
                raise
        generation = self._generation + 1
        covered = layout.COVERED.pack(generation, stamp_ns, offset, capacity, length)
        crc = zlib.crc32(payload, zlib.crc32(covered, slot.key_crc))
        at = slot.base + layout.DESCRIPTORS_AT + side * layout.DESCRIPTOR_BYTES
        view = self._view
        view[offset : offset + length] = payload
        view[at : at + layout.DESCRIPTOR_BYTES] = covered + layout.DESCRIPTOR_CRC.pack(crc)
        self._turn(slot, generation << 2 | layout.LIVE | side)
        if not known:
            self._slots[key] = slot
            self._keys_changed()
        self._words[layout.W_GENERATION] = self._generation = generation
        return generation

    def delete(self, key: str) -> bool:
        """Remove a value; False if there was none."""
        slot = self._slots.pop(key, None)
        if slot is None:
            return False
        generation = self._generation + 1
        self._turn(slot, generation << 2)
        self._keys_changed()
        self._words[layout.W_GENERATION] = self._generation = generation
        for offset, size in slot.blocks:
            if size:
                self._arena.give(offset, size)
        self._free_numbers.append(slot.number)
        return True

    def get(self, key: str) -> Entry | None:
        """Return what was put, checked."""
        slot = self._slots.get(key)
        if slot is None:
            return None
        view = self._view
        at = slot.base + layout.DESCRIPTORS_AT + (slot.seq & 1) * layout.DESCRIPTOR_BYTES
        generation, stamp, offset, _, length, crc = layout.DESCRIPTOR.unpack_from(view, at)
        payload = bytes(view[offset : offset + length])
        head = zlib.crc32(view[at : at + layout.COVERED.size], slot.key_crc)
        if zlib.crc32(payload, head) != crc or generation != slot.seq >> 2:
            raise CorruptEntry(self.table, key, slot.base)
        return Entry(key, payload, stamp, generation)

    def keys(self) -> list[str]:
        """Return the keys."""
        return list(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: object) -> bool:
        return key in self._slots

    def verify(self) -> str | None:
        """Look at everything in the table and say what is wrong; None if nothing is."""
        size = os.fstat(self._fd).st_size
        if size < self._arena.end:
            return f"table {self.table}: the file was cut to {size} bytes"
        try:
            census = take_census(self._view, self._words)
        except Damage as damage:
            return f"table {self.table}: {damage}"
        found = {entry.key: entry.seq for entry in census.live}
        if found != {key: slot.seq for key, slot in self._slots.items()}:
            return f"table {self.table}: its entries are not those that were put"
        return None

    def close(self) -> None:
        """Let go of the table; it stays as it is, for the next writer."""
        self._unmap()
        os.close(self._fd)

    # -- how it is done ---------------------------------------------------------------------

    def _turn(self, slot: _Slot, seq: int) -> None:
        """Make a change count: one store, after everything that it refers to."""
        word = slot.base // 8
        words = self._words
        fence()
        words[word] = seq
        words[word + 1] = seq ^ _ALL_ONES
        slot.seq = seq
        fence()

    def _keys_changed(self) -> None:
        self._words[layout.W_ENTRIES] = len(self._slots)
        self._words[layout.W_INDEX] += 1
        fence()

    def _new_slot(self, key: str) -> _Slot:
        try:
            encoded = key.encode()
        except UnicodeEncodeError:
            raise BadKey(self.table, ascii(key), "is not text") from None
        if not 0 < len(encoded) <= layout.MAX_KEY_BYTES:
            allowed = f"1 to {layout.MAX_KEY_BYTES}"
            raise BadKey(self.table, key, f"has {len(encoded)} bytes; allowed are {allowed}")
        if not self._free_numbers:
            self._add_chunk()
        number = self._free_numbers.pop()
        chunk, within = layout.slot_place(number)
        base = self._chunks[chunk] + within
        # The slot is not live: nobody looks at its key, until the sequence word turns.
        crc = zlib.crc32(encoded)
        data = layout.KEY_HEAD.pack(len(encoded), crc) + encoded
        self._view[base + layout.KEY_HEAD_AT : base + layout.KEY_HEAD_AT + len(data)] = data
        return _Slot(number, base, crc, self._words[base // 8])

    def _new_block(self, slot: _Slot, side: int, length: int) -> tuple[int, int]:
        offset, size = slot.blocks[side]
        if size:
            slot.blocks[side] = (0, 0)
            self._arena.give(offset, size)
        size = block_size(length)
        slot.blocks[side] = block = (self._allocate(size), size)
        return block

    def _add_chunk(self) -> None:
        chunk = len(self._chunks)
        if chunk == layout.MAX_CHUNKS:
            raise self._full(layout.chunk_bytes(chunk), "it has no room for more keys")
        size = layout.chunk_bytes(chunk)
        offset = self._allocate(size)
        self._view[offset : offset + size] = bytes(size)
        fence()
        self._words[layout.W_CHUNKS + chunk] = layout.encode_chunk(chunk, offset)
        self._chunks.append(offset)
        first = layout.chunk_first_slot(chunk)
        self._free_numbers.extend(reversed(range(first, first + layout.chunk_slots(chunk))))

    def _allocate(self, size: int) -> int:
        offset = self._arena.take(size)
        why = self._grow(size) if offset is None else None
        if offset is None:
            offset = self._arena.take(size)
        if offset is None and self._give_back():
            offset = self._arena.take(size)
        if offset is None:
            raise self._full(size, why or "what is free is in smaller pieces")
        return offset

    def _grow(self, size: int) -> str | None:
        """Make the file larger, by a quarter if possible; say why if it is not possible at all."""
        end = self._arena.end
        needed = (end + size - 1) // size * size + size
        if end >= self._limit:
            return "it has reached its limit"
        generous = (end + max(GROWTH, end // 4)) // layout.PAGE * layout.PAGE
        why = None
        for target in sorted({max(needed, generous), needed}, reverse=True):
            why = self._grow_to(min(target, self._limit))
            if why is None:
                break
        return why

    def _grow_to(self, size: int) -> str | None:
        end = self._arena.end
        try:
            # Storage is taken now: a full tmpfs is an error here and not a SIGBUS at a store.
            os.posix_fallocate(self._fd, end, size - end)
        except OSError as err:
            if err.errno in _NO_SPACE:
                return f"the file system cannot take more: {err.strerror}"
            raise
        old = self._words, self._view, self._mapping
        self._map(size)
        for held in old[:2]:
            held.release()
        old[2].close()
        self._words[layout.W_SIZE] = size
        self._arena.extend(size)
        return None

    def _give_back(self) -> bool:
        """Free the buffers that do not count: the last resort before the table is full."""
        found = False
        for slot in self._slots.values():
            side = ~slot.seq & 1
            offset, size = slot.blocks[side]
            if size:
                slot.blocks[side] = (0, 0)
                self._arena.give(offset, size)
                found = True
        return found

    def _full(self, wanted: int, why: str) -> TableFull:
        return TableFull(self.table, wanted=wanted, used=self.used, limit=self._limit, why=why)

    def _adopt(self, census: Census) -> None:
        """Go on from what is there. The half-made change, if any, is completed: it counted."""
        self._chunks = census.chunks
        self._generation = census.generation
        used = [(offset, layout.chunk_bytes(i)) for i, offset in enumerate(census.chunks)]
        taken = set()
        for entry in census.live:
            slot = _Slot(entry.number, entry.base, entry.key_crc, entry.seq)
            slot.blocks[entry.seq & 1] = (entry.offset, entry.capacity)
            used.append((entry.offset, entry.capacity))
            taken.add(entry.number)
            self._slots[entry.key] = slot
        self._arena = Arena.around(layout.PAGE, census.size, used)
        total = layout.chunk_first_slot(len(census.chunks))
        self._free_numbers = [n for n in reversed(range(total)) if n not in taken]
        self._repair(census)

    def _repair(self, census: Census) -> None:
        words = self._words
        for offset, size in ((c, layout.chunk_bytes(i)) for i, c in enumerate(census.chunks)):
            for word in range(offset // 8, (offset + size) // 8, layout.SLOT_WORDS):
                if words[word]:
                    words[word + 1] = words[word] ^ _ALL_ONES
        words[layout.W_PID] = os.getpid()
        words[layout.W_PID_START] = files.process_start(os.getpid())
        self._keys_changed()
        words[layout.W_GENERATION] = census.generation

    def _map(self, size: int) -> None:
        self._mapping = mmap.mmap(self._fd, size)
        self._view = memoryview(self._mapping)
        self._words = self._view.cast("Q")

    def _unmap(self) -> None:
        self._words.release()
        self._view.release()
        self._mapping.close()
