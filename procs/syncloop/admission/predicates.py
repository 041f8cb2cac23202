"""What a scheduler would have looked at: room, ports, labels, taints (A-4, A-5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubelet.pods.priority import is_critical, is_static
from procs.syncloop.admission import affinity, ports, room
from procs.syncloop.admission.base import LINUX, Answer, Preempt, Refusal, Request
from procs.syncloop.admission.preemption import CannotPreemptError, victims
from procs.syncloop.admission.taints import tolerated

OS_LABEL: Final = "kubernetes.io/os"
_STRICT: Final = "Strict"

_SELECTOR = Refusal(
    "PodOSSelectorNodeLabelDoesNotMatch",
    "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
)
_SYSTEM = Refusal("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
_GROUPS = Refusal(
    "SupplementalGroupsPolicyNotSupported",
    "SupplementalGroupsPolicy=Strict is not supported in this node",
)


def check(request: Request) -> Answer:
    """Refuse a pod that does not fit, unless it is critical and others can make room."""
    refusal = _hopeless(request)
    if refusal is not None:
        return refusal
    lacks = room.lacking(request.pod, request.others, request.site)
    misfits = list(_misfits(request))
    if not is_critical(request.pod):
        return next(iter([*(lack.refusal() for lack in lacks), *misfits]), None)
    if misfits:
        return misfits[0]
    return _make_room(request, lacks) if lacks else None


def _hopeless(request: Request) -> Refusal | None:
    """Look first at what no preemption could help."""
    pod = request.pod
    if pod.metadata.labels.get(OS_LABEL, LINUX) != LINUX:
        return _SELECTOR
    if pod.spec.os is not None and pod.spec.os.name != LINUX:
        return _SYSTEM
    security = pod.spec.security_context
    strict = security is not None and security.supplemental_groups_policy == _STRICT
    return _GROUPS if strict and not request.facts.strict_groups else None


def _misfits(request: Request) -> Iterator[Refusal]:
    pod, site = request.pod, request.site
    if not affinity.matches(pod, site.node, site.labels):
        yield _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if pod.spec.node_name not in ("", site.node):
        yield _failed("NodeName", "node(s) didn't match the requested node name")
    if not ports.free(pod, request.others):
        yield _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    if not is_static(pod) and not _stands_taints(request):
        yield _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _stands_taints(request: Request) -> bool:
    taints = [taint for taint in request.facts.taints if taint.effect == "NoExecute"]
    return all(tolerated(taint, request.pod.spec.tolerations) for taint in taints)


def _failed(name: str, why: str) -> Refusal:
    return Refusal(name, f"Predicate {name} failed: {why}")


def _make_room(request: Request, lacks: list[room.Lack]) -> Answer:
    try:
        chosen = victims(request.pod, request.others, lacks)
    except CannotPreemptError as err:
        return Refusal(
            "UnexpectedAdmissionError",
            "Unexpected error while attempting to recover from admission failure: "
            f"preemption: error finding a set of pods to preempt: {err}",
        )
    return Preempt(chosen, lacks[0].resource)
