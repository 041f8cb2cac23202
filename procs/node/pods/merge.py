"""Whose part of a pod's status is whose, and how the two become one. Pure (P-115, P-127, P-128)."""

from __future__ import annotations

from typing import Final

from procs.node.apiserver.types import Json
from procs.node.pods.parts import TERMINAL, named

READY: Final = "Ready"
DISRUPTION: Final = "DisruptionTarget"  # the kubelet's and others' (P-125)
BY_KUBELET: Final = "TerminationByKubelet"
# Conditions that the kubelet alone writes (P-128).
OWN_CONDITIONS: Final = frozenset(
    {
        "PodReadyToStartContainers",
        "Initialized",
        READY,
        "ContainersReady",
        "PodScheduled",
        "AllContainersRestarting",
        "PodResizePending",
        "PodResizeInProgress",
    }
)
CONDITIONS: Final = "conditions"
# Fields of a status that the kubelet writes; all others are somebody else's, known or not.
OWN_FIELDS: Final = frozenset(
    {
        "phase",
        "reason",
        "message",
        "startTime",
        "hostIP",
        "hostIPs",
        "podIP",
        "podIPs",
        "qosClass",
        "observedGeneration",
        "allocatedResources",
        "resources",
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    }
)
_OUTCOME: Final = ("phase", "reason", "message")


def foreign(status: Json) -> Json:
    """Return what of a status others may have written: if it is the same, there is no news.

    A phase that is terminal is part of it: somebody else may have ended the pod.
    """
    rest = {k: v for k, v in status.items() if k not in OWN_FIELDS and k != CONDITIONS}
    if status.get("phase") in TERMINAL:
        rest |= {key: status.get(key) for key in _OUTCOME}
    rest[CONDITIONS] = [
        condition
        for type_, condition in named(status.get(CONDITIONS)).items()
        if type_ not in OWN_CONDITIONS
    ]
    return rest


def merged(api: Json, ours: Json) -> Json:
    """Return the status that the object is to have, from what it has and what we know."""
    result = {key: value for key, value in api.items() if key not in OWN_FIELDS}
    result |= {key: value for key, value in ours.items() if key in OWN_FIELDS}
    if api.get("phase") in TERMINAL and ours.get("phase") not in TERMINAL:
        result |= {key: api.get(key) for key in _OUTCOME}  # it stays for ever (P-115)
    result[CONDITIONS] = _conditions(named(api.get(CONDITIONS)), named(ours.get(CONDITIONS)))
    return result


def _conditions(api: dict[str, Json], ours: dict[str, Json]) -> list[Json]:
    """Return others' conditions as they are there, then ours (P-120, P-128)."""
    own = {type_: c for type_, c in ours.items() if _is_ours(c)}
    others = [c for type_, c in api.items() if type_ not in OWN_CONDITIONS and type_ not in own]
    return [*others, *(_dated(condition, api.get(type_)) for type_, condition in own.items())]


def _is_ours(condition: Json) -> bool:
    if condition["type"] == DISRUPTION:
        return condition.get("reason") == BY_KUBELET
    return condition["type"] in OWN_CONDITIONS


def _dated(ours: Json, api: Json | None) -> Json:
    """Return a condition of ours since when it is known there to be what it is."""
    if api is None or api.get("status") != ours.get("status"):
        return ours
    since = api.get("lastTransitionTime")
    return {**ours, "lastTransitionTime": since} if since else ours


def urgent(api: Json, wanted: Json) -> bool:
    """Whether others wait for this: the pod becomes ready or unready, or is at its end."""
    if api.get("phase") != wanted.get("phase") and wanted.get("phase") in TERMINAL:
        return True
    return _ready(api) != _ready(wanted)


def _ready(status: Json) -> bool:
    return named(status.get(CONDITIONS)).get(READY, {}).get("status") == "True"


def backwards(spec: Json, api: Json, wanted: Json) -> str:
    """Name a container that ended for good and would be shown as not ended; "" if there is none.

    What may run again by a rule of its own, or with all others (P-80, P-81), is left out.
    """
    policy = spec.get("restartPolicy")
    if policy not in ("Never", "OnFailure") or _may_restart_all(spec):
        return ""
    kinds = [("containers", "containerStatuses")]
    if policy == "Never":  # else a new sandbox has them run once more (P-72)
        kinds.append(("initContainers", "initContainerStatuses"))
    for containers, statuses in kinds:
        plain = {name for name, c in named(spec.get(containers), "name").items() if _is_plain(c)}
        after = named(wanted.get(statuses), "name")
        for name, before in named(api.get(statuses), "name").items():
            ended = _ended(before)
            if ended is None or name not in plain or name not in after:
                continue
            if policy == "OnFailure" and ended.get("exitCode"):
                continue
            if _ended(after[name]) is None:
                return name
    return ""


def _is_plain(container: Json) -> bool:
    return not container.get("restartPolicy") and not container.get("restartPolicyRules")


def _may_restart_all(spec: Json) -> bool:
    every = (
        *named(spec.get("containers"), "name").values(),
        *named(spec.get("initContainers"), "name").values(),
    )
    return any(
        isinstance(rule, dict) and rule.get("action") == "RestartAllContainers"
        for container in every
        for rule in container.get("restartPolicyRules") or ()
    )


def _ended(status: Json) -> Json | None:
    state = status.get("state")
    ended = state.get("terminated") if isinstance(state, dict) else None
    return ended if isinstance(ended, dict) else None
