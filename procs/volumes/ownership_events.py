"""Giving a volume to a group while whoever waits for it is told that it takes long (L-33)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Literal

from kubelet import logging as klog
from kubelet.channels.errors import ChannelError
from kubelet.channels.messages import RecordEvent
from procs.volumes.ownership import Policy
from procs.volumes.plugin import PodInfo

if TYPE_CHECKING:
    from kubelet.process.process import Process
    from procs.volumes.operations.runner import Operations

log = klog.get_logger(__name__)

GIVE: Final = "procs.volumes.ownership:give_volume"
REASON: Final = "VolumePermissionChangeInProgress"
FIRST_SECONDS: Final = 30.0
NEXT_SECONDS: Final = 60.0
_ABOUT: Final = (
    "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/"
    "#configure-volume-permission-and-ownership-change-policy-for-pods"
)

Pause = Callable[[float], Awaitable[None]]


async def give(  # noqa: PLR0913, PLR0917 - each is something else
    ops: Operations,
    process: Process,
    pod: PodInfo,
    path: str,
    group: int,
    read_only: bool,
    policy: Policy,
    key: str,
    *,
    shown: str = "",
    pause: Pause = asyncio.sleep,
) -> bool:
    """Let a group own a volume; whether anything had to be done. A VolumeError says why not.

    ``shown`` is where the pod has the volume, if that is not where it is given.
    """
    arguments = {"path": path, "group": group, "read_only": read_only, "policy": str(policy)}
    last: dict[str, Any] = {}
    telling = asyncio.get_running_loop().create_task(
        _tell(process, pod, _shown(shown or path, pod.uid), last, pause), name="volume ownership"
    )
    try:
        changed = await ops.child(GIVE, arguments, key=key, progress=last.update)
    finally:
        telling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await telling
    if last.get("failed"):
        log.warning(
            "Files of a volume could not be given to its group",
            pod=pod.uid,
            path=path,
            files=last["failed"],
            first=last.get("error"),
        )
    return bool(changed)


async def _tell(
    process: Process, pod: PodInfo, shown: str, last: dict[str, Any], pause: Pause
) -> None:
    await pause(FIRST_SECONDS)
    await emit(
        process,
        pod,
        "Warning",
        REASON,
        f"Setting volume ownership for {shown} is taking longer than expected, consider using"
        f" OnRootMismatch - {_ABOUT}",
    )
    while True:
        await pause(NEXT_SECONDS)
        done = last.get("done", 0)
        message = f"Setting volume ownership for {shown}, processed {done} files."
        await emit(process, pod, "Warning", REASON, message)


def _shown(path: str, uid: str) -> str:
    """Return a path from the pod's uid on: what is above it is the kubelet's own affair."""
    begin = path.find(uid)
    return path[begin:] if uid and begin >= 0 else path


async def emit(
    process: Process, pod: PodInfo, type_: Literal["Normal", "Warning"], reason: str, message: str
) -> None:
    """Have an event about a pod told; one that cannot be is in the log."""
    event = RecordEvent(type_, reason, message, "Pod", pod.namespace, pod.name, pod.uid)
    try:
        await process.channels.ask("node", event)
    except ChannelError as err:
        log.info("Event could not be told", pod=pod.uid, reason=reason, text=message, err=err)
