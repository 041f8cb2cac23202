"""Objects that live as long as the process, and whose references are not counted any more.

Since 3.12 CPython has immortal objects: a reference count with a certain value is never changed
again. Giving that value to all that exists before a fork leaves its pages as they are in every
child, for good. Nothing is ever done to an object but that; on an interpreter that does not behave
as expected nothing is done at all, and only memory is at stake.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
import types
from typing import Any, Final

# The low half of the count; anything from here on is immortal to every release that knows of it.
_COUNT: Final = 0xFFFF_FFFF if sys.version_info < (3, 14) else 0xC000_0000
_MANY: Final = 1000


def immortalise() -> bool:
    """Make everything that exists immortal; whether that was possible."""
    if not _works():
        return False
    for known in gc.get_objects():
        if not isinstance(known, types.FrameType):  # these end in a moment
            _set(known)
            for part in gc.get_referents(known):
                _set(part)
    return True


def _works() -> bool:
    """Try it on an object of our own."""
    if sys.version_info < (3, 12) or sys.implementation.name != "cpython":
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED") or sys.byteorder != "little":
        return False  # the count is elsewhere
    probe = object()
    if _count(probe).value != sys.getrefcount(probe) - 1:
        return False
    _count(probe).value = _COUNT
    held = [probe] * _MANY
    same = _count(probe).value == _COUNT
    held.clear()
    return same and _count(probe).value == _COUNT


def _count(known: object) -> ctypes.c_uint32:
    return ctypes.c_uint32.from_address(id(known))


def _set(known: Any) -> None:
    _count(known).value = _COUNT
    if type(known) is types.CodeType:  # the collector does not look into these
        for parts in (known.co_consts, known.co_names):
            _count(parts).value = _COUNT
            for part in parts:
                _set(part)
