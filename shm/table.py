"""One table: one process writes it, all others may read it, each may die at any instruction.

Purpose
    What a process knows must outlive it, and must be there for the others at the cost of a memory
    access. A table is a file on tmpfs, mapped by everyone: a dictionary from a short key to bytes.
    The writer never waits for a reader and a reader never waits for the writer.

How the two sides meet
    An entry has a slot with two descriptors, each naming a block that holds a payload. One 8-byte
    *sequence word* says which descriptor counts, whether the entry is live at all, and at which
    generation that became so. To put a value, the writer fills the block that does not count, then
    the descriptor that does not count, then stores the sequence word: a single aligned store, which
    is the change. To delete, it stores a sequence word without the live bit.

    A reader loads the sequence word, copies descriptor and payload, and checks a CRC that covers
    key, descriptor and payload. If the CRC fits and the descriptor has the generation that the
    sequence word named, the value was whole and was the current one at the moment of the load. If
    not, the reader was overtaken (the writer has come round to this buffer again, the block went to
    another entry, the slot to another key) and tries again. There is no lock and no state of the
    reader's in the file, so a dead or stopped reader costs nobody anything, and files are mapped
    read-only by all but one.

    The CRC makes this right on ARM too, where the payload's stores may become visible after the
    sequence word's: such a read fails its CRC and is repeated. What the CRC cannot guard is "there
    is nothing new": the header's generation and index words are therefore stored behind a fence
    (:mod:`shm.fence`), and readers load them before one.

    Keys are found through a dictionary that each reader keeps for itself. The header's index word
    moves whenever the set of keys changes; the reader then looks at the slots whose sequence word
    is newer than its last look, which is all that it costs.

What a kill can leave
    block half written           the sequence word still selects the other buffer: the old value
    descriptor half written      the same
    sequence word stored         the new value counts. The words behind it (its complement, number
                                 of entries, index, generation) are completed by the next writer;
                                 until then changed_since repeats the change at each call, and a
                                 new key may not be seen yet
    key written, slot not live   the slot is free
    block or chunk taken,        free: which blocks are taken is not stored, but worked out from
      nothing refers to it       those that are referred to
    file grown, size not stored  the rest of the file is not used yet
    new file not yet named       removed by the next writer

    None of these is damage. Damage is what no writer leaves: a CRC that fails in the buffer that
    counts, blocks that overlap, a word that no writer stores. A writer that finds any puts an empty
    file in its place, with a sentence that says what was wrong; the content is then rebuilt from
    the runtime, the API server and the disk. A reader reports damage to the entry it reads.

One writer
    A writer holds an flock on the file. The kernel drops it with the process, so the successor of a
    killed writer waits a few milliseconds at most, and a second writer is an error that names the
    first. (A child forked by the writer shares the lock until it execs or exits.)

What is given up
    - Storage: both buffers are kept, and blocks are powers of two, so an entry takes two to four
      times its size. When a table would be full, the buffers that do not count are given back.
    - A file never shrinks while it lives.
    - A CRC of 32 bits lets one torn read in four thousand million pass. A torn read must happen
      first, and the generation must fit too.
    - Somebody who truncates a table under its readers kills them with SIGBUS. The run directory is
      closed to everyone else; attaching to a file that *was* truncated is safe.
    - Fairness: an entry that is rewritten without pause may make a reader try often. The writer
      needs two complete puts of that entry to overtake one copy, so this hardly ever happens; after
      1000 attempts the reader is told (EntryBusy).
"""

from __future__ import annotations

from shm.errors import (
    BadKey,
    CorruptEntry,
    EntryBusy,
    TableError,
    TableFull,
    TableLocked,
    TableUnavailable,
)
from shm.layout import Entry
from shm.reader import Reader
from shm.tables import Declaration
from shm.writer import Writer

__all__ = [
    "BadKey",
    "CorruptEntry",
    "Declaration",
    "Entry",
    "EntryBusy",
    "Reader",
    "TableError",
    "TableFull",
    "TableLocked",
    "TableUnavailable",
    "Writer",
]
