"""Objects that live as long as the process, and whose references are not counted any more.

Since 3.12 CPython has immortal objects: a reference count with a certain value is never changed
again. Giving that value to all that exists before a fork leaves its pages as they are in every
child, for good. Nothing is ever done to an object but that; on an interpreter that does not behave
as expected, or that this was never tried on, nothing is done at all, and only memory is at stake.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
import types
from itertools import filterfalse
from typing import Any, Final

_TRIED: Final = ((3, 12), (3, 13))
_COUNT: Final = 0xFFFF_FFFF  # in the low half of the count
_COUNT_BYTES: Final = 4
_MANY: Final = 1000
_LOWEST: Final = 1 << 12  # nothing is ever mapped below
_HIGHEST: Final = 1 << 62  # above every address of a program, tagged ones included


def immortalise() -> bool:
    """Make everything that exists immortal; whether that was possible."""
    if not _works():
        return False
    fresh = gc.get_objects()
    counts = _counts()  # after the objects, so that it is none of them and ends with this call
    while fresh := _set(fresh, counts):
        # What the collector tracks was among the first; this leaves texts, numbers and the like.
        parts = list(filterfalse(gc.is_tracked, gc.get_referents(*fresh)))
        for code in fresh:
            if type(code) is types.CodeType:  # the collector does not look into these
                parts += (code.co_consts, code.co_names, code.co_filename, code.co_qualname)
        fresh = parts
    return True


def _set(known: list[Any], counts: memoryview) -> list[Any]:
    """Make these immortal; those that were not yet."""
    fresh = []
    for each in known:
        at = (id(each) - _LOWEST) // _COUNT_BYTES
        # A frame ends in a moment, and what only it knows of with it.
        if counts[at] != _COUNT and type(each) is not types.FrameType:
            counts[at] = _COUNT
            fresh.append(each)
    return fresh


def _counts() -> memoryview:
    """The whole address space in units of a count, of which only objects' are ever looked at."""
    everything = ctypes.c_uint32 * ((_HIGHEST - _LOWEST) // _COUNT_BYTES)
    return memoryview(everything.from_address(_LOWEST)).cast("B").cast("I")


def _works() -> bool:
    """Try it on an object of our own."""
    if sys.version_info[:2] not in _TRIED or sys.implementation.name != "cpython":
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED") or sys.byteorder != "little":
        return False  # the count is elsewhere
    if sys.maxsize < _HIGHEST or hasattr(sys, "gettotalrefcount"):
        return False  # the count has another size, or is itself checked, as for debugging
    probe = object()
    if _count(probe) != sys.getrefcount(probe):  # both with the reference of a call
        return False
    _set([probe], _counts())
    held = [probe] * _MANY
    same = _count(probe) == _COUNT
    held.clear()
    return same and _count(probe) == _COUNT


def _count(known: object) -> int:
    return ctypes.c_uint32.from_address(id(known)).value
