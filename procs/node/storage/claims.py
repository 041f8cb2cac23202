"""Has a claim's status say how growing its file system went (L-16)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubelet import times
from kubelet.channels.messages import ClaimNoted, NoteClaimResize
from kubelet.channels.server import Caller
from kubelet.cluster.names import possible
from kubelet.config.errors import one_line
from procs.node.apiserver.types import ApiError
from procs.node.kit import Kit
from procs.node.storage import resize
from procs.node.storage.collisions import Sleep, settle


class ClaimStatus:
    """Writes the status of claims; ``noted`` is told namespace and name of each that changed."""

    def __init__(
        self, kit: Kit, noted: Callable[[str, str], None], *, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._kit = kit
        self._noted = noted
        self._sleep = sleep

    def start(self) -> None:
        """Answer from now on."""
        self._kit.process.channels.handle(NoteClaimResize, self._note)

    async def _note(self, request: NoteClaimResize, caller: Caller) -> ClaimNoted:
        if not (possible(request.namespace) and possible(request.name)):
            name = f"{request.namespace}/{request.name}"
            return ClaimNoted(f"name: there is no claim of the name {name[:200]!r}")
        problem = resize.problem_with(request)
        if problem:
            return ClaimNoted(problem)
        try:
            await settle(
                self._kit,
                lambda: self._write(request),
                caller.deadline_ns,
                sleep=self._sleep,
            )
        except ApiError as err:
            return ClaimNoted(one_line(str(err)))
        return ClaimNoted()

    async def _write(self, request: NoteClaimResize) -> None:
        namespace, name = request.namespace, request.name
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
        claim = await self._kit.api.get(path)
        patch = resize.patch_of(claim, request, times.to_text(self._kit.wall()))
        if patch is not None:
            await self._kit.api.patch(f"{path}/status", patch)
            self._noted(namespace, name)
