"""One probe that is to be made, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kubelet.api.container import Container
from kubelet.api.handlers import Probe
from kubelet.api.pod import Pod
from kubelet.pods.probes import ProbeKind


class Result(StrEnum):
    """How one probe ended."""

    SUCCESS = "success"
    WARNING = "warning"  # a success, but something about it is to be told (B-12)
    FAILURE = "failure"


class Outcome(NamedTuple):
    """What came of a probe."""

    result: Result
    output: str = ""  # what the server or the command said, or what went wrong; at most 10 KiB
    late_ns: int = 0  # how much of its time was ours: the answer was there before we looked


class ProbeError(Exception):
    """The probe could not be made, which says nothing of the container; its text says why (B-8)."""


@dataclass(frozen=True, slots=True)
class Job:
    """A probe to be made."""

    pod: Pod
    container: Container
    container_id: str  # as the runtime has it
    kind: ProbeKind
    probe: Probe  # with its defaults filled in (B-15)
    pod_ip: str

    @property
    def seconds(self) -> float:
        """The time that it may take."""
        return float(self.probe.timeout_seconds or 1)
