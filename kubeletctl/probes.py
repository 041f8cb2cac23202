"""The probes of pods: what each found, what the last one said, when the next one is due. Pure.

A probe is in the pod's document, what it found in table ``probes``, how far it is in table
``probing``; both are kept under the id of the container that runs now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kubeletctl import moments
from kubeletctl.fields import Document, flag, obj, objs, text, texts, whole
from kubeletctl.pods import PodView
from kubeletctl.words import age, count, short_age

KINDS: Final = ("startup", "liveness", "readiness")
SUCCESS: Final = "success"
FAILURE: Final = "failure"
NONE_YET: Final = "none yet"  # no verdict: fewer results in a row than the thresholds ask for
_SIDECAR: Final = "Always"
_ENDED: Final = ("terminated", "finished")  # states of workers of which nothing runs


class Idle(StrEnum):
    """Why a probe is not made now."""

    NO = ""
    STOPPED = "not running"
    HOOK = "postStart hook"
    STARTUP = "startup probe"
    FAILED = "restart"
    STARTED = "started"
    ENDING = "pod ends"


_IDLE: Final = {
    Idle.STOPPED: "it is not made before the container runs",
    Idle.HOOK: "it is not made before the container's postStart hook has ended",
    Idle.STARTUP: "it is not made before the startup probe has succeeded",
    Idle.FAILED: "it is not made again before the container is restarted",
    Idle.STARTED: "it is not made any more, because the container has started",
    Idle.ENDING: "it is not made any more, because the pod ends",
}


class Rows(NamedTuple):
    """What the tables say of all containers, by their ids."""

    probes: Mapping[str, Any]
    probing: Mapping[str, Any]
    hooked: frozenset[str] = frozenset()  # their postStart hook still runs


NO_ROWS: Final = Rows({}, {})


class Probe(NamedTuple):
    """One probe of one container, in the names and units of ``probes -o json``."""

    pod: str  # namespace/name
    uid: str
    container: str
    container_id: str
    kind: str
    handler: str
    period_seconds: int
    success_threshold: int
    failure_threshold: int
    verdict: str
    since_ns: int  # wall clock: since when that is the verdict; 0: nobody noted
    streak: int  # equal results in a row
    failing: bool  # what those results are
    last_ns: int  # wall clock: when the last one began; 0: there was none
    took_ns: int
    next_ns: int  # wall clock: when the next one is due; 0: none is
    idle: str  # why none is
    said: str  # what the last one said, unless it succeeded
    succeeded: int
    failed: int
    unknown: int

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name, in their order."""
        return {**self._asdict(), "idle": str(self.idle)}


def of_pods(pods: Iterable[PodView], rows: Rows, now_ns: int, monotonic_ns: int) -> list[Probe]:
    """Return the probes of pods of which something may run, in the order of their documents."""
    return [
        found
        for one in pods
        if one.state not in _ENDED
        for container, status in _containers(one)
        for found in _of_container(one, container, status, rows, now_ns - monotonic_ns)
    ]


def _containers(one: PodView) -> Iterator[tuple[Document, Document]]:
    """Yield those that may have probes, sidecars first, each with its status."""
    spec = obj(one.document, "spec")
    sidecars = [c for c in objs(spec, "initContainers") if text(c, "restartPolicy") == _SIDECAR]
    statuses = {
        text(status, "name"): status
        for key in ("initContainerStatuses", "containerStatuses")
        for status in objs(one.status, key)
    }
    for container in (*sidecars, *objs(spec, "containers")):
        yield container, statuses.get(text(container, "name"), {})


def _of_container(
    one: PodView, container: Document, status: Document, rows: Rows, offset_ns: int
) -> Iterator[Probe]:
    id_ = text(status, "containerID").rpartition("://")[2]
    found, tracks = obj(rows.probes.get(id_), "found"), obj(rows.probing.get(id_), "tracks")
    for kind in KINDS:
        spec = obj(container, f"{kind}Probe")
        if not spec:
            continue
        finding, track = obj(found, kind), obj(tracks, kind)
        idle = _idle(one, container, status, kind, finding)
        if not idle and id_ in rows.hooked:
            idle = Idle.HOOK
        due_ns = whole(track, "due_ns")
        verdict = text(finding, "verdict")
        yield Probe(
            pod=one.full,
            uid=one.uid,
            container=text(container, "name"),
            container_id=id_,
            kind=kind,
            handler=action(spec),
            period_seconds=whole(spec, "periodSeconds") or 10,
            success_threshold=whole(spec, "successThreshold") or 1,
            failure_threshold=whole(spec, "failureThreshold") or 3,
            verdict=verdict if verdict in {SUCCESS, FAILURE} else NONE_YET,
            since_ns=whole(finding, "since_ns"),
            streak=whole(track, "streak"),
            failing=flag(track, "failing"),
            last_ns=whole(track, "last_ns"),
            took_ns=whole(track, "took_ns"),
            next_ns=due_ns + offset_ns if due_ns and not idle else 0,
            idle=idle,
            said=text(track, "said"),
            succeeded=whole(track, "succeeded"),
            failed=whole(track, "failed"),
            unknown=whole(track, "unknown"),
        )


def _idle(
    one: PodView, container: Document, status: Document, kind: str, finding: Document
) -> Idle:
    """Return why a probe is not made now, as far as the pod tells (B-5, B-6, B-9)."""
    verdict = text(finding, "verdict")
    if "running" not in obj(status, "state"):
        return Idle.STOPPED
    if one.state != "sync" and kind != "readiness":
        return Idle.ENDING
    if kind == "startup" and verdict == SUCCESS:
        return Idle.STARTED
    if kind != "readiness" and verdict == FAILURE:
        return Idle.FAILED
    waits = kind != "startup" and obj(container, "startupProbe")
    return Idle.STARTUP if waits and not flag(status, "started") else Idle.NO


def action(spec: Document) -> str:
    """Return what a probe does, in a few words."""
    if obj(spec, "exec"):
        return f"exec [{' '.join(texts(obj(spec, 'exec'), 'command'))}]"
    if obj(spec, "httpGet"):
        get = obj(spec, "httpGet")
        path = f"/{text(get, 'path').removeprefix('/')}"
        scheme = (text(get, "scheme") or "HTTP").lower()
        return f"http-get {scheme}://{text(get, 'host')}:{get.get('port')}{path}"
    if obj(spec, "tcpSocket"):
        socket = obj(spec, "tcpSocket")
        return f"tcp-socket {text(socket, 'host')}:{socket.get('port')}"
    if obj(spec, "grpc"):
        grpc = obj(spec, "grpc")
        return f"grpc <pod>:{whole(grpc, 'port')} {text(grpc, 'service')}".rstrip()
    return "unknown"


# --- in words ---


def streak(one: Probe) -> str:
    """Say how many equal results there were in a row."""
    if not one.streak:
        return "-"
    return f"{one.streak} {'failed' if one.failing else 'ok'}"


def due(one: Probe, now_ns: int) -> str:
    """Say in how long the next one is made, or why it is not."""
    if one.idle:
        return f"({one.idle})"
    if not one.next_ns:
        return "-"
    return f"in {age((one.next_ns - now_ns) / 1e9)}" if one.next_ns > now_ns else "now"


def sentences(one: Probe, now_ns: int) -> Iterator[str]:
    """Tell what the last probe said, how many there were like it, and when the next one comes."""
    if one.last_ns:
        yield _last(one, now_ns)
    if one.idle:
        yield _IDLE[Idle(one.idle)]
    elif one.next_ns:
        yield f"next: it is made again {moments.until(one.next_ns, now_ns)}"
    elif not one.last_ns:
        yield "it was not made yet"


def _last(one: Probe, now_ns: int) -> str:
    ago = age((now_ns - one.last_ns) / 1e9)
    took = f", took {short_age(one.took_ns / 1e6)}" if one.took_ns else ""
    said = " ".join(one.said.split())
    return f"the last one was made {ago} ago{took}{_in_a_row(one)}{f': {said}' if said else ''}"


def _in_a_row(one: Probe) -> str:
    """Say how many results were like the last one; fewer than are needed are a part of them."""
    needed = one.failure_threshold if one.failing else one.success_threshold
    if not one.streak:
        return ""
    what, times = "failed" if one.failing else "succeeded", count(one.streak, "time")
    if one.streak < needed:
        times = f"{one.streak} of {needed} times"
    return f", and {what}, {times} in a row"


def brief(one: Probe, now_ns: int) -> str:
    """Return what is known of a probe in one line, for a description; "" for nothing."""
    if not one.last_ns and one.verdict == NONE_YET:
        return ""
    parts = [one.verdict]
    if one.since_ns:
        parts[0] += f" for {age((now_ns - one.since_ns) / 1e9)}"
    if one.streak:
        parts.append(f"{streak(one)} in a row")
    if one.last_ns:
        parts.append(f"last {age((now_ns - one.last_ns) / 1e9)} ago")
    parts.append(f"next {due(one, now_ns)}")
    said = " ".join(one.said.split())
    return ", ".join(parts) + (f": {said}" if said else "")


def about_to_fail(one: Probe) -> str:
    """Tell of a probe that fails, and has not failed often enough to restart its container."""
    restarts = one.kind != "readiness" and one.failing and one.verdict != FAILURE
    if not restarts or not one.streak:
        return ""
    times = count(one.streak, "time")
    said = " ".join(one.said.split())
    return (
        f"the {one.kind} probe of container {one.container} has failed {times} in a row, and with "
        f"{one.failure_threshold} the container is restarted{f'; it said: {said}' if said else ''}"
    )
