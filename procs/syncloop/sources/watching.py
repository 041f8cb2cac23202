"""Watches on directories that come and go, and what their events mean for files in them."""

from __future__ import annotations

import os
from collections.abc import Callable

from kubelet import inotify
from kubelet import logging as klog
from kubelet.inotify import Event
from procs.syncloop.sources.inotify import DirectoryWatch
from procs.syncloop.sources.listing import Watched

log = klog.get_logger(__name__)

_WHOLE: int = inotify.CLOSE_WRITE | inotify.MOVED_TO
_ABOUT_ITSELF: int = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.OVERFLOW | inotify.IGNORED


class Watcher:
    """Knows which files were closed by a writer, and which were made and not closed yet."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._watches: dict[int, list[tuple[str, frozenset[str] | None]]] = {}
        self._closed: set[str] = set()
        self.created: set[str] = set()
        self._full = klog.every(600)
        self._inotify: DirectoryWatch | None = None
        try:
            self._inotify = DirectoryWatch(self._heard)
        except OSError as err:
            self._complain(err)

    def cover(self, wanted: Watched) -> bool:
        """Watch these directories and no others; whether one was not watched before."""
        if self._inotify is None:
            return False
        watches: dict[int, list[tuple[str, frozenset[str] | None]]] = {}
        for directory, names in wanted.items():
            try:
                number = self._inotify.add(directory)
            except (FileNotFoundError, NotADirectoryError):
                continue  # gone just now; its parent tells
            except OSError as err:
                self._complain(err)
                continue
            watches.setdefault(number, []).append((directory, names))
        for number in self._watches.keys() - watches.keys():
            self._inotify.remove(number)
        new = bool(watches.keys() - self._watches.keys())
        self._watches = watches
        return new

    def take_closed(self) -> set[str]:
        """Return the files that came whole since the last time."""
        closed, self._closed = self._closed, set()
        return closed

    def close(self) -> None:
        """Watch nothing any more."""
        if self._inotify is not None:
            self._inotify.close()

    def _complain(self, err: OSError) -> None:
        if self._full.ready():
            log.warning("Manifests cannot be watched, changes are seen by the re-scan", err=err)

    def _heard(self, events: list[Event]) -> None:
        relevant = [self._note(event) for event in events]
        if any(relevant):
            self._wake()

    def _note(self, event: Event) -> bool:
        """Take one event; whether it says anything about what is watched for."""
        if event.mask & inotify.IGNORED:
            # We let go of it, or the directory is gone: as a new one it has a new number.
            return self._watches.pop(event.watch, None) is not None
        if event.mask & _ABOUT_ITSELF:
            return True
        relevant = False
        for directory, names in self._watches.get(event.watch, ()):
            if names is not None and event.name not in names:
                continue
            relevant = True
            path = os.path.join(directory, event.name)
            if event.mask & inotify.CREATE:
                self.created.add(path)
            else:
                self.created.discard(path)
            if event.mask & _WHOLE:
                self._closed.add(path)
        return relevant
