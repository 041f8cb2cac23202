"""A pod in a few words, as kubectl prints it: ready containers, status, restarts. Pure.

All of it is worked out from the pod's document and its status, both as plain JSON values, so that
``status`` need not load the API's types.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kubeletctl.fields import Document, flag, obj, objs, text, whole

TERMINAL: Final = frozenset({"Succeeded", "Failed"})
TERMINATING: Final = "Terminating"
RUNNING: Final = "Running"
COMPLETED: Final = "Completed"
_INITIALIZING: Final = "PodInitializing"


class Summary(NamedTuple):
    """What a line of a table says about a pod."""

    word: str
    ready: int
    total: int
    restarts: int
    restarted: str  # when a container last ended before a restart, as the API writes it; "": never


class _Init(NamedTuple):
    """What the init containers say."""

    word: str  # "": all of them are done, or are sidecars that run
    sidecars_ready: int
    restarts: int  # of those that were looked at
    sidecar_restarts: int
    restarted: str
    sidecar_restarted: str


def summarize(document: Document, status: Document, *, ending: bool = False) -> Summary:
    """Return what kubectl prints; ``ending``: the node ends the pod, whoever wanted that."""
    spec = obj(document, "spec")
    sidecars = _sidecars(spec)
    init = _init(spec, status, sidecars)
    total = len(objs(spec, "containers")) + len(sidecars)
    word = text(status, "reason") or text(status, "phase") or "Pending"
    ready, restarts, restarted = init.sidecars_ready, init.restarts, init.restarted
    if init.word:
        word = init.word
    if not init.word or condition(status, "Initialized") == "True":
        word, running = _regular(status, word)
        ready += running
        statuses = objs(status, "containerStatuses")
        restarts = init.sidecar_restarts + sum(whole(one, "restartCount") for one in statuses)
        restarted = max((init.sidecar_restarted, *(_last_end(one) for one in statuses)))
        if word == COMPLETED and running:
            word = RUNNING if condition(status, "Ready") == "True" else "NotReady"
    deleted = ending or bool(text(obj(document, "metadata"), "deletionTimestamp"))
    if deleted and text(status, "phase") not in TERMINAL:
        word = TERMINATING
    return Summary(word, ready, total, restarts, restarted)


class RunningInit(NamedTuple):
    """The init container that the others wait for."""

    name: str
    number: int  # counted from 1
    total: int
    started: str  # as the API writes it


def running_init(document: Document, status: Document) -> RunningInit | None:
    """Return the init container, no sidecar, that runs; None if there is none."""
    spec = obj(document, "spec")
    sidecars = _sidecars(spec)
    names = [text(one, "name") for one in objs(spec, "initContainers")]
    for one in objs(status, "initContainerStatuses"):
        name, runs = text(one, "name"), obj(one, "state", "running")
        if "running" in obj(one, "state") and name in names and name not in sidecars:
            return RunningInit(name, names.index(name) + 1, len(names), text(runs, "startedAt"))
    return None


def condition(status: Document, kind: str) -> str:
    """Return the status of a condition: "True", "False", "Unknown", or "" where there is none."""
    for one in objs(status, "conditions"):
        if text(one, "type") == kind:
            return text(one, "status")
    return ""


def _sidecars(spec: Document) -> frozenset[str]:
    return frozenset(
        text(one, "name")
        for one in objs(spec, "initContainers")
        if text(one, "restartPolicy") == "Always"
    )


def _init(spec: Document, status: Document, sidecars: frozenset[str]) -> _Init:
    """Go through the init containers up to the first that is neither done nor a running sidecar."""
    word, ready, restarts, sidecar_restarts = "", 0, 0, 0
    restarted = sidecar_restarted = ""
    wanted = len(objs(spec, "initContainers"))
    for index, one in enumerate(objs(status, "initContainerStatuses")):
        restarts += whole(one, "restartCount")
        restarted = max(restarted, _last_end(one))
        sidecar = text(one, "name") in sidecars
        if sidecar:
            sidecar_restarts += whole(one, "restartCount")
            sidecar_restarted = max(sidecar_restarted, _last_end(one))
        if _succeeded(one):
            continue
        if not (sidecar and flag(one, "started")):
            word = _init_word(one, index, wanted)
            break
        ready += flag(one, "ready")
    return _Init(word, ready, restarts, sidecar_restarts, restarted, sidecar_restarted)


def _succeeded(one: Document) -> bool:
    ended = obj(one, "state", "terminated")
    return bool(ended) and whole(ended, "exitCode") == 0


def _init_word(one: Document, index: int, wanted: int) -> str:
    ended, waiting = obj(one, "state", "terminated"), obj(one, "state", "waiting")
    if ended:
        return f"Init:{_ended_word(ended)}"
    reason = text(waiting, "reason")
    if reason and reason != _INITIALIZING:
        return f"Init:{reason}"
    return f"Init:{index}/{wanted}"


def _regular(status: Document, word: str) -> tuple[str, int]:
    """Return the word that the containers give, the first one's before the others', and who runs.

    A container that runs has no word of its own: the one before it stays.
    """
    running = 0
    for one in reversed(objs(status, "containerStatuses")):
        waiting, ended = obj(one, "state", "waiting"), obj(one, "state", "terminated")
        if text(waiting, "reason"):
            word = text(waiting, "reason")
        elif ended:
            word = _ended_word(ended)
        elif flag(one, "ready") and "running" in obj(one, "state"):
            running += 1
    return word, running


def _ended_word(ended: Document) -> str:
    if text(ended, "reason"):
        return text(ended, "reason")
    signal = whole(ended, "signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{whole(ended, 'exitCode')}"


def _last_end(one: Document) -> str:
    return text(obj(one, "lastState", "terminated"), "finishedAt")
