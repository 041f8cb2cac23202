"""Which parts of a table file are free. Pure bookkeeping: it touches no memory.

A buddy allocator: blocks are powers of two, aligned to their size; a free block merges with its
neighbour as soon as that is free too. So entries may grow, shrink, go and come for months without
the file growing beyond what they need at their largest. Nothing of it is stored: whoever attaches
rebuilds it from the blocks that are in use, and what a killed writer had taken but not yet
referred to is simply free again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

MIN_BLOCK: Final = 128
_MIN_ORDER: Final = MIN_BLOCK.bit_length() - 1
_ORDERS: Final = 48


def block_size(length: int) -> int:
    """Return the size of the block that holds ``length`` bytes."""
    return max(MIN_BLOCK, 1 << (length - 1).bit_length()) if length else MIN_BLOCK


class Arena:
    """The free blocks between ``start`` and ``end``."""

    def __init__(self, start: int) -> None:
        # Dictionaries, as sets that give back the block freed last.
        self._free: list[dict[int, None]] = [{} for _ in range(_ORDERS)]
        self.end = start
        self.free_bytes = 0

    @classmethod
    def around(cls, start: int, end: int, used: Iterable[tuple[int, int]]) -> Self:
        """Return the arena in which just these blocks (offset, size) are in use."""
        arena = cls(start)
        for offset, size in sorted(used):
            arena._free_range(arena.end, offset)
            arena.end = offset + size
        arena.extend(end)
        return arena

    def extend(self, end: int) -> None:
        """Take in what the file has grown by."""
        self._free_range(self.end, end)
        self.end = end

    def take(self, size: int) -> int | None:
        """Return the offset of a block of this size (a power of two), or None if there is none."""
        order = wanted = size.bit_length() - 1
        while order < _ORDERS and not self._free[order]:
            order += 1
        if order == _ORDERS:
            return None
        offset, _ = self._free[order].popitem()
        while order > wanted:
            order -= 1
            self._free[order][offset + (1 << order)] = None  # keep the lower half
        self.free_bytes -= size
        return offset

    def give(self, offset: int, size: int) -> None:
        """Make a block free, together with every free neighbour that it forms a larger one with."""
        self.free_bytes += size
        order = size.bit_length() - 1
        while (offset ^ size) in self._free[order]:
            del self._free[order][offset ^ size]
            offset &= ~size
            size <<= 1
            order += 1
        self._free[order][offset] = None

    def _free_range(self, start: int, end: int) -> None:
        while start < end:
            aligned = start & -start
            size = min(aligned, 1 << (end - start).bit_length() - 1)
            self.give(start, size)
            start += size
