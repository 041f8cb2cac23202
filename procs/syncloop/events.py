"""Events of pods: what a person looks for first when a pod does not run.

Alike events are counted, not repeated. They live in table ``events``, so that a death of this
process loses none, and in the recorder, so that ``kubeletctl trace`` shows them in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kubelet import logging as klog
from kubelet.api.pod import Pod
from kubelet.pods.rows import EVENTS, SOURCES_KEY, Event, EventsRow
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process

log = klog.get_logger(__name__)

# Called with pod, type, reason, message and the container's name or "".
Emit = Callable[[Pod, str, str, str, str], None]

# Called with pod, reason, the container's name and a moment: whether it was noted since then.
Said = Callable[[Pod, str, str, int], bool]

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
KEPT: Final = 40  # events of one pod; the oldest go first
_MESSAGE_LIMIT: Final = 1024  # as the API server takes it


def field_path(pod: Pod, container: str) -> str:
    """Return where in the spec a container stands, as events name it."""
    if not container:
        return ""
    spec = pod.spec
    for where, among in (
        ("initContainers", spec.init_containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        if any(c.name == container for c in among):
            return f"spec.{where}{{{container}}}"
    return f"spec.containers{{{container}}}"


def added(events: tuple[Event, ...], new: Event) -> tuple[Event, ...]:
    """Return the events with one more: an alike one is counted and moves to the end."""
    same = (new.type, new.reason, new.message, new.field_path)
    for index, old in enumerate(events):
        if (old.type, old.reason, old.message, old.field_path) == same:
            counted = replace(old, count=old.count + 1, last_ns=new.last_ns)
            return (*events[:index], *events[index + 1 :], counted)
    return (*events, new)[-KEPT:]


class Events:
    """Writes events."""

    def __init__(self, process: Process, wall: Callable[[], int]) -> None:
        self._process = process
        self._wall = wall
        self._rows: dict[str, EventsRow] = {}

    def load(self) -> None:
        """Read what a predecessor left."""
        for key, value in self._process.tables.items(EVENTS):
            if key == SOURCES_KEY:
                continue
            try:
                self._rows[key] = EventsRow.from_wire(value)
            except BadRecordError as err:
                log.error("Events of a pod cannot be read and are forgotten", pod=key, err=err)
                self._process.delete(EVENTS, key)

    def emit(self, pod: Pod, kind: str, reason: str, message: str, container: str = "") -> None:
        """Note an event."""
        now = self._wall()
        message = message[:_MESSAGE_LIMIT]
        event = Event(kind, reason, message, field_path(pod, container), 1, now, now)
        row = self._rows.get(pod.uid) or EventsRow(pod.uid, pod.name, pod.namespace)
        row = replace(row, events=added(row.events, event))
        self._rows[pod.uid] = row
        self._process.put(EVENTS, pod.uid, row.to_wire())
        self._process.record("event", f"{reason}: {message}", pod.uid)
        log.v(2, "Event", pod=str(pod), type=kind, reason=reason, text=message)

    def said(self, pod: Pod, reason: str, container: str, since_ns: int) -> bool:
        """Tell whether an event of a container was noted since a moment, by whoever it was."""
        row, path = self._rows.get(pod.uid), field_path(pod, container)
        events = row.events if row is not None else ()
        return any(
            event.reason == reason and event.field_path == path and event.last_ns >= since_ns
            for event in events
        )

    def forget(self, known: set[str]) -> None:
        """Drop the events of pods that nobody knows any more."""
        for uid in [uid for uid in self._rows if uid not in known]:
            del self._rows[uid]
            self._process.delete(EVENTS, uid)
