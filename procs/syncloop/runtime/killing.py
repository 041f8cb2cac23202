"""The order in which containers end, and how long each is given (P-37, P-140..P-142, T-19). Pure.

A pod ends within one grace. Everything but sidecars ends at once; a sidecar waits for its turn,
and what it has waited is gone from its grace, as is what its preStop hook took.
"""

from __future__ import annotations

from typing import Final

from kubelet.api.container import Container, is_sidecar
from kubelet.api.handlers import Probe
from kubelet.api.pod import Pod
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord

MIN_RUNTIME_GRACE: Final = 2  # T-19: seconds that StopContainer is given at least
MIN_POD_GRACE: Final = 1  # T-19: seconds that a pod's worker gives at least
ORPHAN_GRACE: Final = 1  # P-35
DEFAULT_GRACE: Final = 30  # of a pod that says nothing, as the API server fills it in

_LIVE: Final = (ContainerState.RUNNING, ContainerState.UNKNOWN)

Stage = tuple[ContainerRecord, ...]


def stages(pod: Pod | None, record: PodRecord) -> tuple[Stage, ...]:
    """Return what may still run of a pod, in the order in which it is to end (P-140).

    Each stage ends as a whole, side by side, before the next begins. Without a pod, nobody knows
    which were sidecars: there is one stage.
    """
    live = [c for c in record.containers if c.state in _LIVE]
    inits = pod.spec.init_containers if pod is not None else ()
    sidecars = [c.name for c in inits if is_sidecar(c)]
    first = tuple(c for c in live if c.name not in sidecars)
    turns = (tuple(c for c in live if c.name == name) for name in reversed(sidecars))
    return tuple(stage for stage in (first, *turns) if stage)


def effective_grace(pod: Pod, override: int | None = None, before: int | None = None) -> int:
    """Return the seconds in which a pod is to end (P-37).

    The smaller of what its deletion and an override say, or else what its spec says; never more
    than it was ``before``, and never less than one.
    """
    said = [g for g in (override, pod.metadata.deletion_grace_period_seconds) if g is not None]
    grace = min(said) if said else _own(pod)
    if before is not None:
        grace = min(grace, before)
    return max(grace, MIN_POD_GRACE)


def probe_grace(pod: Pod, probe: Probe | None) -> int | None:
    """Return the grace that a failed probe sets; None: the pod's own counts (P-142)."""
    if pod.metadata.deletion_grace_period_seconds is not None or probe is None:
        return None
    return probe.termination_grace_period_seconds


def container_grace(pod: Pod, probe: Probe | None = None, override: int | None = None) -> int:
    """Return the seconds that one container is given to end (P-141, P-142).

    An override counts first, as the pod's end has set it; then the deletion's grace, then that of
    the probe that failed, then the pod's own.
    """
    if override is not None:
        return max(0, override)
    if pod.metadata.deletion_grace_period_seconds is not None:
        return max(0, pod.metadata.deletion_grace_period_seconds)
    by_probe = probe_grace(pod, probe)
    return max(0, _own(pod) if by_probe is None else by_probe)


def remaining(grace: int, elapsed_seconds: float) -> int:
    """Return what is left of a grace after some seconds; begun seconds do not count (P-141)."""
    return max(0, grace - int(max(0.0, elapsed_seconds)))


def runtime_grace(grace: int, elapsed_seconds: float = 0.0) -> int:
    """Return the seconds to give StopContainer, after hook and turn took theirs (P-141)."""
    return max(remaining(grace, elapsed_seconds), MIN_RUNTIME_GRACE)


def runs_pre_stop(container: Container, grace: int) -> bool:
    """Tell whether a container's preStop hook is run: not without any grace (P-141)."""
    lifecycle = container.lifecycle
    return grace > 0 and lifecycle is not None and lifecycle.pre_stop is not None


def _own(pod: Pod) -> int:
    own = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE if own is None else own
