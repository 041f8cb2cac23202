"""Answers ``syncloop``, which needs variables out of files in volumes of a pod (P-174)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubelet.channels.messages import FileKeyRead, ReadFileKey
from procs.volumes import variables
from procs.volumes.errors import VolumeError
from procs.volumes.subpath import Parts, PathOf, wrong_place

if TYPE_CHECKING:
    from kubelet.channels.server import Caller
    from kubelet.process import Process
    from procs.volumes.layout import Layout
    from procs.volumes.operations.runner import Operations


class EnvFiles:
    """Reads variables."""

    def __init__(self, process: Process, layout: Layout, ops: Operations, path_of: PathOf) -> None:
        del layout
        self._process = process
        self._parts = Parts(ops)
        self._path_of = path_of

    async def handle(self, request: ReadFileKey, caller: Caller) -> FileKeyRead:
        """Read a variable; the reply has it, or says that there is none, or why nobody knows."""
        del caller
        where = request.path.lstrip("/")
        wrong = wrong_place(request.pod, request.volume, where)
        if wrong is not None:
            return FileKeyRead(error=wrong)
        root = self._path_of(request.pod, request.volume)
        if not root:
            return FileKeyRead(
                error=f'cannot find the volume "{request.volume}" referenced by FileKeyRef'
            )
        arguments = {"root": root, "path": where, "key": request.key}
        with self._process.doing("read environment file", request.pod):
            try:
                found = await self._parts.run(root, root, variables.read_key, arguments)
            except VolumeError as err:
                return FileKeyRead(error=f'couldn\'t parse env file "{request.path}": {err}')
        return FileKeyRead(found)
