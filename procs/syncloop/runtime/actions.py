"""What a plan is made of, and what it is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kubelet.pods.runtime import PodRecord
from procs.syncloop.runtime.kinds import StartKind


@dataclass(frozen=True, slots=True)
class Observed:
    """A pod as it is now: what the runtime holds of it, and what else is known."""

    record: PodRecord | None
    now_ns: int = 0  # wall clock
    started: dict[str, bool] = field(default_factory=dict)  # container id -> startup has passed
    liveness_failed: frozenset[str] = frozenset()  # container ids
    startup_failed: frozenset[str] = frozenset()
    broken_off: frozenset[str] = frozenset()  # ids whose start was cut off by our own death
    deleted: bool = False


class KillReason(StrEnum):
    """Why a container is killed."""

    CHANGED = "definition-changed"
    LIVENESS = "liveness-failed"
    STARTUP = "startup-failed"
    UNKNOWN = "unknown-state"
    DUPLICATE = "duplicate"
    OLD_SANDBOX = "old-sandbox"
    NOT_IN_SPEC = "not-in-spec"
    RESTART_ALL = "restart-all"


@dataclass(frozen=True, slots=True)
class Kill:
    """A container to kill; ``grace`` None is the pod's own."""

    id: str
    name: str
    reason: KillReason
    message: str  # of the Killing event
    grace: int | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """A container to start; ``adopt`` is one that was created and never started."""

    kind: StartKind
    name: str
    attempt: int = 0
    adopt: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in this order: kill, remove, make the sandbox, start (P-73).

    ``kill_pod`` ends everything that runs of the pod, in the order of its termination, and stops
    its sandboxes; ``kill`` is empty then. What is in ``start`` is started one after the other.
    """

    kill_pod: bool = False
    new_sandbox: bool = False
    sandbox_id: str = ""  # the one to start containers in; "" when it is to be made
    sandbox_attempt: int = 0
    kill: tuple[Kill, ...] = ()
    remove: tuple[str, ...] = ()  # container ids
    start: tuple[Start, ...] = ()
    restart_all: bool = False  # P-81: what is removed keeps its logs; the next plan starts anew
    finished: bool = False  # no container of this pod will ever be started again
    cause: str = ""  # why the pod is killed or gets a new sandbox, in words

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.kill_pod or self.new_sandbox or self.kill or self.remove or self.start)
