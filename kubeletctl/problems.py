"""What is wrong, in sentences that name the thing and since when. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from kubeletctl import cluster
from kubeletctl.fields import obj, texts
from kubeletctl.snapshot import GONE, ProcessView, Snapshot
from kubeletctl.state import ProcessState
from kubeletctl.words import age, local_time

LAG_HIGH_MS: Final = 250.0
OVERDUE: Final = 0.5  # of the time-out after which the supervisor acts
STOPPED_BY_SIGNAL: Final = "tT"


class Weight(Enum):
    """What a sentence is about.

    A kubelet whose runtime is down is not unhealthy itself: who restarted it for that would only
    add to the trouble. It is a problem all the same.
    """

    OWN = "own"  # something is wrong with the kubelet: not healthy
    DEPENDENCY = "dependency"  # something is wrong with what it depends on
    NOTE = "note"  # worth knowing


class Problem(NamedTuple):
    """One sentence."""

    text: str
    weight: Weight = Weight.OWN


def find(  # noqa: PLR0913 - by name, once
    snapshot: Snapshot,
    tables: Sequence[str] = (),
    *,
    closed: bool = False,
    runtime: str | None = None,
    sources: object = None,
    connection: object = None,
) -> tuple[Problem, ...]:
    """Return all that is wrong, the worst first.

    ``tables`` are sentences about tables; ``closed`` says that they may not be read by this user;
    ``runtime`` says what is wrong with the container runtime; ``sources`` is the row about the
    sources of pods, ``connection`` that about the API server.
    """
    notes = [*snapshot.state.notes, *_undelivered(sources)]
    if closed:
        notes.append("pods and tables are not shown: only root may read them")
    return (
        *(Problem(text) for text in _whole(snapshot)),
        *(Problem(text) for text in snapshot.state.problems),
        *(Problem(text) for text in _processes(snapshot)),
        *(Problem(text) for text in _quarantine(snapshot)),
        *(Problem(text) for text in tables),
        *([Problem(runtime, Weight.DEPENDENCY)] if runtime else ()),
        *(Problem(text, Weight.DEPENDENCY) for text in texts(sources, "problems")),
        *(
            Problem(text, Weight.DEPENDENCY)
            for text in cluster.problems(connection, snapshot.now_unix)
        ),
        *(Problem(text, Weight.NOTE) for text in notes),
    )


def _undelivered(sources: object) -> Iterator[str]:
    """Tell which sources of pods have not given theirs yet: until then nothing is cleaned up."""
    for name, given in obj(sources, "delivered").items():
        if given is False:
            yield f"source {name} has not given its pods yet"


def healthy(problems: Sequence[Problem]) -> bool:
    """Whether nothing is wrong with the kubelet itself."""
    return not any(problem.weight is Weight.OWN for problem in problems)


def _whole(snapshot: Snapshot) -> Iterator[str]:
    state, up = snapshot.state, age(snapshot.uptime_seconds)
    if state.phase != "running":
        yield f"the kubelet is {state.phase} (up since {up})"
    elif not state.ready:
        yield f"the kubelet is not ready, {up} after its start"


def _processes(snapshot: Snapshot) -> Iterator[str]:
    known = {one.name: one for one in snapshot.state.processes}
    for view in snapshot.processes:
        text = _down(view, known.get(view.name), snapshot)
        if text:
            yield text
        else:
            yield from _slow(view, snapshot)


def _down(view: ProcessView, process: ProcessState | None, snapshot: Snapshot) -> str | None:
    """Return what is wrong with a process that does not run, None if it does."""
    if view.state == GONE:
        return f"{view.name}: pid {view.pid} is gone, and the supervisor has not noticed"
    if view.state == "running" or process is None:  # the supervisor's own phase is told above
        return None
    ended = f": {view.last_exit}" if view.last_exit else ""
    who = f"{view.name} (pid {view.pid})"
    wait = age((process.next_start_ns - snapshot.now_ns) / 1e9)
    sentences = {
        "backoff": f"{view.name} is down{ended}; it is started again in {wait}",
        "starting": f"{who} is starting since {age(view.uptime_seconds)}"
        + (f"; before that{ended}" if ended else ""),
        "hung": f"{who} hangs and is being replaced{_doing(view)}",
        "stopping": f"{who} is being ended{_doing(view)}",
        "killed": f"{who} is being killed{_doing(view)}",
        "stopped": f"{view.name} is stopped{ended}",
    }
    return sentences.get(view.state, f"{view.name} is {view.state}{ended}")


def _slow(view: ProcessView, snapshot: Snapshot) -> Iterator[str]:
    """Tell what is wrong with a process that runs."""
    timeout = snapshot.state.heartbeat_timeout_ms
    if snapshot.kernel_states.get(view.name, "") in tuple(STOPPED_BY_SIGNAL):
        beat = age((view.heartbeat_age_ms or 0) / 1000)
        yield (
            f"{view.name} (pid {view.pid}) is stopped by a signal or a debugger; "
            f"its last heartbeat was {beat} ago"
        )
    elif view.heartbeat_age_ms is None:
        if view.state == "running":
            yield (
                f"{view.name} (pid {view.pid}) has given no sign of life "
                f"{age(view.uptime_seconds)} after its start"
            )
    elif view.heartbeat_age_ms > OVERDUE * timeout:
        yield (
            f"{view.name} (pid {view.pid}) has had no heartbeat for "
            f"{age(view.heartbeat_age_ms / 1000)}{_doing(view)}; "
            f"the time-out is {age(timeout / 1000)}"
        )
    if view.loop_lag_ms is not None and view.loop_lag_ms >= LAG_HIGH_MS:
        beat = age((view.heartbeat_age_ms or 0) / 1000)
        yield (
            f"{view.name} (pid {view.pid}) is slow: at its last heartbeat, {beat} ago, its event "
            f"loop was {view.loop_lag_ms:.0f} ms late{_doing(view)}"
        )


def _doing(view: ProcessView) -> str:
    if not view.operation:
        return ""
    return f", in {view.operation} since {age((view.operation_age_ms or 0) / 1000)}"


def _quarantine(snapshot: Snapshot) -> Iterator[str]:
    for case in snapshot.state.quarantine:
        yield (
            f"pod {case.pod} is left alone since {local_time(case.since_unix)} "
            f"({age(snapshot.now_unix - case.since_unix)} ago): handling it killed {case.kind} "
            f"{case.deaths} times; 'kubeletctl release {case.pod}' tries again"
        )
