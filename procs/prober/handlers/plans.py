"""What is the same for every probe of a container: found out once, and kept while it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from kubelet.api.container import Container
from kubelet.api.handlers import Probe
from kubelet.pods.probes import ProbeKind
from procs.prober.job import Job

_KEPT: Final = 4096  # plans of a kind; a node has some hundred containers

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    """A plan, and what it was made from."""

    probe: Probe
    container: Container
    pod_ip: str
    plan: T


class Plans(Generic[T]):
    """Plans, by container and kind of probe; the oldest go first."""

    __slots__ = ("_kept", "_make")

    def __init__(self, make: Callable[[Job], T]) -> None:
        self._make = make
        self._kept: dict[tuple[str, ProbeKind], _Kept[T]] = {}

    def of(self, job: Job) -> T:
        """Return the plan for a job; it is made when it is not known, and as soon as it changes."""
        key = (job.container_id, job.kind)
        kept = self._kept.get(key)
        if (
            kept is not None
            and kept.probe is job.probe
            and kept.container is job.container
            and kept.pod_ip == job.pod_ip
        ):
            return kept.plan
        plan = self._make(job)
        self._kept.pop(key, None)
        if len(self._kept) >= _KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = _Kept(job.probe, job.container, job.pod_ip, plan)
        return plan
