"""The file source: a directory of manifests, or one manifest file (P-5).

Three rules. Nothing is read while it is being written. Nothing is read again that has not changed.
And a file that cannot be used changes nothing about the pod that came from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubelet import logging as klog
from kubelet.api.pod import Pod
from kubelet.pods.rows import FILE
from kubelet.process import Process
from procs.syncloop.sources import manifest, settled
from procs.syncloop.sources.changes import Deliver, Delivery
from procs.syncloop.sources.keeping import keep
from procs.syncloop.sources.listing import Entry, ListingError, look, watched
from procs.syncloop.sources.manifest import Parsed
from procs.syncloop.sources.settled import BusyError, RefusedError, Stamp
from procs.syncloop.sources.watching import Watcher

log = klog.get_logger(__name__)

SHORTEST: Final = 0.1  # seconds between two checks, whatever is configured
LARGE: Final = 128 << 10  # bytes from which a manifest is parsed beside the event loop
_LOOKS: Final = 8  # times that a look may find another directory to watch before it goes on
_RETRIES: Final = 8  # tries, from 1 ms on and twice as long each, after a writer closed a file


@dataclass(frozen=True, slots=True)
class _File:
    """A manifest as it was read last; without a stamp it is read again."""

    stamp: Stamp | None
    parsed: Parsed


class FileSource:
    """Delivers the pods of manifest files."""

    name = FILE

    def __init__(  # noqa: PLR0913 - by name, once
        self,
        *,
        process: Process,
        node: str,
        path: str,
        seconds: float,
        deliver: Deliver,
        good: Mapping[str, Pod],
    ) -> None:
        self._process = process
        self._node = node
        self._path = path.rstrip("/") or "/"
        self._seconds = max(seconds, SHORTEST)
        self._deliver = deliver
        self._good = good  # origin -> last good version; at first what a predecessor left
        self._files: dict[str, _File] = {}
        self._tries: dict[str, int] = {}  # closed, and found open for writing so often
        self._again: set[str] = set()  # of these, to be tried now
        self._wake = asyncio.Event()
        self._delivered: Delivery | None = None

    def start(self) -> None:
        """Begin to deliver."""
        self._process.spawn(self._run(), name="manifest files")

    async def _run(self) -> None:
        watcher = Watcher(self._wake.set)
        try:
            rescan = True
            asyncio.get_running_loop().call_soon(manifest.warm_up)
            while True:
                self._wake.clear()
                with self._process.doing("read manifests"):
                    await self._scan(watcher, rescan=rescan)
                rescan = not await self._woken()
        finally:
            watcher.close()

    async def _woken(self) -> bool:
        """Wait for an event, at most until the next re-scan; whether there was one."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    async def _scan(self, watcher: Watcher, *, rescan: bool) -> None:
        """Read what has changed, and deliver if anything did."""
        if rescan:
            watcher.created.clear()  # whoever made them had the time to close them
        try:
            entries = self._look(watcher)
        except ListingError as err:
            self._unlisted(f"{self._path}: {err}")
            return
        closed = watcher.take_closed() | self._again
        self._again = set()
        files: dict[str, _File] = {}
        for entry in entries:
            fresh = not rescan and entry.path in watcher.created
            file = await self._file(entry, closed=_in(entry, closed), fresh=fresh, rescan=rescan)
            if file is not None:
                files[entry.path] = file
        self._files = files
        self._tries = {path: n for path, n in self._tries.items() if path in files}
        self._tell()

    def _look(self, watcher: Watcher) -> tuple[Entry, ...]:
        """List the files, with the directories watched before they were listed."""
        listing = look(self._path)
        for _ in range(_LOOKS):
            if not watcher.cover(watched(self._path, listing)):
                break
            listing = look(self._path)
        return listing.entries

    async def _file(self, entry: Entry, *, closed: bool, fresh: bool, rescan: bool) -> _File | None:
        """Return a file as it is now; None if it is gone."""
        before = self._files.get(entry.path)
        if before is not None and not closed and entry.stamp and before.stamp == entry.stamp:
            return before
        try:
            content = settled.read(entry.path, closed=closed)
        except FileNotFoundError:
            return _broken(entry.path, "is a link to a file that is not there", entry.stamp)
        except BusyError as busy:
            self._come_back(entry.path, busy, closed=closed)
            parsed = before.parsed if before is not None else Parsed(entry.path)
            return _File(None, Parsed(entry.path, problems=(str(busy),)) if rescan else parsed)
        except RefusedError as err:
            return _File(entry.stamp, Parsed(entry.path, problems=(str(err),)))
        self._tries.pop(entry.path, None)
        parsed = await self._parse(content.data, entry.path)
        if parsed.problems and fresh:
            # Made just now, and not closed since: its writer may not have begun yet.
            return _File(None, Parsed(entry.path))
        return _File(content.stamp, parsed)

    async def _parse(self, data: bytes, path: str) -> Parsed:
        """Parse a manifest without keeping the event loop from its other work."""
        if len(data) >= LARGE:
            return await asyncio.to_thread(manifest.from_file, data, path, self._node)
        parsed = manifest.from_file(data, path, self._node)
        await asyncio.sleep(0)
        return parsed

    def _come_back(self, path: str, busy: BusyError, *, closed: bool) -> None:
        """See to it that a file that is being written is read once it is whole.

        The writer's close is told a moment before it is done with: then the lease is had at the
        next try or the one after. If there is another writer, its close is told, too.
        """
        tries = self._tries.get(path, 0)
        delay = busy.again
        if closed and tries < _RETRIES:
            self._tries[path] = tries + 1
            delay = 0.001 * 2**tries
        elif closed:
            self._tries.pop(path, None)
        if delay:
            asyncio.get_running_loop().call_later(delay, self._try_again, path, closed)

    def _try_again(self, path: str, closed: bool) -> None:
        if closed:
            self._again.add(path)
        self._wake.set()

    def _tell(self) -> None:
        """Deliver what is wanted now, if it is anything new."""
        kept = keep(FILE, [file.parsed for file in self._files.values()], self._good)
        self._good = kept.good
        self._give(Delivery(FILE, kept.candidates, kept.problems))

    def _unlisted(self, problem: str) -> None:
        """Say that the path cannot be looked at; what was known stays in force."""
        before = self._delivered
        if before is None or not before.complete:
            self._give(Delivery(FILE, (), (problem,), complete=False))
        else:
            self._give(Delivery(FILE, before.candidates, (problem,)))

    def _give(self, delivery: Delivery) -> None:
        if delivery != self._delivered:
            self._delivered = delivery
            self._deliver(delivery)


def _in(entry: Entry, closed: set[str]) -> bool:
    return entry.path in closed or entry.real in closed


def _broken(path: str, problem: str, stamp: Stamp | None) -> _File | None:
    """Return a link to nowhere; None for a file that went away since it was listed."""
    return _File(None, Parsed(path, problems=(problem,))) if stamp is None else None
