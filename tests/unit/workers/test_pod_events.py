"""Events of pods: alike ones are counted, and there is an end to how many are kept."""

from __future__ import annotations

from kubelet.api.container import Container, EphemeralContainer
from kubelet.api.pod import Pod, PodSpec
from kubelet.pods.rows import Event
from procs.syncloop.events import KEPT, added, field_path


def event(reason: str, at: int, message: str = "m") -> Event:
    return Event("Normal", reason, message, "", 1, at, at)


def test_alike_events_are_counted_and_move_to_the_end():
    """Type, reason, message and container make an event; the same again is counted."""
    events = added(added(added((), event("A", 1)), event("B", 2)), event("A", 3))
    assert [(e.reason, e.count, e.first_ns, e.last_ns) for e in events] == [
        ("B", 1, 2, 2),
        ("A", 2, 1, 3),
    ]


def test_oldest_events_go_first():
    """No pod keeps more than its share."""
    events: tuple[Event, ...] = ()
    for number in range(KEPT + 5):
        events = added(events, event(f"R{number}", number))
    assert len(events) == KEPT
    assert events[0].reason == "R5"


def test_field_path_names_the_kind_of_container():
    """Appendix A: events of a container point at its place in the spec."""
    spec = PodSpec(
        containers=(Container(name="a"),),
        init_containers=(Container(name="b"),),
        ephemeral_containers=(EphemeralContainer(name="e"),),
    )
    pod = Pod(spec=spec)
    assert field_path(pod, "a") == "spec.containers{a}"
    assert field_path(pod, "b") == "spec.initContainers{b}"
    assert field_path(pod, "e") == "spec.ephemeralContainers{e}"
    assert field_path(pod, "") == ""
