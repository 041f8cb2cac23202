"""The bytes of a table file: where everything stands and how it is checked.

    header    one page: constants with a CRC; words that change; where the index chunks are
    chunk i   64 << i slots of 512 bytes; chunks double, so that few offsets reach many slots
    block     the payload of one buffer; a power of two in size, aligned to its size

Numbers are in the machine's own byte order, which the header states.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from shm.tables import Declaration

PAGE: Final = 4096
MAGIC: Final = b"KBLTABLE"
LAYOUT_VERSION: Final = 1
ORDER_MARK: Final = 0x0102030405060708
ALL_ONES: Final = (1 << 64) - 1
MAX_GENERATION: Final = 1 << 61

# The header's constant part, guarded by a CRC.
CONSTANTS: Final = struct.Struct("=8sQII64s")  # magic, order mark, layout, schema, table name
CONSTANTS_CRC: Final = struct.Struct("=I")
NAME_BYTES: Final = 64

# The header's words, in units of 8 bytes. Each is written by one aligned 8-byte store.
W_SIZE: Final = 16  # bytes of the file that may be used; the file is never shorter
W_GENERATION: Final = 17  # of the newest change that is complete
W_INDEX: Final = 18  # moves whenever the set of keys has changed
W_SUPERSEDED: Final = 19  # SUPERSEDED when another file has taken this one's name
W_PID: Final = 20  # the writer, for the error that a second one gets
W_PID_START: Final = 21
W_ENTRIES: Final = 22
W_CHUNKS: Final = 32
SUPERSEDED: Final = 0x5355504552534544

MAX_CHUNKS: Final = 16
FIRST_CHUNK_SLOTS: Final = 64

# A slot: sequence word, its complement, two descriptors, the key.
SLOT_BYTES: Final = 512
SLOT_WORDS: Final = SLOT_BYTES // 8
DESCRIPTORS_AT: Final = 16
DESCRIPTOR: Final = struct.Struct("=QQQIII4x")  # generation, stamp, offset, capacity, length, CRC
COVERED: Final = struct.Struct("=QQQII")  # the part of a descriptor that its CRC covers
DESCRIPTOR_CRC: Final = struct.Struct("=I4x")
DESCRIPTOR_BYTES: Final = DESCRIPTOR.size
KEY_HEAD: Final = struct.Struct("=II")  # length, CRC
KEY_HEAD_AT: Final = DESCRIPTORS_AT + 2 * DESCRIPTOR_BYTES
KEY_AT: Final = KEY_HEAD_AT + KEY_HEAD.size
MAX_KEY_BYTES: Final = 384

# The sequence word: generation << 2 | LIVE | which of the two buffers counts. It only ever grows,
# so that a reader that sees the same word twice knows that nothing happened in between.
LIVE: Final = 2
SIDE: Final = 1


class Entry(NamedTuple):
    """One value as it was put."""

    key: str
    payload: bytes
    stamp_ns: int
    generation: int


def chunk_slots(chunk: int) -> int:
    """Return how many slots the chunk holds."""
    return FIRST_CHUNK_SLOTS << chunk


def chunk_bytes(chunk: int) -> int:
    """Return the chunk's size in the file."""
    return chunk_slots(chunk) * SLOT_BYTES


def chunk_first_slot(chunk: int) -> int:
    """Return the number of the chunk's first slot: all earlier chunks together."""
    return FIRST_CHUNK_SLOTS * ((1 << chunk) - 1)


def slot_place(number: int) -> tuple[int, int]:
    """Return the slot's chunk and its byte offset in that chunk."""
    chunk = (number // FIRST_CHUNK_SLOTS + 1).bit_length() - 1
    return chunk, (number - chunk_first_slot(chunk)) * SLOT_BYTES


def encode_chunk(chunk: int, offset: int) -> int:
    """Return the header word for a chunk: its page number and a CRC, in one store."""
    page = offset // PAGE
    return page << 32 | zlib.crc32(b"%d %d" % (chunk, page))


def decode_chunk(chunk: int, word: int, size: int) -> int | None:
    """Return the chunk's offset, or None where the word is not one that a writer made."""
    offset = (word >> 32) * PAGE
    if word != encode_chunk(chunk, offset) or not PAGE <= offset <= size - chunk_bytes(chunk):
        return None
    return offset


def encode_header(declaration: Declaration) -> bytes:
    """Return the constant part of the header, with its CRC."""
    constants = CONSTANTS.pack(
        MAGIC, ORDER_MARK, LAYOUT_VERSION, declaration.schema, declaration.name.encode()
    )
    return constants + CONSTANTS_CRC.pack(zlib.crc32(constants))


def header_problem(head: bytes, file_size: int, declaration: Declaration) -> str | None:
    """Say what keeps this file from being the declared table; None if nothing does."""
    if len(head) < PAGE:
        return f"the file has {file_size} bytes, less than a header"
    magic, order, version, schema, name = CONSTANTS.unpack_from(head)
    (crc,) = CONSTANTS_CRC.unpack_from(head, CONSTANTS.size)
    sound = crc == zlib.crc32(head[: CONSTANTS.size])
    name = name.rstrip(b"\0").decode(errors="replace")
    size = header_word(head, W_SIZE)
    findings = (
        (magic != MAGIC, f"the file does not begin as a table does ({magic!r})"),
        (order != ORDER_MARK, "it was written on a machine with another byte order"),
        (version != LAYOUT_VERSION, f"layout version {version}, this is {LAYOUT_VERSION}"),
        (not sound, "its header fails its checksum"),
        (name != declaration.name, f"it holds the table {name!r}"),
        (schema != declaration.schema, f"schema version {schema}, this is {declaration.schema}"),
        (
            size < PAGE or size % PAGE != 0 or size > file_size,
            f"the file has {file_size} bytes, its header says {size}",
        ),
        (header_word(head, W_GENERATION) >= MAX_GENERATION, "its generation is out of range"),
    )
    return next((text for found, text in findings if found), None)


def header_word(head: bytes, word: int) -> int:
    """Return one word of a header that was read into memory."""
    value: int = struct.unpack_from("=Q", head, word * 8)[0]
    return value
