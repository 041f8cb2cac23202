"""A pod's containers as the plan looks at them: which instance counts, and what it is worth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from kubelet.api.container import Container
from kubelet.api.pod import Pod
from kubelet.pods.runtime import (
    ContainerRecord,
    ContainerState,
    PodRecord,
    SandboxRecord,
    SandboxState,
)
from procs.syncloop.runtime.actions import Observed
from procs.syncloop.runtime.hashing import matches

LIVE: Final = (ContainerState.RUNNING, ContainerState.UNKNOWN)  # what may be running
_START_ERROR: Final = "StartError"  # what the runtime says of a start that it gave up (P-105)
_START_ERROR_CODE: Final = 128


@dataclass(frozen=True)  # without slots: what is worked out once is kept
class View:
    """A pod, what was observed of it, and the sandbox that its containers belong into."""

    pod: Pod
    observed: Observed
    sandbox: SandboxRecord | None  # None: a new one is needed

    @cached_property
    def record(self) -> PodRecord:
        """What the runtime holds; empty when there is nothing."""
        return self.observed.record or PodRecord(self.pod.uid)

    @cached_property
    def _by_name(self) -> dict[str, tuple[ContainerRecord, ...]]:
        found: dict[str, list[ContainerRecord]] = {}
        for container in self.record.containers:
            found.setdefault(container.name, []).append(container)
        return {name: tuple(containers) for name, containers in found.items()}

    def of(self, name: str) -> tuple[ContainerRecord, ...]:
        """Return every instance of a container, newest first."""
        return self._by_name.get(name, ())

    def is_here(self, record: ContainerRecord) -> bool:
        """Tell whether an instance is in the sandbox that counts."""
        return self.sandbox is not None and record.sandbox_id == self.sandbox.id

    def here(self, name: str) -> tuple[ContainerRecord, ...]:
        """Return the instances in the sandbox that counts, newest first."""
        return tuple(c for c in self.of(name) if self.is_here(c))

    def running(self, name: str) -> ContainerRecord | None:
        """Return the newest instance that runs in the sandbox that counts."""
        return next((c for c in self.here(name) if c.state is ContainerState.RUNNING), None)

    def last(self, name: str, *, only_here: bool = False) -> ContainerRecord | None:
        """Return the instance that says how a container stands, if none of it runs."""
        found = self.here(name) if only_here else self.of(name)
        return found[0] if found else None

    def never_ran(self, record: ContainerRecord) -> bool:
        """Tell whether an instance never ran: created only, or cut off while it was started."""
        if record.state is ContainerState.CREATED:
            return True
        return (
            record.state is ContainerState.EXITED
            and record.id in self.observed.broken_off
            and record.exit_code == _START_ERROR_CODE
            and record.reason == _START_ERROR
        )

    def attempt(self, name: str) -> int:
        """Return the number of the next instance (P-82): one that never ran does not count."""
        ran = [c.attempt for c in self.of(name) if not self.never_ran(c)]
        if ran:
            return max(ran) + 1
        return min((c.attempt for c in self.of(name)), default=0)

    def adoptable(self, container: Container, record: ContainerRecord) -> bool:
        """Tell whether an instance only needs to be started to be what is wanted."""
        return (
            record.state is ContainerState.CREATED
            and self.is_here(record)
            and matches(container, record) is True
        )

    def started(self, container: Container, record: ContainerRecord) -> bool:
        """Tell whether a running instance has passed its startup (P-75)."""
        return self.observed.started.get(record.id, container.startup_probe is None)

    @cached_property
    def ran(self) -> bool:
        """Whether the pod ever ran, as far as is remembered; a debugger's run is not its own."""
        spec = self.pod.spec
        own = (c.name for among in (spec.init_containers, spec.containers) for c in among)
        return any(not self.never_ran(found) for name in own for found in self.of(name))

    @cached_property
    def initialised(self) -> bool:
        """Whether the init containers are through: a regular one is there (P-107)."""
        return any(self.here(c.name) for c in self.pod.spec.containers)

    @cached_property
    def live(self) -> bool:
        """Whether any container may be running."""
        return any(c.state in LIVE for c in self.record.containers)

    @cached_property
    def alive(self) -> bool:
        """Whether there is anything of the pod to be killed."""
        return self.live or any(s.state is SandboxState.READY for s in self.record.sandboxes)
