"""Answers ``syncloop``, which needs parts of volumes for containers (L-32).

What is bound where follows from the tables and our layout alone: a request names a volume and a
path inside it, never a place of the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kubelet.channels.messages import PrepareSubPath, SubPathPrepared
from procs.volumes import binding, mounts, walk
from procs.volumes.binding import prepare
from procs.volumes.errors import VolumeError
from procs.volumes.far import is_far
from procs.volumes.layout import Layout, is_name, is_uid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kubelet.channels.server import Caller
    from kubelet.process import Process
    from procs.volumes.operations.runner import Operations

__all__ = ["Parts", "SubPaths", "is_quick", "prepare", "wrong_place"]

SECONDS: Final = 60.0  # for one that hangs; syncloop asks again then
_MOST_MOUNTS: Final = 10_000  # of one container: more than a request can have meant

T = TypeVar("T")
PathOf = Callable[[str, str], str]  # of a pod and its volume; "": it is not mounted


def wrong_place(pod: str, volume: str, path: str) -> str | None:
    """Say what is wrong with a place inside a volume as a request names it."""
    if not is_uid(pod):
        return f"pod: {pod!r} is not a pod's uid"
    if not is_name(volume):
        return f"volume: {volume!r} is not a volume's name"
    wrong = walk.problem(path)
    return None if wrong is None else f"path: {path!r} {wrong}"


def is_quick(root: str) -> bool:
    """Tell whether nothing at and below a volume can keep who looks at it waiting.

    What is mounted below may be anything, and a path or a link may lead into it.
    """
    if is_far(root):
        return False
    real = mounts.real(root)
    if real == "/":
        return False
    return all(point == real for point in mounts.below(real, mounts.points()))


@dataclass(slots=True)
class _Turn:
    """One lock, and how many want it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Parts:
    """Does things inside volumes, here or, where that may hang, in a process of its own."""

    def __init__(self, ops: Operations) -> None:
        self._ops = ops
        self._turns: dict[str, _Turn] = {}

    async def run(
        self,
        root: str,
        place: str,
        function: Callable[..., T],
        arguments: dict[str, Any],
    ) -> T:
        """Call a function with arguments; one at a time on a place.

        Of what may hang there is one at a time on a volume: a dead file server holds one process
        for each of its volumes, however many containers want a part of it.
        """
        if await self._ops.thread(lambda: is_quick(root)):
            async with self._turn(place):
                return await self._ops.thread(lambda: function(**arguments))
        call = f"{function.__module__}:{function.__name__}"
        key = f"inside {root}"
        async with self._turn(key):
            found: T = await self._ops.child(call, arguments, key=key, seconds=SECONDS)
            return found

    @asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[None]:
        turn = self._turns.setdefault(key, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[key]


class SubPaths:
    """Binds parts of volumes; they are freed together with the pod's volumes."""

    def __init__(self, process: Process, layout: Layout, ops: Operations, path_of: PathOf) -> None:
        self._process = process
        self._layout = layout
        self._parts = Parts(ops)
        self._path_of = path_of

    async def handle(self, request: PrepareSubPath, caller: Caller) -> SubPathPrepared:
        """Bind a part; the reply says where, or why it is not."""
        del caller
        wrong = _wrong(request)
        if wrong is not None:
            return SubPathPrepared("", _said(request, wrong))
        root = self._path_of(request.pod, request.volume)
        if not root:
            return SubPathPrepared("", _said(request, "the volume is not mounted"))
        return await self._prepare(request, root)

    async def _prepare(self, request: PrepareSubPath, root: str) -> SubPathPrepared:
        target = self._target(request)
        arguments = {"root": root, "path": request.path, "target": target}
        with self._process.doing("prepare subPath", request.pod):
            try:
                place = await self._parts.run(root, target, binding.prepare, arguments)
            except VolumeError as err:
                return SubPathPrepared("", _said(request, str(err)))
        if self._path_of(request.pod, request.volume) == root:
            return SubPathPrepared(place)
        # The pod has ended meanwhile: whoever cleared its parts away may have been before us.
        with suppress(VolumeError):
            await self._parts.run(root, target, binding.release, {"target": target})
        return SubPathPrepared("", _said(request, "the volume is not mounted any more"))

    def _target(self, request: PrepareSubPath) -> str:
        below = self._layout.subpaths(request.pod)
        return f"{below}/{request.volume}/{request.container}/{request.index}"


def _wrong(request: PrepareSubPath) -> str | None:
    if not is_name(request.container):
        return f"container: {request.container!r} is not a container's name"
    if not 0 <= request.index < _MOST_MOUNTS:
        return f"index: {request.index} is not that of a volume mount"
    return wrong_place(request.pod, request.volume, request.path)


def _said(request: PrepareSubPath, why: str) -> str:
    return (
        f'failed to prepare subPath "{request.path}" of volume "{request.volume}" for volumeMount '
        f'{request.index} of container "{request.container}": {why}'
    )
