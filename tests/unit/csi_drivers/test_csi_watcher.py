"""The registry directory is followed by the kernel's word, whatever happens to it."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket

from procs.volumes.csi.watcher import Watcher, socket_stamp

NEVER = 3600.0  # no look without a cause: what is found, the kernel has told


def bind(path):
    """Have a socket at a path; nobody needs to listen there."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


class Seen:
    """What a watcher has found last."""

    def __init__(self, root):
        self.sockets = {}
        self._moved = asyncio.Event()
        self.watcher = Watcher(str(root), self._found, NEVER)

    def _found(self, sockets):
        self.sockets = sockets
        self._moved.set()

    async def until(self, *paths):
        """Wait until these are the sockets that are there."""
        async with asyncio.timeout(20):
            while set(self.sockets) != {str(path) for path in paths}:
                self._moved.clear()
                await self._moved.wait()


def watching(place, story):
    """Run a story with a watcher of a registry that is not there yet."""

    async def run():
        root = place / "registry"
        seen = Seen(root)
        seen.watcher.start()
        try:
            await story(root, seen)
        finally:
            seen.watcher.close()

    asyncio.run(run())


def test_sockets_are_found_at_any_depth_and_missed_when_they_go(place):
    """L-40: directories that come later are watched as well, and a renamed socket moves."""

    async def story(root, seen):
        bind(root / "a.sock")
        await seen.until(root / "a.sock")
        os.makedirs(root / "x" / "y")
        bind(root / "x" / "y" / "b.sock")
        await seen.until(root / "a.sock", root / "x" / "y" / "b.sock")
        os.rename(root / "a.sock", root / "x" / "c.sock")
        await seen.until(root / "x" / "c.sock", root / "x" / "y" / "b.sock")
        shutil.rmtree(root / "x")
        await seen.until()

    watching(place, story)


def test_files_links_to_nowhere_and_hidden_names_are_passed_by(place):
    """L-40: only sockets count, under names that do not begin with a dot; links to one do."""

    async def story(root, seen):
        (root / "file").write_text("")
        os.symlink("nowhere", root / "link")
        bind(root / ".hidden.sock")
        os.makedirs(root / ".dir")
        bind(root / ".dir" / "a.sock")
        os.symlink(".hidden.sock", root / "b.sock")
        await seen.until(root / "b.sock")

    watching(place, story)


def test_a_registry_that_is_removed_is_made_and_watched_anew(place):
    """A cleaned directory costs plugins that were there, not those that come."""

    async def story(root, seen):
        bind(root / "a.sock")
        await seen.until(root / "a.sock")
        shutil.rmtree(root)
        await seen.until()  # found by a look, which makes the directory first
        bind(root / "b.sock")
        await seen.until(root / "b.sock")

    watching(place, story)


def test_a_socket_is_another_when_it_is_made_anew_and_not_when_its_mode_changes(place):
    """L-40: only a new one registers again; drivers change the mode of theirs after binding it."""
    path = place / "a.sock"
    bind(path)
    first = socket_stamp(str(path))
    path.chmod(0o600)
    assert socket_stamp(str(path)) == first
    os.rename(path, place / "old.sock")  # so that the inode is not free to be used again
    bind(path)
    assert socket_stamp(str(path)) != first
    assert socket_stamp(str(place)) is None
    assert socket_stamp(str(place / "none")) is None
