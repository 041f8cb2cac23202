"""Which sandboxes go (I-3). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kubelet.pods.runtime import PodRecord, SandboxState
from procs.syncloop.gc.policy import Owners


def select_sandboxes(
    pods: Iterable[PodRecord], owners: Owners, removed: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Return the ids of the sandboxes that are to be removed now, oldest first in each pod.

    Never one that is ready or has containers, but those that were ``removed`` just now; of a pod
    that is still there, never the newest. To remove a sandbox removes all that is in it: where
    not every container is listed, none goes.
    """
    found: list[str] = []
    for pod in pods:
        if pod.left_out:
            continue
        used = {c.sandbox_id for c in pod.containers if c.id not in removed}
        candidates = pod.sandboxes if owners.removable(pod.uid) else pod.sandboxes[1:]
        found += [
            s.id
            for s in reversed(candidates)
            if s.state is not SandboxState.READY and s.id not in used
        ]
    return tuple(found)
