"""What admission is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubelet.api.pod import Pod
from procs.syncloop.site import Site

LINUX: Final = "linux"
REJECTED: Final = "Pod was rejected: "

# Features of pods that a node may or may not have.
RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_ON_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
DECLARED: Final = (RESTART_ALL, USER_NAMESPACES_ON_HOST_NETWORK)  # each has a gate of its name


@dataclass(frozen=True, slots=True)
class Pressure:
    """What the node is short of (E-8)."""

    memory: bool = False
    disk: bool = False
    pid: bool = False

    @property
    def conditions(self) -> tuple[str, ...]:
        """The node's conditions that are true."""
        held = {"MemoryPressure": self.memory, "DiskPressure": self.disk, "PIDPressure": self.pid}
        return tuple(name for name, true in held.items() if true)


@dataclass(frozen=True, slots=True)
class Taint:
    """``Taint`` of core/v1."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is true of the node at the moment; the defaults are those of one without trouble."""

    pressure: Pressure = Pressure()
    taints: tuple[Taint, ...] = ()
    kernel: tuple[int, int] = (0, 0)  # its version; (0, 0): not known
    apparmor: bool = False  # it can enforce profiles
    profiles: frozenset[str] | None = None  # loaded ones; None: the runtime will know
    strict_groups: bool = False  # the runtime knows supplementalGroupsPolicy Strict
    pod_level_resources: bool = True  # the feature gate
    declared: frozenset[str] = frozenset({RESTART_ALL})  # features of the node
    shutting_down: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod is not let in. ``message`` is the event's; the status's has more words."""

    reason: str
    message: str

    @property
    def status_message(self) -> str:
        """The message of the pod's status."""
        return REJECTED + self.message


@dataclass(frozen=True, slots=True)
class Preempt:
    """A critical pod is let in when these have made room for it (A-5)."""

    victims: tuple[Pod, ...]
    resource: str = ""  # the first that was lacking, for the metric

    # What becomes of the victims: the status's reason and message, and the condition's message.
    reason: str = "Preempting"
    message: str = "Preempted in order to admit critical pod"
    disruption: str = "Pod was preempted by Kubelet to accommodate a critical pod."


@dataclass(frozen=True, slots=True)
class Request:
    """A pod that wants to be let in, and the node as it is."""

    pod: Pod
    others: tuple[Pod, ...]  # the active pods that were let in, without this one
    site: Site
    facts: Facts


# What a handler answers: None is yes.
Answer = Refusal | Preempt | None
