"""How a claim's status tells of a file system that grows on the node (L-16). Pure."""

from __future__ import annotations

from typing import Final

from kubelet import quantities
from kubelet.channels.messages import NoteClaimResize
from kubelet.quantities import Quantity
from procs.node.apiserver.types import Json
from procs.node.nodeobject import odd

STORAGE: Final = "storage"
STATUSES: Final = "allocatedResourceStatuses"
IN_PROGRESS: Final = "NodeResizeInProgress"
INFEASIBLE: Final = "NodeResizeInfeasible"
ERROR: Final = "NodeResizeError"
# Everything that a claim says of growing, whoever said it.
CONDITIONS: Final = ("FileSystemResizePending", "Resizing", "ControllerResizeError", ERROR)


def problem_with(request: NoteClaimResize) -> str:
    """Say what of a request can be written nowhere; "": nothing."""
    if request.step == "done":
        try:
            quantities.parse(request.capacity)
        except ValueError as err:
            return f"capacity: {request.capacity[:80]!r}: {err}"
    return ""


def patch_of(claim: Json, request: NoteClaimResize, now: str) -> Json | None:
    """Return the patch of a claim's status; None: it says so already.

    But for a failure, which is true whatever else changes, it is for the version that was read.
    """
    if request.step == "failed":
        status = _failed(claim, request, now)
    elif request.step == "begun":
        begun = _under_way(claim) == IN_PROGRESS
        status = {} if begun else {STATUSES: {STORAGE: IN_PROGRESS}}
    else:
        status = _done(claim, quantities.parse(request.capacity))
    if not status:
        return None
    if request.step == "failed":
        return {"status": status}
    version = odd.text(claim, "metadata", "resourceVersion")
    return {"metadata": {"resourceVersion": version}, "status": status}


def _done(claim: Json, capacity: Quantity) -> Json:
    """Have the claim be as large as it is, with nothing left of how it came to be so.

    Where another node was faster, nothing is left to say.
    """
    has, under_way = _has(claim), _under_way(claim)
    if has is not None and has >= capacity and not under_way:
        return {}
    found: Json = {}
    if has != capacity:
        found["capacity"] = {STORAGE: str(capacity)}
    if under_way:
        others = set(odd.part(claim, "status", STATUSES)) - {STORAGE}
        found[STATUSES] = {STORAGE: None} if others else None
    gone = [one for one in _types(claim) if one in CONDITIONS]
    if gone:
        found["conditions"] = [{"$patch": "delete", "type": one} for one in gone]
    return found


def _failed(claim: Json, request: NoteClaimResize, now: str) -> Json:
    """Say why it does not grow; where that is said already, the first time counts."""
    found: Json = {}
    if request.infeasible and _under_way(claim) != INFEASIBLE:
        found[STATUSES] = {STORAGE: INFEASIBLE}
    said = odd.condition(claim, ERROR)
    if said.get("status") != "True":
        condition = {
            "type": ERROR,
            "status": "True",
            "lastTransitionTime": now,
            "message": f"failed to expand pvc with {request.error}",
        }
        found["conditions"] = [condition]
    return found


def _types(claim: Json) -> list[str]:
    return [odd.text(one, "type") for one in odd.maps(claim, "status", "conditions")]


def _under_way(claim: Json) -> str:
    return odd.text(claim, "status", STATUSES, STORAGE)


def _has(claim: Json) -> Quantity | None:
    try:
        return quantities.from_json(odd.part(claim, "status", "capacity")[STORAGE])
    except (KeyError, ValueError):
        return None
