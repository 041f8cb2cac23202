"""Work on the kubelet's own disk, beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from procs.volumes.errors import VolumeError, sentence
from procs.volumes.operations.runner import Operations

T = TypeVar("T")


class Local:
    """Does what is local and finite; what the kernel refuses becomes a sentence."""

    def __init__(self, ops: Operations) -> None:
        self._ops = ops

    async def do(self, work: Callable[[], T]) -> T:
        """Do something beside."""
        try:
            return await self._ops.thread(work)
        except OSError as err:
            what = err.filename or "the directories of a volume"
            raise VolumeError(sentence(f"could not change {what}", err)) from err
