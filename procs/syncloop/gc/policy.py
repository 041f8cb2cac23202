"""What is kept of dead containers, and of which pods nothing is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubelet.config.effective import Effective
from kubelet.pods.rows import WorkerState

_NS = 10**9


@dataclass(frozen=True, slots=True)
class GcPolicy:
    """The limits for dead containers (I-1); a negative number sets none."""

    min_age_ns: int = 0  # since their end
    per_container: int = 1
    total: int = -1

    @staticmethod
    def of(config: Effective) -> GcPolicy:
        """Return the limits that the flags set."""
        return GcPolicy(
            min_age_ns=max(0, int(config.duration("--minimum-container-ttl-duration") * _NS)),
            per_container=config.int("--maximum-dead-containers-per-container"),
            total=config.int("--maximum-dead-containers"),
        )


@dataclass(frozen=True, slots=True)
class KnownPod:
    """A pod that somebody wants or wanted, as far as garbage goes."""

    state: WorkerState
    deleted: bool = False  # nobody wants it any more

    @property
    def removable(self) -> bool:
        """Whether everything of it may go (I-2)."""
        return self.deleted and self.state in (WorkerState.TERMINATED, WorkerState.FINISHED)


@dataclass(frozen=True, slots=True)
class Owners:
    """Which pods are known; one that is not is nobody's. Nothing is before every source spoke."""

    known: Mapping[str, KnownPod]
    sources_ready: bool

    def removable(self, uid: str) -> bool:
        """Tell whether everything of a pod may go (I-2)."""
        found = self.known.get(uid)
        return self.sources_ready and (found is None or found.removable)
