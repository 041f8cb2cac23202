"""What happens in directories of manifests, on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kubelet import inotify
from kubelet.inotify import Event

_WANTED: Final = (
    inotify.CLOSE_WRITE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.CREATE
    | inotify.DELETE
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
    | inotify.ONLYDIR
)


class DirectoryWatch:
    """Watches directories; calls back with what happened, in order."""

    def __init__(self, heard: Callable[[list[Event]], None]) -> None:
        self._heard = heard
        self._inotify = inotify.Inotify()
        asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._ready)

    def add(self, directory: str) -> int:
        """Watch a directory and return its number: the same one for the same directory."""
        return self._inotify.add(directory, _WANTED)

    def remove(self, watch: int) -> None:
        """Watch a directory no more; one that is gone has no watch any more."""
        self._inotify.remove(watch)

    def close(self) -> None:
        """Watch nothing any more."""
        if self._inotify.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()

    def _ready(self) -> None:
        events = self._inotify.read()
        if events:
            self._heard(events)
