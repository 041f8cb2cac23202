"""The requests of probes: what ``prober``, without the runtime's socket, asks of ``syncloop``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kubelet.channels.messages import Request, request


@dataclass(frozen=True, slots=True)
class ProbeExecuted:
    """How a probe's command ended; ``error`` says why it could not be run at all."""

    exit_code: int = 0
    output: str = ""  # of both streams, cut at 10 KiB (B-14)
    timed_out: bool = False  # the runtime stopped it after the probe's own time-out
    busy: bool = False  # one of this container still runs: nothing was begun
    error: str = ""


@request("exec-probe", allowed={"prober"}, handled_by={"syncloop"})
@dataclass(frozen=True, slots=True)
class ExecProbe(Request[ProbeExecuted]):
    """Has the command of a probe run; which one it is, and for how long, the pod's spec says."""

    pod: str
    container_id: str
    probe: Literal["liveness", "readiness", "startup"]


@dataclass(frozen=True, slots=True)
class PodEventNoted:
    """The event is in table ``events``, or the pod is gone and nobody asks any more."""


@request("note-pod-event", allowed={"prober"}, handled_by={"syncloop"})
@dataclass(frozen=True, slots=True)
class NotePodEvent(Request[PodEventNoted]):
    """Has an event of a pod's container noted among the pod's others."""

    pod: str
    container: str
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
