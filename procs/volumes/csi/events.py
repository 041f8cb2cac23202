"""Events about volumes of CSI drivers, on their pods and claims."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from kubelet import logging as klog
from kubelet.channels.errors import ChannelError
from kubelet.channels.messages import RecordEvent
from kubelet.process import Process
from procs.volumes.ownership_events import emit
from procs.volumes.plugin import PodInfo

log = klog.get_logger(__name__)

GROWN: Final = "FileSystemResizeSuccessful"
NOT_GROWN: Final = "VolumeResizeFailed"
READ_ONLY: Final = "FileSystemResizeFailed"
FAILED_MOUNT: Final = "FailedMount"

Type: TypeAlias = Literal["Normal", "Warning"]


class Events:
    """Has events told; one that cannot be is logged, and nothing else depends on it."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def on_pod(self, pod: PodInfo, type_: Type, reason: str, message: str) -> None:
        """Tell an event of a pod."""
        await emit(self._process, pod, type_, reason, message)

    async def on_claim(self, claim: str, type_: Type, reason: str, message: str) -> None:
        """Tell an event of a claim, if there is one."""
        namespace, _, name = claim.partition("/")
        if not name:
            return
        event = RecordEvent(type_, reason, message, "PersistentVolumeClaim", namespace, name)
        try:
            await self._process.channels.ask("node", event)
        except ChannelError as err:
            log.info("Event could not be told", claim=claim, reason=reason, text=message, err=err)
