"""Which happenings become events, by table (N-63)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubelet.pods.rows import Event
from procs.node.apiserver.types import Reference
from procs.node.events import book as books
from procs.node.events.book import KEPT, Book, Seen, book_of, entered, more_of
from procs.node.events.correlate import COMBINED, Correlator, Happening, Recent
from procs.node.events.documents import collection, document, name_of, repetition, timestamp

S = 1_000_000_000
POD = Reference("Pod", "web", "shop", "u1")
T0 = 1_700_000_000 * S


def happening(message="m", about=POD, *, reason="BackOff", type_="Warning", at=0.0, times=1):
    at_ns = T0 + int(at * S)
    return Happening(about, type_, reason, message, at_ns, at_ns, times)


def judged(messages, apart, **more):
    """Judge messages that come so many seconds apart: what each event then says, or None."""
    correlator = Correlator()
    found = []
    for index, message in enumerate(messages):
        verdict = correlator.judge(happening(message, **more), int(index * apart * S))
        found.append(verdict.message if verdict.told else None)
    return found


@pytest.mark.parametrize(
    ("messages", "apart", "said"),
    [
        (["a"] * 12, 1, ["a"] * 12),  # identical ones are not similar ones
        (list("abcdefghi"), 1, list("abcdefghi")),
        (list("abcdefghijk"), 1, [*"abcdefghi", f"{COMBINED}j", f"{COMBINED}k"]),
        # What is known by its own event stays there; a tenth message does not become known.
        ([*"abcdefghij", "a", "j"], 1, [*"abcdefghi", f"{COMBINED}j", "a", f"{COMBINED}j"]),
        (list("abcdefghijk"), 600, [*"abcdefghi", f"{COMBINED}j", f"{COMBINED}k"]),  # not later
        (list("abcdefghijk"), 601, list("abcdefghijk")),  # forgotten in between
    ],
)
def test_similar_events_are_combined(messages, apart, said):
    """The tenth message that differs within ten minutes is the first to be combined."""
    assert judged(messages, apart) == said


@pytest.mark.parametrize(
    ("count", "apart", "told"),
    [
        (40, 0, [*range(25)]),  # a burst, and then nothing
        (40, 299, [*range(40)]),  # as slowly as it is refilled, more or less
        (60, 30, [*range(27), 30, 40, 50]),  # a tenth of a token each
    ],
)
def test_one_object_has_so_many_words(count, apart, told):
    """25 at once, and one more each five minutes."""
    said = judged(["m"] * count, apart)
    assert [index for index, found in enumerate(said) if found] == told


def test_each_object_has_its_own_words():
    """A pod that talks too much does not silence another, nor one that follows it by name."""
    correlator = Correlator()
    for _ in range(30):
        correlator.judge(happening(), 0)
    assert not correlator.judge(happening(reason="Other"), 0).told
    assert correlator.judge(happening(about=replace(POD, name="other")), 0).told
    assert correlator.judge(happening(about=replace(POD, uid="u2")), 0).told
    assert not correlator.judge(happening(about=replace(POD, field_path="x")), 0).told


@pytest.mark.parametrize(
    "other",
    [
        happening("n"),
        happening(reason="Failed"),
        happening(type_="Normal"),
        happening(about=replace(POD, field_path="spec.containers{c}")),
        happening(about=replace(POD, uid="u2")),
        happening(about=replace(POD, kind="Node")),
        happening("BackOff", reason="m"),
    ],
)
def test_what_makes_events_different(other):
    """Each of these is an event of its own."""
    correlator = Correlator()
    assert correlator.judge(happening(), 0).key != correlator.judge(other, 0).key
    assert correlator.judge(happening(at=5), 0).key == correlator.judge(happening(), 0).key


def test_containers_with_one_message_are_not_similar():
    """The same message about many containers is one message."""
    correlator = Correlator()
    for n in range(12):
        about = replace(POD, field_path=f"spec.containers{{c{n}}}")
        assert correlator.judge(happening(about=about), 0).message == "m"


def test_what_a_predecessor_said_counts_as_similar():
    """A successor goes on combining."""
    before, after = Correlator(), Correlator()
    book = book_of(POD)
    for message in "abcdefghi":
        found = happening(message)
        book = entered(book, found, before.judge(found, 0))
    shared = before.judge(happening("j"), 0).key
    for entry in book.events.values():
        after.remember(shared, entry.said, 0)
    assert after.judge(happening("k"), 0).message == f"{COMBINED}k"
    assert after.judge(happening("c"), 0).message == "c"


def test_a_clock_that_goes_back_gives_no_words():
    """Nothing is gained by a jump."""
    correlator = Correlator()
    for _ in range(25):
        assert correlator.judge(happening(), 1000 * S).told
    assert not correlator.judge(happening(), 0).told


def test_a_long_message_is_cut():
    """The prefix does not make a message longer than the API takes."""
    said = judged([f"{n}" + "x" * 1023 for n in range(10)], 0)
    assert len(said[9]) == 1024


def test_what_is_remembered_is_bounded():
    """What was used longest ago is forgotten first."""
    recent = Recent(3)
    for key in "abc":
        recent.put(key, key)
    assert recent.get("a") == "a"
    recent.put("d", "d")
    assert (len(recent), recent.get("b"), recent.get("a")) == (3, None, "a")


# The book.


def booked(*happenings, correlator=None):
    correlator = correlator or Correlator()
    book = book_of(POD)
    for found in happenings:
        book = entered(book, found, correlator.judge(found, 0))
    return book


def only(book):
    ((key, entry),) = book.events.items()
    return key, entry


def test_repetitions_are_counted():
    """An identical happening raises the count and the last time; the first stays."""
    _, entry = only(booked(happening(), happening(at=7), happening(at=9, times=3)))
    assert (entry.count, entry.first_ns, entry.last_ns) == (5, T0, T0 + 9 * S)
    assert (entry.name_ns, entry.due, entry.there) == (T0, True, False)


def test_what_is_not_told_is_counted_with_the_next_that_is():
    """A count says how often it happened, not how often that was told."""
    correlator = Correlator()
    book = booked(*[happening()] * 25, correlator=correlator)
    key, entry = only(book)
    book = books.told(book, key, entry)
    for _ in range(5):
        book = entered(book, happening(), correlator.judge(happening(), 0))
    assert book.due == ()
    book = entered(book, happening(), correlator.judge(happening(), 300 * S))
    assert (only(book)[1].count, book.due) == (31, (key,))


def test_told_is_told_unless_it_happened_again_meanwhile():
    """An event that was counted on while it was sent is still to be told."""
    before = booked(happening())
    key, sent = only(before)
    after = books.told(before, key, sent)
    assert (after.due, only(after)[1].message, only(after)[1].there) == ((), "", True)
    again = entered(before, happening(at=1), Correlator().judge(happening(), 0))
    again = books.told(again, key, sent)
    assert (again.due, only(again)[1].message, only(again)[1].count) == ((key,), "m", 2)


def test_names_within_a_book_differ():
    """Two events of one moment have two names."""
    book = booked(happening("a"), happening("b"), happening("c"))
    assert [e.name_ns - T0 for e in book.events.values()] == [0, 1, 2]


def test_a_book_is_bounded_but_loses_nothing_that_is_due():
    """The oldest that were told go first."""
    correlator = Correlator()
    book = Book("Pod", "web", "shop", "u1")
    for n in range(KEPT + 20):
        found = happening("m", reason=f"R{n}")
        book = entered(book, found, correlator.judge(found, 0))
    assert len(book.events) == KEPT
    assert len(book.due) == 25
    assert [e.reason for e in book.events.values()][:26] == [*(f"R{n}" for n in range(25)), "R45"]


def test_a_book_survives():
    """What is read back is what was written."""
    correlator = Correlator()
    book = booked(*[happening(m) for m in "abcdefghijkl"], correlator=correlator)
    key = next(iter(book.events))
    book = books.told(book, key, book.events[key])
    book = replace(book, seen={"k": Seen(1, 2)})
    assert Book.from_wire(book.to_wire()) == book


@pytest.mark.parametrize(
    ("event", "seen", "times"),
    [
        (Event("N", "r", "m", count=3, first_ns=1), None, 3),
        (Event("N", "r", "m", count=3, first_ns=1), Seen(1, 3), 0),
        (Event("N", "r", "m", count=5, first_ns=1), Seen(1, 3), 2),
        (Event("N", "r", "m", count=2, first_ns=9), Seen(1, 3), 2),  # forgotten in between
        (Event("N", "r", "m", count=2, first_ns=1), Seen(1, 3), 0),
    ],
)
def test_what_is_new_in_a_row(event, seen, times):
    """Only what has happened since it was looked at last is new."""
    assert more_of(event, seen) == times


# Documents.


def test_a_new_event():
    """An event says who saw what where, and when, as kubectl shows it (N-63, Appendix A)."""
    about = replace(POD, field_path="spec.containers{c}")
    _, entry = only(booked(happening(about=about, times=2)))
    assert document(POD, entry, "n1") == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"web.{T0:x}", "namespace": "shop"},
        "involvedObject": {
            "kind": "Pod",
            "namespace": "shop",
            "name": "web",
            "uid": "u1",
            "apiVersion": "v1",
            "fieldPath": "spec.containers{c}",
        },
        "reason": "BackOff",
        "message": "m",
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2023-11-14T22:13:20Z",
        "lastTimestamp": "2023-11-14T22:13:20Z",
        "count": 2,
        "type": "Warning",
        "eventTime": None,
        "reportingComponent": "kubelet",
        "reportingInstance": "n1",
    }


def test_a_repetition_is_a_patch():
    """Count, last time and message are what changes."""
    _, entry = only(booked(happening(), happening(at=61)))
    assert repetition(entry) == {
        "count": 2,
        "lastTimestamp": "2023-11-14T22:14:21Z",
        "message": "m",
    }


def test_events_of_nodes_are_in_the_default_namespace():
    """A node has no namespace; its events need one."""
    node = Reference("Node", "n1", uid="n1")
    _, entry = only(booked(happening(about=node)))
    found = document(node, entry, "n1")
    assert collection(node) == "/api/v1/namespaces/default/events"
    assert found["metadata"]["namespace"] == "default"
    assert "namespace" not in found["involvedObject"]


def test_a_name_is_never_too_long():
    """A pod's name may be as long as an event's; it must still be a good name."""
    name = name_of(replace(POD, name="a" * 234 + "-.-" + "b" * 16), T0)
    assert name == "a" * 234 + f".{T0:x}"
    assert timestamp(0) == "1970-01-01T00:00:00Z"
