"""The full look at a table: everything that is in it, or the first thing that is wrong with it.

A writer takes it when it attaches and when it is asked to verify. What a killed writer left in
the middle of a change is not damage: a buffer that no sequence word selects, a block that no
descriptor names, a key in a slot that is not live, a chunk that the header does not list. All of
that is simply not counted. At most one change can be half made, that with the generation after
the header's; its sequence word may be ahead of everything that is stored after it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from shm import layout
from shm.arena import MIN_BLOCK
from shm.errors import short


class Damage(Exception):  # noqa: N818 - a finding, which the caller turns into a sentence
    """What is wrong with a table, without its name."""


@dataclass(slots=True)
class Live:
    """One entry, as a writer must know it."""

    number: int
    base: int
    key: str
    key_crc: int
    seq: int
    offset: int
    capacity: int


@dataclass(slots=True)
class Census:
    """What a sound table holds."""

    size: int
    generation: int  # the half-made change included: it counts from now on
    chunks: list[int] = field(default_factory=list)
    live: list[Live] = field(default_factory=list)


def take_census(view: memoryview, words: memoryview) -> Census:
    """Return everything in the table, or raise Damage. The header's constants are checked already.

    The view must cover at least the size that the header states.
    """
    census = Census(words[layout.W_SIZE], words[layout.W_GENERATION])
    census.chunks = list(_chunks(words, census.size))
    complete = census.generation
    keys: set[str] = set()
    for number, base, seq in _used_slots(words, census.chunks):
        generation = seq >> 2
        _check_sequence(words, base, seq, complete)
        census.generation = max(census.generation, generation)
        if seq & layout.LIVE:
            entry = _read_live(view, number, base, seq)
            if entry.key in keys:
                raise Damage(f"two entries have the key {short(entry.key)}")
            keys.add(entry.key)
            census.live.append(entry)
    _check_blocks(census)
    _check_number(words[layout.W_ENTRIES], census, half_made=census.generation > complete)
    return census


def _chunks(words: memoryview, size: int) -> Iterator[int]:
    listed = words[layout.W_CHUNKS : layout.W_CHUNKS + layout.MAX_CHUNKS].tolist()
    number = listed.index(0) if 0 in listed else len(listed)
    if any(listed[number:]):
        raise Damage(f"index chunk {number} is missing")
    for chunk, word in enumerate(listed[:number]):
        offset = layout.decode_chunk(chunk, word, size)
        if offset is None:
            raise Damage(f"the place of index chunk {chunk} is not a sound one")
        yield offset


def _used_slots(words: memoryview, chunks: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield number, offset and sequence word of each slot that was ever used."""
    for chunk, offset in enumerate(chunks):
        first, start = layout.chunk_first_slot(chunk), offset // 8
        end = start + layout.chunk_bytes(chunk) // 8
        for index, seq in enumerate(words[start : end : layout.SLOT_WORDS].tolist()):
            base = offset + index * layout.SLOT_BYTES
            if seq or words[base // 8 + 1]:
                yield first + index, base, seq


def _check_sequence(words: memoryview, base: int, seq: int, complete: int) -> None:
    generation = seq >> 2
    # The guard is stored right after the sequence word, so only the half-made change may lack it.
    guarded = words[base // 8 + 1] == seq ^ layout.ALL_ONES
    if generation == 0 or generation > complete + 1 or not (guarded or generation > complete):
        raise Damage(f"the sequence word at offset {base} is not a sound one")


def _read_live(view: memoryview, number: int, base: int, seq: int) -> Live:
    key_bytes = read_key(view, base)
    if key_bytes is None:
        raise Damage(f"the key at offset {base} fails its checksum")
    key = key_bytes.decode(errors="replace")
    key_crc = zlib.crc32(key_bytes)
    at = base + layout.DESCRIPTORS_AT + (seq & layout.SIDE) * layout.DESCRIPTOR_BYTES
    generation, _stamp, offset, capacity, length, crc = layout.DESCRIPTOR.unpack_from(view, at)
    sound = generation == seq >> 2 and length <= capacity and offset + capacity <= len(view)
    if not sound or crc != _entry_crc(view, at, key_crc, offset, length):
        raise Damage(f"entry {short(key)} at offset {base} fails its checksum")
    return Live(number, base, key, key_crc, seq, offset, capacity)


def _entry_crc(view: memoryview, at: int, key_crc: int, offset: int, length: int) -> int:
    head = zlib.crc32(view[at : at + layout.COVERED.size], key_crc)
    return zlib.crc32(view[offset : offset + length], head)


def read_key(view: memoryview, base: int) -> bytes | None:
    """Return the key in the slot at this offset, or None where it fails its checksum."""
    length, crc = layout.KEY_HEAD.unpack_from(view, base + layout.KEY_HEAD_AT)
    if not 0 < length <= layout.MAX_KEY_BYTES:
        return None
    key = bytes(view[base + layout.KEY_AT : base + layout.KEY_AT + length])
    return key if zlib.crc32(key) == crc else None


def _check_blocks(census: Census) -> None:
    blocks = [(entry.offset, entry.capacity, short(entry.key)) for entry in census.live]
    for chunk, offset in enumerate(census.chunks):
        blocks.append((offset, layout.chunk_bytes(chunk), f"index chunk {chunk}"))
    previous_end, previous = layout.PAGE, "the header"
    for offset, size, name in sorted(blocks):
        if size < MIN_BLOCK or size & (size - 1) or offset % size or offset + size > census.size:
            raise Damage(f"the block of {name} at offset {offset} is not a sound one")
        if offset < previous_end:
            raise Damage(f"the blocks of {previous} and {name} overlap at offset {offset}")
        previous_end, previous = offset + size, name


def _check_number(stated: int, census: Census, *, half_made: bool) -> None:
    found = len(census.live)
    if abs(found - stated) > (1 if half_made else 0):
        raise Damage(f"{found} entries, its header says {stated}")
