"""One look at the logs of all running containers, and what follows from it (I-40).

A death at any point is made good by the next round, in this process or in the next one: a log that
was moved away and not opened anew is missing, and is opened anew then; what is left of compressing
is swept away; parts that were not yet compressed are.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from kubelet import logging as klog
from kubelet.cri.errors import CriError
from procs.syncloop.logs import files
from procs.syncloop.logs.decide import RotationPolicy, decide, next_stamp

log = klog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunningLog:
    """The log of a running container."""

    container_id: str
    path: str
    container: str = ""
    pod: str = ""  # its uid


class RotationError(Exception):
    """A log could not be rotated; says why."""


# Has the runtime open a container's log anew; CriError when it does not.
Reopen = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Moved:
    """A log that was moved away."""

    target: str
    compress: tuple[str, ...]  # older parts, as paths


class Rounds:
    """Rotates logs that are too large."""

    def __init__(  # noqa: PLR0913 - its tools, by name
        self,
        policy: RotationPolicy,
        reopen: Reopen,
        *,
        now: Callable[[], datetime],
        stopped: Callable[[], bool],
        running: Callable[[RunningLog], bool] = lambda _log: True,
        rotated: Callable[[RunningLog, str], None] = lambda _log, _path: None,
    ) -> None:
        self._policy = policy
        self._reopen = reopen
        self._now = now
        self._stopped = stopped
        self._running = running  # whether a container still runs
        self._rotated = rotated  # told of each part that was moved away
        self._tidied: set[str] = set()  # containers whose older parts were seen to
        self._complaints: dict[str, str] = {}  # container -> what is wrong, said once

    async def run(self, logs: Iterable[RunningLog]) -> None:
        """Look at each log once; at most as many are worked on at a time as there are workers."""
        known = {one.container_id: one for one in logs}
        self._tidied &= known.keys()
        for gone in self._complaints.keys() - known.keys():
            del self._complaints[gone]
        turn = asyncio.Semaphore(self._policy.workers)
        sizes = await asyncio.to_thread(_sizes, list(known.values()))
        due = [self._see_to(known[id_], size, turn) for id_, size in sizes if self._due(id_, size)]
        await asyncio.gather(*due)

    def _due(self, container_id: str, size: int | OSError | None) -> bool:
        if not isinstance(size, int):
            return True
        return size > self._policy.max_size or container_id not in self._tidied

    async def _see_to(
        self, one: RunningLog, size: int | OSError | None, turn: asyncio.Semaphore
    ) -> None:
        async with turn:
            try:
                await self._work(one, size)
            except (OSError, CriError, RotationError) as err:
                self._complain(one, str(err))
            except files.StoppedError:
                return
            else:
                self._complaints.pop(one.container_id, None)

    async def _work(self, one: RunningLog, size: int | OSError | None) -> None:
        if isinstance(size, OSError):
            raise size
        if size is None:
            size = await self._recover(one)
        if size > self._policy.max_size:
            await self._rotate(one)
        else:
            older = await asyncio.to_thread(self._tidy, one.path)
            await self._compress(older)
        self._tidied.add(one.container_id)

    async def _recover(self, one: RunningLog) -> int:
        """Have a log made that is missing: it was moved away by somebody who died, or removed."""
        await self._reopen(one.container_id)
        size = await asyncio.to_thread(files.size, one.path)
        if size is None:
            raise RotationError(f"{one.path} is not there, and the runtime does not make it")
        log.info("Log of a container was missing and is there again", path=one.path)
        return size

    async def _rotate(self, one: RunningLog) -> None:
        moved = await asyncio.to_thread(self._move_away, one.path)
        try:
            await self._reopen(one.container_id)
        except CriError as err:
            back = await asyncio.to_thread(files.move_back, moved.target, one.path)
            if back:
                raise RotationError(f"{one.path} is not rotated: {err}") from None
            log.warning("Runtime made a new log and reported a failure", path=one.path, err=err)
        self._rotated(one, moved.target)
        log.v(2, "Log of a container rotated", path=one.path, to=moved.target, pod=one.pod)
        await self._compress(moved.compress)

    def _move_away(self, path: str) -> _Moved:
        """Make room, and give the log another name. In a thread."""
        directory, current = os.path.split(path)
        found = files.undo_half_moves(path, files.names(path))
        decision = decide(found, current, self._policy.max_files, rotating=True)
        for name in decision.remove:
            files.remove(directory, name)
        target = f"{path}.{next_stamp(found, current, self._now())}"
        files.move_away(path, target)
        return _Moved(target, tuple(os.path.join(directory, name) for name in decision.compress))

    def _tidy(self, path: str) -> tuple[str, ...]:
        """Remove what is too much, and return what is yet to be compressed. In a thread."""
        directory, current = os.path.split(path)
        found = files.undo_half_moves(path, files.names(path))
        decision = decide(found, current, self._policy.max_files, rotating=False)
        for name in decision.remove:
            files.remove(directory, name)
        return tuple(os.path.join(directory, name) for name in decision.compress)

    async def _compress(self, paths: Iterable[str]) -> None:
        """Compress older parts; the container's removal may take them away meanwhile."""
        for path in paths:
            try:
                await asyncio.to_thread(files.compress, path, self._stopped)
            except FileNotFoundError:
                continue

    def _complain(self, one: RunningLog, text: str) -> None:
        if not self._running(one):
            log.v(4, "Log of a container that ends was left as it is", path=one.path, err=text)
        elif self._complaints.get(one.container_id) != text:
            self._complaints[one.container_id] = text
            log.warning(
                "Log of a container cannot be rotated",
                pod=one.pod,
                container=one.container,
                id=one.container_id,
                err=text,
            )


def _sizes(logs: list[RunningLog]) -> list[tuple[str, int | OSError | None]]:
    found: list[tuple[str, int | OSError | None]] = []
    for one in logs:
        try:
            found.append((one.container_id, files.size(one.path)))
        except OSError as err:
            found.append((one.container_id, err))
    return found
