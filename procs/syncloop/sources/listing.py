"""Which files a manifest path stands for, and which directories tell of changes to them (P-5)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from procs.syncloop.sources.settled import Stamp, stamp_of

# Directory -> the names in it that matter; None: all of them.
Watched = dict[str, frozenset[str] | None]


class ListingError(Exception):
    """The path is there, and cannot be looked at; says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A manifest file."""

    path: str
    real: str  # where the links lead, else the same
    stamp: Stamp | None  # None: a link to nowhere


@dataclass(frozen=True, slots=True)
class Listing:
    """What is there now."""

    entries: tuple[Entry, ...] = ()
    directory: bool = False


def look(path: str) -> Listing:
    """Return the files that a path stands for; a missing path is none at all."""
    try:
        found = os.stat(path)
        if not stat.S_ISDIR(found.st_mode):
            return Listing((_entry(path, found),))
        names = sorted(name for name in os.listdir(path) if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return Listing()
    except OSError as err:
        raise ListingError(f"cannot be read: {err.strerror}") from None
    entries = [_named(os.path.join(path, name)) for name in names]
    return Listing(tuple(entry for entry in entries if entry is not None), directory=True)


def _named(path: str) -> Entry | None:
    """Return what is called so in a directory; None for a directory and for what is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return Entry(path, path, None) if os.path.islink(path) else None
    return None if stat.S_ISDIR(found.st_mode) else _entry(path, found)


def _entry(path: str, found: os.stat_result) -> Entry:
    real = os.path.realpath(path) if os.path.islink(path) else path
    return Entry(path, real, stamp_of(found))


def watched(path: str, listing: Listing) -> Watched:
    """Return the directories whose events say that the listing may have changed.

    The nearest parent that exists tells when the path comes, goes or becomes another one.
    """
    found: dict[str, set[str] | None] = {}
    parent, name = os.path.split(path)
    while not os.path.isdir(parent) and parent != os.path.dirname(parent):
        parent, name = os.path.split(parent)
    found[parent] = {name}
    if listing.directory:
        found[path] = None
    for real in _targets(listing.entries):
        directory, name = os.path.split(real)
        names = found.setdefault(directory, set())
        if names is not None:
            names.add(name)
    return {d: None if names is None else frozenset(names) for d, names in found.items()}


def _targets(entries: Iterable[Entry]) -> list[str]:
    return [entry.real for entry in entries if entry.real != entry.path]
