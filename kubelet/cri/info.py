"""What runtimes tell in verbose answers, outside the interface proper."""

from __future__ import annotations

import json
from typing import Final

from kubelet.cri import api_pb2 as pb

PID_MAX: Final = 1 << 22  # the kernel's own limit


def init_pid(answer: pb.ContainerStatusResponse | pb.PodSandboxStatusResponse) -> int | None:
    """The process ID of a running container's (or sandbox's) first process, where it is told.

    containerd (1.6 to 2.x) and CRI-O put a JSON object with ``pid`` under ``info``; a bare ``pid``
    beside it is understood too. What has ended has no process: a runtime may go on telling the
    number, and by now it may be another's.
    """
    if not _runs(answer):
        return None
    return _pid(_decoded(answer.info.get("info", "")).get("pid")) or _pid(answer.info.get("pid"))


def _runs(answer: pb.ContainerStatusResponse | pb.PodSandboxStatusResponse) -> bool:
    if isinstance(answer, pb.ContainerStatusResponse):
        return answer.status.state == pb.CONTAINER_RUNNING
    return answer.HasField("status") and answer.status.state == pb.SANDBOX_READY


def _decoded(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _pid(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= PID_MAX:
        return value
    return None
