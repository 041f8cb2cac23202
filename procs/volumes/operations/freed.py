"""Tells when a lock that somebody held is free: what hung has come back.

Who holds a lock may be a process of an earlier life, of which nobody hears when it ends. But the
kernel tells when a file that was open for writing is closed for the last time, and the lock's file
is open for as long as the lock is held.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from kubelet.inotify import CLOSE_WRITE, DELETE_SELF, IGNORED, Inotify
from procs.volumes.operations.locks import Locks

Call = Callable[[], None]

_AGAIN_SECONDS: Final = 0.1  # the kernel tells of a file's end a moment before it frees its lock


class Freed:
    """Calls whoever waits for a lock, once, when nobody holds it any more."""

    def __init__(self, locks: Locks) -> None:
        self._locks = locks
        self._kernel: Inotify | None = None
        self._watched: dict[int, str] = {}
        self._waiting: dict[str, dict[int, Call]] = {}

    def when(self, key: str, who: object, call: Call) -> None:
        """Call when a lock is free; who waits already is called once, with what came last.

        Without the kernel's help nobody is called: whoever waits tries again by himself, too.
        """
        waiting = self._waiting.setdefault(key, {})
        waiting[id(who)] = call
        if len(waiting) == 1:
            self._watch(key)
        self._look(key)

    def close(self) -> None:
        """Call nobody any more."""
        self._waiting.clear()
        if self._kernel is not None:
            asyncio.get_running_loop().remove_reader(self._kernel.fileno())
            self._kernel.close()
            self._kernel = None

    def _watch(self, key: str) -> None:
        with contextlib.suppress(OSError):  # it is gone, which is seen at once, or there is no help
            if self._kernel is None:
                self._kernel = Inotify()
                asyncio.get_running_loop().add_reader(self._kernel.fileno(), self._happened)
            watch = self._kernel.add(self._locks.path(key), CLOSE_WRITE | DELETE_SELF)
            self._watched[watch] = key

    def _happened(self) -> None:
        assert self._kernel is not None
        loop = asyncio.get_running_loop()
        for event in self._kernel.read():
            gone = event.mask & IGNORED
            key = self._watched.pop(event.watch, "") if gone else self._watched.get(event.watch, "")
            if key not in self._waiting:
                continue
            if gone:  # there may be another file by now
                self._watch(key)
            self._look(key)
            loop.call_later(_AGAIN_SECONDS, self._look, key)

    def _look(self, key: str) -> None:
        if key not in self._waiting or not self._locks.is_free(key):
            return
        loop = asyncio.get_running_loop()
        for call in self._waiting.pop(key).values():
            loop.call_soon(call)
        for watch in [w for w, k in self._watched.items() if k == key]:
            del self._watched[watch]
            if self._kernel is not None:
                self._kernel.remove(watch)
