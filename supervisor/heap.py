"""The C library's heap: one for all threads, trimmed, and without holes before a fork.

What a child allocates goes into the first chunk that is free, and most free chunks lie between
what it shares with its parent: each costs it a page. A heap without holes gives it pages of its
own. All of this is for glibc; with another library nothing is done, and only memory is at stake.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

_M_ARENA_MAX: Final = -8
_GRAIN: Final = 16  # chunks differ by as much in size
_SMALLEST, _SMALL = 24, 1032  # usable bytes; sizes up to the second have lists of their own
# From the largest on: what is left of a chunk is found by a smaller size.
_SIZES: Final = (
    *(1 << power for power in range(16, 10, -1)),
    *range(_SMALL, _SMALLEST - 1, -_GRAIN),
)

_libc = ctypes.CDLL(None)


class _Info(ctypes.Structure):
    """``struct mallinfo2``; the last field is the free space at the heap's end."""

    _fields_ = [(f"field{number}", ctypes.c_size_t) for number in range(9)] + [
        ("keepcost", ctypes.c_size_t)
    ]


def use_one() -> None:
    """Have all threads that are still to come allocate from the one heap."""
    with contextlib.suppress(AttributeError):
        _libc.mallopt(_M_ARENA_MAX, 1)


def trim() -> None:
    """Return free memory to the kernel."""
    with contextlib.suppress(AttributeError):
        _libc.malloc_trim(0)


def fill() -> int:
    """Take every free chunk below the heap's end, for good; how many there were."""
    try:
        info, take, free, end_of_data = _libc.mallinfo2, _libc.malloc, _libc.free, _libc.sbrk
    except AttributeError:
        return 0
    info.restype = _Info
    take.restype, take.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    free.restype, free.argtypes = None, (ctypes.c_void_p,)
    end_of_data.restype, end_of_data.argtypes = ctypes.c_void_p, (ctypes.c_ssize_t,)
    mark = (end_of_data(0) or 0) - info().keepcost
    taken = 0
    for size in _SIZES:
        # A chunk above the mark was cut from the end: there is none of that size left below it.
        while (chunk := take(size) or mark) < mark:
            taken += 1
        if chunk > mark:
            free(chunk)
    return taken
