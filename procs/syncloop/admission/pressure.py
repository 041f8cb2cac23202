"""A node under pressure takes few pods (A-1, E-15)."""

from __future__ import annotations

from typing import Final

from kubelet.pods.priority import is_critical
from kubelet.pods.qos import BEST_EFFORT, qos_class
from procs.syncloop.admission.base import Pressure, Refusal, Request, Taint
from procs.syncloop.admission.taints import tolerated

REASON: Final = "Evicted"
_MEMORY_TAINT: Final = Taint("node.kubernetes.io/memory-pressure", effect="NoSchedule")


def check(request: Request) -> Refusal | None:
    """Refuse a pod that the node could not keep."""
    pressure, pod = request.facts.pressure, request.pod
    if not pressure.conditions or is_critical(pod):
        return None
    if pressure == Pressure(memory=True) and (
        qos_class(pod) != BEST_EFFORT or tolerated(_MEMORY_TAINT, pod.spec.tolerations)
    ):
        return None
    return Refusal(REASON, f"The node had condition: [{' '.join(pressure.conditions)}]. ")
