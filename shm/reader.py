"""The reading side of a table. See :mod:`shm.table` for how the two sides meet."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, Self
from zlib import crc32

from shm import files, layout
from shm.census import read_key
from shm.errors import CorruptEntry, EntryBusy, TableUnavailable
from shm.fence import fence
from shm.layout import ALL_ONES, LIVE, Entry
from shm.tables import Declaration

ATTEMPTS: Final = 1000  # reads of an entry that is being rewritten all the time
SAME_SEQUENCE: Final = 8  # failed reads with nothing rewritten: that is damage
KEPT_REMOVALS: Final = 4096
_SLOT_WORDS: Final = layout.SLOT_WORDS
_unpack_descriptor: Final = layout.DESCRIPTOR.unpack

_Place = tuple[int, tuple[int, int], int]  # sequence word, its two descriptors, CRC of the key


class Reader:
    """One process's read-only view of a table. It never waits, never writes, belongs to one thread.

    The set of keys is kept here and brought up to date when the table says that it has changed,
    by looking only at the slots that changed since.
    """

    def __init__(self, fd: int, directory: Path, declaration: Declaration, size: int) -> None:
        """Use :meth:`attach` instead."""
        self.table = declaration.name
        self._directory = directory
        self._declaration = declaration
        self._removed: dict[str, int] = {}  # key -> generation of its removal, or later
        self._take(fd, size)

    @classmethod
    def attach(cls, directory: Path, declaration: Declaration) -> Self:
        """Map the table; raises TableUnavailable where there is none, or none that is sound."""
        fd, size = _open(directory, declaration)
        return cls(fd, directory, declaration, size)

    # -- what others call -------------------------------------------------------------------

    def get(self, key: str) -> Entry | None:
        """Return the entry, or None if there is none.

        Raises CorruptEntry if the entry is damaged, EntryBusy if it is rewritten without pause.
        """
        words = self._words
        if words[18] != self._index:  # layout.W_INDEX
            return self._get_patiently(key)
        place = self._places.get(key)
        if place is not None:
            word, descriptors, key_crc = place
            seq = words[word]
            if seq & 2:  # layout.LIVE
                mapping = self._mapping
                at = descriptors[seq & 1]
                # What is checked must be what is returned, so everything is copied just once.
                copy = mapping[at : at + 40]  # layout.DESCRIPTOR_BYTES
                generation, stamp, offset, _, length, crc = _unpack_descriptor(copy)
                payload = mapping[offset : offset + length]
                # The CRC decides: it covers the key, the descriptor and the payload. A value
                # that passes was whole, and was the current one when seq was read.
                if (
                    crc32(payload, crc32(copy[:32], key_crc)) == crc  # layout.COVERED.size
                    and generation == seq >> 2
                ):
                    return Entry(key, payload, stamp, generation)
        return self._get_patiently(key)

    def keys(self) -> list[str]:
        """Return the keys that there are now."""
        self._catch_up()
        self._refuse_damage()
        return list(self._places)

    def items(self) -> Iterator[Entry]:
        """Yield every entry; one that goes away meanwhile is left out."""
        for key in self.keys():
            entry = self.get(key)
            if entry is not None:
                yield entry

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, key: str) -> bool:
        self._catch_up()
        return key in self._places

    @property
    def generation(self) -> int:
        """The generation of the newest change."""
        value: int = self._words[layout.W_GENERATION]
        return value

    def changed_since(self, generation: int) -> tuple[int, list[str]]:
        """Return the table's generation and the keys changed or removed after the given one.

        Pass what it returned the next time. A key may come up once more than needed, never once
        less. Removals are remembered from when this reader attached, the last 4096 of them; who
        starts from generation 0 gets every key there is. A generation from the future belongs to
        another table file, and counts as 0.
        """
        newest = self.generation
        fence()
        self._catch_up()
        self._refuse_damage()
        since = generation if generation <= newest else 0
        words, least = self._words, (since + 1) << 2
        changed: list[str] = []
        for chunk, start in enumerate(self._chunks):
            first = layout.chunk_first_slot(chunk)
            end = start + layout.chunk_slots(chunk) * _SLOT_WORDS
            seqs = words[start:end:_SLOT_WORDS].tolist()
            numbers = [first + i for i, seq in enumerate(seqs) if seq >= least and seq & LIVE]
            changed.extend(key for n in numbers if (key := self._slot_keys[n]) is not None)
        changed.extend(key for key, removal in self._removed.items() if removal > since)
        return newest, changed

    def refresh(self) -> bool:
        """Attach to the table's new file if this one was replaced; True if so.

        All keys of the old one count as changed or removed. Raises TableUnavailable where the new
        one cannot be had, or this one was cut short; close this reader then.
        """
        found = os.fstat(self._fd)
        # Its size first: a mapping must not be touched behind the end of its file.
        whole = found.st_nlink > 0 and found.st_size >= len(self._mapping)
        if whole and self._words[layout.W_SUPERSEDED] != layout.SUPERSEDED:
            return False
        fd, size = _open(self._directory, self._declaration)
        old = list(self._places)
        self.close()
        self._take(fd, size)
        newest = self.generation
        for key in old:
            if key not in self._places:
                self._note_removal(key, newest)
        return True

    def close(self) -> None:
        """Let go of the table."""
        self._unmap()
        os.close(self._fd)

    # -- how it is done ---------------------------------------------------------------------

    def _take(self, fd: int, size: int) -> None:
        self._fd = fd
        self._index = -1
        self._synced = 0  # every change up to this generation is in the maps below
        self._chunks: list[int] = []  # where each begins, in units of 8 bytes
        self._places: dict[str, _Place] = {}
        self._slot_keys: list[str | None] = []
        self._damaged: dict[int, int] = {}  # slot number -> offset, where a key cannot be read
        self._map(size)
        try:
            self._catch_up()
        except BaseException:
            self.close()
            raise

    def _get_patiently(self, key: str) -> Entry | None:
        """Read an entry that was not to be had at the first look, and find out why."""
        last, same = -1, 0
        for _ in range(ATTEMPTS):
            self._catch_up()
            place = self._places.get(key)
            if place is None:
                self._refuse_damage(key)
                return None
            seq = self._words[place[0]]
            if seq & LIVE:
                entry = self._read(key, place, seq)
                if entry is not None:
                    return entry
            elif self._is_sound(place[0], seq):
                return None
            last, same = (seq, same + 1) if seq == last else (seq, 0)
            if same == SAME_SEQUENCE:
                raise CorruptEntry(self.table, key, place[0] * 8)
        raise EntryBusy(self.table, key, ATTEMPTS)

    def _read(self, key: str, place: _Place, seq: int) -> Entry | None:
        mapping, at = self._mapping, place[1][seq & 1]
        copy = mapping[at : at + layout.DESCRIPTOR_BYTES]
        generation, stamp, offset, _, length, crc = _unpack_descriptor(copy)
        payload = mapping[offset : offset + length]
        covered = crc32(copy[: layout.COVERED.size], place[2])
        if crc32(payload, covered) != crc or generation != seq >> 2:
            return None
        return Entry(key, payload, stamp, generation)

    def _is_sound(self, word: int, seq: int) -> bool:
        """Tell whether a sequence word is one that the writer made.

        Its complement stands behind it. Only the newest change may lack that: it is being made,
        or its writer was killed in between.
        """
        complete = self.generation  # first: what is being made now has a later one
        fence()
        return self._words[word + 1] == seq ^ ALL_ONES or seq >> 2 > complete

    def _catch_up(self) -> None:
        """Map what the table has grown by, and bring the keys up to date."""
        words = self._words
        if words[layout.W_SIZE] > len(self._mapping):
            self._map(words[layout.W_SIZE])
            words = self._words
        if words[layout.W_INDEX] == self._index:
            return
        # Everything that these two words announce is visible after the fence; what comes later
        # moves them again.
        newest, index = words[layout.W_GENERATION], words[layout.W_INDEX]
        fence()
        self._find_chunks()
        least, highest = (self._synced + 1) << 2, 0
        for chunk, start in enumerate(self._chunks):
            first = layout.chunk_first_slot(chunk)
            end = start + layout.chunk_slots(chunk) * _SLOT_WORDS
            seqs = self._words[start:end:_SLOT_WORDS].tolist()
            highest = max(highest, *seqs)
            for i in [i for i, seq in enumerate(seqs) if seq >= least]:
                self._look_at(first + i, start + i * _SLOT_WORDS)
        # The newest change is in some slot; a header that claims more is not to be believed.
        self._index, self._synced = index, min(newest, highest >> 2)

    def _find_chunks(self) -> None:
        words = self._words
        for chunk in range(len(self._chunks), layout.MAX_CHUNKS):
            word = words[layout.W_CHUNKS + chunk]
            if word == 0:
                return
            if words[layout.W_SIZE] > len(self._mapping):
                self._map(words[layout.W_SIZE])
                words = self._words
            offset = layout.decode_chunk(chunk, word, len(self._mapping))
            if offset is None:
                raise TableUnavailable(
                    self.table, f"the place of index chunk {chunk} is not a sound one"
                )
            self._chunks.append(offset // 8)
            self._slot_keys.extend([None] * layout.chunk_slots(chunk))

    def _look_at(self, number: int, word: int) -> None:
        """Learn which key a changed slot holds now."""
        words = self._words
        for _ in range(ATTEMPTS):
            seq = words[word]
            key = read_key(self._view, word * 8) if seq & LIVE else None
            sound = self._is_sound(word, seq) and (key is not None or not seq & LIVE)
            fence()
            if words[word] == seq:
                break
        else:
            return  # it changes all the time, and so will the index
        if not sound:
            self._damaged[number] = word * 8
            return
        self._damaged.pop(number, None)
        self._assign(number, word, key.decode(errors="replace") if key is not None else None, seq)

    def _assign(self, number: int, word: int, key: str | None, seq: int) -> None:
        before = self._slot_keys[number]
        if before == key:
            return
        if before is not None:
            self._forget(before, word, seq)
        self._slot_keys[number] = key
        if key is not None:
            at = word * 8 + layout.DESCRIPTORS_AT
            descriptors = at, at + layout.DESCRIPTOR_BYTES
            self._places[key] = word, descriptors, crc32(key.encode())
            self._removed.pop(key, None)

    def _forget(self, key: str, word: int, seq: int) -> None:
        place = self._places.get(key)
        if place is None or place[0] != word:
            return  # it came back in another slot
        del self._places[key]
        generation = self.generation if seq & LIVE else seq >> 2
        self._note_removal(key, generation)

    def _note_removal(self, key: str, generation: int) -> None:
        self._removed[key] = generation
        if len(self._removed) > 2 * KEPT_REMOVALS:
            for old in list(islice(self._removed, KEPT_REMOVALS)):
                del self._removed[old]

    def _refuse_damage(self, key: str = "(unknown)") -> None:
        """Raise if some slot's key cannot be read: then nobody can say that a key is not there."""
        for offset in self._damaged.values():
            raise CorruptEntry(self.table, key, offset)

    def _map(self, size: int) -> None:
        if size % layout.PAGE or os.fstat(self._fd).st_size < size:
            raise TableUnavailable(self.table, f"its file does not have the {size} bytes it says")
        mapping = mmap.mmap(self._fd, size, prot=mmap.PROT_READ)
        if hasattr(self, "_mapping"):
            self._unmap()
        self._mapping = mapping
        self._view = memoryview(mapping)
        self._words = self._view.cast("Q")

    def _unmap(self) -> None:
        self._words.release()
        self._view.release()
        self._mapping.close()


def _open(directory: Path, declaration: Declaration) -> tuple[int, int]:
    path = directory / declaration.name
    fd = files.open_table(path, declaration.name, os.O_RDONLY)
    if fd is None:
        raise TableUnavailable(declaration.name, f"{path} does not exist (yet)")
    head, size = files.read_header(fd)
    problem = layout.header_problem(head, size, declaration)
    if problem is not None:
        os.close(fd)
        raise TableUnavailable(declaration.name, problem)
    return fd, layout.header_word(head, layout.W_SIZE)
