"""What a pod's status depends on besides its spec and what the runtime holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kubelet.api.status import PodCondition, PodStatus
from kubelet.pods.rows import Ending
from kubelet.pods.runtime import ContainerRecord


@dataclass(frozen=True, slots=True)
class ProbeView:
    """What the probes say of a container; None: there is no result yet."""

    ready: bool | None = None
    started: bool | None = None


def own_message(record: ContainerRecord) -> str:
    """Return what the runtime says of a container's end."""
    return record.message


@dataclass(frozen=True, slots=True)
class Context:
    """The rest of what is known of a pod at the moment its status is computed."""

    now_ns: int  # wall clock
    previous: PodStatus | None = None  # computed last; None: the one in the pod is taken
    # Why containers wait, by name: reason and message (P-101..P-104).
    reasons: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    probes: Mapping[str, ProbeView] = field(default_factory=dict)  # by container id
    unstarted: frozenset[str] = frozenset()  # ids whose postStart hook still runs (P-144)
    ignored: frozenset[str] = frozenset()  # ids whose start was broken off: they never ran
    # Returns the last words of a container that ended (P-187); asked once for each.
    messages: Callable[[ContainerRecord], str] = own_message
    ending: Ending | None = None  # the pod is to end: nothing of it is started again
    rejected: str = ""  # reason and message of admission, with a tab between them
    static: bool = False  # it comes from a file or a URL
    stopped: bool = False  # everything of it was stopped for good (P-113, P-118)
    node_ips: tuple[str, ...] = ()  # the node's addresses, the primary first
    runtime_name: str = "containerd"  # what container ids begin with
    start_time: str = ""  # when it was first synced, if that is known from elsewhere
    recursive_read_only: bool = False  # the runtime can make mounts recursively read-only
    restarting_all: bool = False  # all containers are being restarted in place (P-81)
    resize: tuple[PodCondition, ...] = ()  # conditions of an in-place resize (P-126)

    @property
    def refusal(self) -> tuple[str, str] | None:
        """Reason and message of admission, if it refused the pod."""
        reason, _, message = self.rejected.partition("\t")
        return (reason, message) if self.rejected else None

    @property
    def ended(self) -> bool:
        """Whether the pod is on its way out."""
        return self.ending is not None or bool(self.rejected) or self.stopped
