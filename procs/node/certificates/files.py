"""Files that must be whole or not there at all, and word of those that others write."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final

from kubelet import inotify
from kubelet import logging as klog

log = klog.get_logger(__name__)

NEW: Final = ".new"  # ends the name of a file that is being written
_WANTED: Final = (
    inotify.CREATE
    | inotify.CLOSE_WRITE
    | inotify.MOVED_TO
    | inotify.MOVED_FROM
    | inotify.DELETE
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
    | inotify.ONLYDIR
)
_SELF: Final = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.OVERFLOW | inotify.IGNORED


def write(path: str, text: str, mode: int = 0o600) -> None:
    """Write a file so that a reader, even after a power cut, sees all of it or the old one."""
    new = path + NEW
    remove(new)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)
    os.replace(new, path)
    sync(os.path.dirname(path))


def sync(directory: str) -> None:
    """Have the names in a directory reach the disk."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read(path: str) -> str | None:
    """Return a file's text; None if there is no such file, OSError or ValueError if it is odd."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def remove(path: str) -> None:
    """Have no file there."""
    with suppress(FileNotFoundError):
        os.unlink(path)


class Changes:
    """Wakes somebody when one of some files is written, replaced, made or removed.

    Their directories may not be there yet: then the nearest one above is watched.
    """

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = tuple(os.path.abspath(path) for path in paths if path)
        self._names: dict[int, set[str]] = {}
        self._event = asyncio.Event()
        self._inotify: inotify.Inotify | None = None
        try:
            self._inotify = inotify.Inotify()
            asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._ready)
            self._watch()
        except OSError as err:  # the time-outs of those who wait must do
            log.warning("Files cannot be watched", files=self._paths, err=err)

    async def wait(self, seconds: float) -> bool:
        """Wait for a change since the last call; False if there was none in that time."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True

    def close(self) -> None:
        """Watch no more."""
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def _ready(self) -> None:
        assert self._inotify is not None
        for event in self._inotify.read():
            if event.mask & _SELF or event.name in self._names.get(event.watch, ()):
                self._event.set()
        try:
            self._watch()
        except OSError as err:
            log.warning("Files cannot be watched", files=self._paths, err=err)

    def _watch(self) -> None:
        assert self._inotify is not None
        for path in self._paths:
            directory, name = os.path.split(path)
            while True:
                try:
                    watch = self._inotify.add(directory, _WANTED)
                except (FileNotFoundError, NotADirectoryError):
                    directory, name = os.path.split(directory)
                    continue
                self._names.setdefault(watch, set()).add(name)
                break
