"""Waiting for a controller to attach a volume, and what its attacher says of it (L-13, L-44)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from kubelet.channels.errors import ChannelError
from kubelet.channels.messages import Attachment, GetAttachment
from kubelet.process import Process
from procs.volumes.csi import names
from procs.volumes.errors import FatalError, VolumeError, WaitingError
from procs.volumes.wants import CsiWant

PATIENCE: Final = 5.0  # seconds in which nobody is asked why it is not attached
LIMIT_SECONDS: Final = 123.0  # after which a node that is full fails the pod (L-10, L-17)
LIMIT_REASON: Final = "VolumeAttachmentLimitExceeded"
_ASK_SECONDS: Final = 15.0
_RESOURCE_EXHAUSTED: Final = 8  # of gRPC


class AttachLimitError(FatalError):
    """The node has no room for another volume of a driver: the pod is to fail."""

    def __init__(self, message: str) -> None:
        super().__init__(LIMIT_REASON, message)


class Attachments:
    """Knows since when volumes are waited for, and asks what became of them."""

    def __init__(
        self, process: Process, node: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._process = process
        self._node = node
        self._clock = clock
        self._since: dict[tuple[str, str], float] = {}  # pod and device

    def forget(self, uid: str) -> None:
        """Wait for nothing of a pod any more."""
        for key in [key for key in self._since if key[0] == uid]:
            del self._since[key]

    async def context(self, want: CsiWant, uid: str) -> Mapping[str, str]:
        """Return what the attacher has for the driver; a WaitingError while it is not attached."""
        if not want.device:
            return {}
        if not want.in_use:
            raise WaitingError(
                f"volume {want.handle} waits to be reported as in use in the node's status"
            )
        if not want.attached:
            raise await self._why_not(want, uid)
        found = await self._ask(want)
        if not found.attached:
            raise WaitingError(_state(want, found, self._name(want)))
        self._since.pop((uid, want.device), None)
        return found.metadata

    async def _why_not(self, want: CsiWant, uid: str) -> VolumeError:
        now = self._clock()
        waited = now - self._since.setdefault((uid, want.device), now)
        waiting = f"volume {want.handle} is not attached to this node yet"
        if waited < PATIENCE:
            return WaitingError(waiting)
        try:
            found = await self._ask(want)
        except VolumeError as err:
            return WaitingError(f"{waiting}; {err}")
        text = _state(want, found, self._name(want))
        if found.attach_code == _RESOURCE_EXHAUSTED and waited >= LIMIT_SECONDS:
            return AttachLimitError(text)
        return WaitingError(text)

    def _name(self, want: CsiWant) -> str:
        return names.attachment(want.handle, want.driver, self._node)

    async def _ask(self, want: CsiWant) -> Attachment:
        name = self._name(want)
        try:
            found = await self._process.channels.ask(
                "node", GetAttachment(name), timeout=_ASK_SECONDS
            )
        except ChannelError as err:
            raise VolumeError(f"volume attachment {name} could not be read: {err}") from err
        if found.error:
            raise VolumeError(f"volume attachment {name} could not be read: {found.error}")
        return found


def _state(want: CsiWant, found: Attachment, name: str) -> str:
    """Say how it stands with an attachment."""
    if not found.found:
        return f"volume {want.handle} is not attached: there is no volume attachment {name}"
    if found.attach_error:
        return f"volume {want.handle} is not attached: {found.attach_error}"
    if not found.attached:
        return f"volume {want.handle} is not attached for volume attachment {name} yet"
    return f"volume {want.handle} is attached, but the node's status does not say so yet"
