"""Pods in lines: how many are in which state, why one is not ready, the cells of a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kubeletctl.fields import obj, objs, text, whole
from kubeletctl.pods import UNREADABLE, PodView
from kubeletctl.podstate import (
    COMPLETED,
    RUNNING,
    TERMINAL,
    TERMINATING,
    Summary,
    condition,
    running_init,
)
from kubeletctl.screen import Cell, Style
from kubeletctl.words import kube_age

_GROUPS: Final = ("ready", "not ready", "ending", "completed", "failed", UNREADABLE)
_STYLES: Final = {RUNNING: Style.GOOD, COMPLETED: Style.DIM, TERMINATING: Style.WARN}
_UNDER_WAY: Final = ("ContainerCreating", "PodInitializing", "Pending", "Init:", "NotReady")
_PHASES: Final = {"Succeeded": "completed", "Failed": "failed"}


def group(one: PodView) -> str:
    """Return in which group a pod is counted."""
    phase = text(one.status, "phase")
    if one.state == UNREADABLE:
        return UNREADABLE
    if one.removed:
        return "ending"
    if phase in TERMINAL:
        return _PHASES[phase]
    return "ready" if condition(one.status, "Ready") == "True" else "not ready"


def counts(pods: Sequence[PodView]) -> str:
    """Say how many pods there are, and how many of them are in which state."""
    groups = [group(one) for one in pods]
    parts = [f"{groups.count(name)} {name}" for name in _GROUPS if name in groups]
    return f"{len(pods)} ({', '.join(parts)})" if parts else "0"


def trouble(one: PodView) -> str:
    """Say in a few words why a pod is not ready; "" if it is, or is done."""
    if group(one) in {"ready", "completed"}:
        return ""
    refused = text(one.row, "rejected")
    if refused:
        return ": ".join(filter(None, refused.split("\t", 1)))
    if one.waits_for:
        return f"waits for {one.waits_for}"
    reasons = [f"{name}: {_message(str(why))}" for name, why in obj(one.work, "reasons").items()]
    said = text(one.status, "message") or _waiting(one) or text(one.work, "step")
    return reasons[0] if reasons else said or _initializing(one) or _unready(one)


def _initializing(one: PodView) -> str:
    found = running_init(one.document, one.status)
    return f"waits for init container {found.name} to end" if found else ""


def _message(reason: str) -> str:
    """Return the message of a reason with its message, or the reason where it has none."""
    first, _, rest = reason.partition("\t")
    return rest or first


def _waiting(one: PodView) -> str:
    for status in (
        *objs(one.status, "initContainerStatuses"),
        *objs(one.status, "containerStatuses"),
    ):
        message = text(obj(status, "state", "waiting"), "message")
        if message:
            return f"{text(status, 'name')}: {message}"
    return ""


def _unready(one: PodView) -> str:
    for kind in ("Ready", "ContainersReady", "Initialized"):
        for found in objs(one.status, "conditions"):
            if text(found, "type") == kind and text(found, "message"):
                return text(found, "message")
    return ""


def as_json(one: PodView) -> dict[str, Any]:
    """Return what programs are told of a pod where a table stands for people."""
    if one.state == UNREADABLE:
        return {"uid": one.uid, "state": UNREADABLE}
    found = one.summary
    return {
        "uid": one.uid,
        "name": one.name,
        "namespace": one.namespace,
        "source": text(one.row, "source"),
        "state": one.state,
        "phase": text(one.status, "phase"),
        "step": text(one.work, "step"),
        "since_ns": whole(one.work, "since_ns"),
        "status": found.word,
        "ready": group(one) == "ready",
        "containers_ready": found.ready,
        "containers": found.total,
        "restarts": found.restarts,
        "waits_for": trouble(one),
    }


def word_cell(found: Summary) -> Cell:
    """Return the status of a pod in its colour: what is under way is neither good nor bad."""
    style = _STYLES.get(found.word)
    if style is None:
        style = Style.WARN if found.word.startswith(_UNDER_WAY) else Style.BAD
    if found.word == RUNNING and found.ready < found.total:
        style = Style.WARN
    return Cell(found.word, style)


def restarts(found: Summary, now_ns: int) -> str:
    """Return the number of restarts, and how long ago the last one was."""
    from kubelet.times import to_ns

    if not found.restarts or not found.restarted:
        return str(found.restarts)
    try:
        ago = kube_age((now_ns - to_ns(found.restarted)) / 1e9)
    except ValueError:
        return str(found.restarts)
    return f"{found.restarts} ({ago} ago)"


def age_of(one: PodView, now_ns: int) -> str:
    """Return how long a pod is there."""
    created = one.created_ns()
    return kube_age((now_ns - created) / 1e9) if created else "<unknown>"
