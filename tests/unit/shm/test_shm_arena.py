"""Block allocation, against a model that knows every byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shm.arena import MIN_BLOCK, Arena, block_size

START, END = 4096, 1 << 18


def test_block_sizes_are_the_next_power_of_two():
    """A block is the smallest power of two that holds the payload, and never a tiny one."""
    sizes = [block_size(n) for n in (0, 1, 128, 129, 4096, 4097, 16384)]
    assert sizes == [128, 128, 128, 256, 4096, 8192, 16384]


def test_everything_given_back_becomes_one_piece_again():
    """Freed neighbours merge, so that what was split is whole again and a large block fits."""
    arena = Arena.around(START, END, [])
    free = arena.free_bytes
    blocks = []
    while (offset := arena.take(MIN_BLOCK)) is not None:
        blocks.append(offset)
    assert len(blocks) * MIN_BLOCK == END - START
    for offset in blocks[::2] + blocks[1::2]:
        arena.give(offset, MIN_BLOCK)
    assert arena.free_bytes == free
    assert arena.take(END // 2) == END // 2


@given(st.lists(st.tuples(st.integers(7, 15), st.booleans()), max_size=80))
def test_blocks_never_overlap_and_are_aligned(steps):
    """Whatever is taken and given back, blocks in use are disjoint, aligned and in bounds."""
    arena = Arena.around(START, END, [])
    used: list[tuple[int, int]] = []
    for order, give_back in steps:
        if give_back and used:
            arena.give(*used.pop(order % len(used)))
        elif (offset := arena.take(1 << order)) is not None:
            used.append((offset, 1 << order))
    previous = START
    for offset, size in sorted(used):
        assert offset >= previous
        assert offset % size == 0
        previous = offset + size
    assert previous <= END
    assert arena.free_bytes == END - START - sum(size for _, size in used)


@given(st.lists(st.integers(7, 14), max_size=30), st.sets(st.integers(0, 29)))
def test_an_arena_rebuilt_from_used_blocks_has_the_same_room(orders, dropped):
    """A successor that knows only the used blocks finds all the rest free, and merged."""
    arena = Arena.around(START, END, [])
    taken = [(arena.take(1 << order), 1 << order) for order in orders]
    for i in sorted(dropped):
        if i < len(taken):
            arena.give(*taken[i])
    used = [block for i, block in enumerate(taken) if i not in dropped]
    rebuilt = Arena.around(START, END, used)
    assert rebuilt.free_bytes == arena.free_bytes
    assert [sorted(level) for level in rebuilt._free] == [sorted(level) for level in arena._free]


def test_growth_adds_exactly_what_was_added():
    """An extension is free, and merges with free space before it."""
    arena = Arena.around(START, 8192, [])
    arena.extend(65536)
    assert arena.free_bytes == 65536 - START
    assert arena.take(32768) == 32768
