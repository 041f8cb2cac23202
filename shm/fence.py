"""A memory barrier, from the standard library.

CPython has no barrier of its own. On x86 none is needed for what is done here: stores are seen in
the order in which they were made. On ARM a store may become visible after a later one. A checksum
guards a *value* against that, but not the statement "everything up to generation N is there",
which is two stores to two places. Letting go of a lock is a release and taking it is an acquire; a
release followed by an acquire of the same lock keeps what came before ahead of what comes after.

The lock is taken first so that threads may share it, and is re-entrant so that a signal handler
that interrupts a fence cannot wait for itself.
"""

from __future__ import annotations

import os
import threading
from typing import Final

_LOCK: Final = threading.RLock()


def lock_fence() -> None:
    """Keep every load and store before this call ahead of every one after it."""
    with _LOCK:
        pass
    with _LOCK:
        pass


def no_fence() -> None:
    """Do nothing: the machine keeps the order by itself."""


fence: Final = no_fence if os.uname().machine in ("x86_64", "i686") else lock_fence
