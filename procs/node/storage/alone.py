"""Answers about volumes on a node without an API server: a driver works there all the same."""

from __future__ import annotations

from kubelet.channels.messages import (
    Attachment,
    ClaimNoted,
    CsiDriverNoted,
    GetAttachment,
    NoteClaimResize,
    RegisterCsiDriver,
    UnregisterCsiDriver,
)
from kubelet.channels.server import Caller
from kubelet.process import Process
from procs.node.reviews import NO_API


class StorageAlone:
    """Says that there is nobody to tell or to ask."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def start(self) -> None:
        """Answer from now on."""

        async def attachment(_request: GetAttachment, _caller: Caller) -> Attachment:
            return Attachment(False, error=NO_API)

        async def driver(
            _request: RegisterCsiDriver | UnregisterCsiDriver, _caller: Caller
        ) -> CsiDriverNoted:
            return CsiDriverNoted()

        async def claim(_request: NoteClaimResize, _caller: Caller) -> ClaimNoted:
            return ClaimNoted(NO_API)

        handle = self._process.channels.handle
        handle(GetAttachment, attachment)
        handle(RegisterCsiDriver, driver)
        handle(UnregisterCsiDriver, driver)
        handle(NoteClaimResize, claim)
