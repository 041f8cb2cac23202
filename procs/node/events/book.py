"""The events of one object as they are to be, and how much of that the API server has. Pure.

An event is told by bringing the API server to what stands here. So a happening that comes while
another waits is not queued behind it but counted with it, and whoever dies in the middle of a call
leaves a successor that makes the same call again, with the same name and the same count.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from kubelet.pods.rows import Event
from kubelet.pods.wire import Record
from procs.node.apiserver.types import Reference
from procs.node.events.correlate import Happening, Verdict, digest

KEPT: Final = 64  # events of one object; those that are told and were not heard of longest go


@dataclass(frozen=True, slots=True)
class Entry:
    """One event."""

    type: str
    reason: str
    name_ns: int  # what its name is made of
    first_ns: int  # wall clock
    last_ns: int
    count: int
    field_path: str = ""
    said: str = ""  # digest of the message; "" for one that stands for similar ones
    message: str = ""  # kept until it is told
    there: bool = False  # the API server has it, with an older count perhaps
    due: bool = False  # the API server is to be told


@dataclass(frozen=True, slots=True)
class Seen:
    """How much of an event of table ``events`` was taken over."""

    first_ns: int
    count: int


@dataclass(frozen=True, slots=True)
class Book(Record):
    """The events of one object."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"
    events: dict[str, Entry] = field(default_factory=dict)  # by key, last heard of last
    seen: dict[str, Seen] = field(default_factory=dict)  # by key, of what a table holds

    @property
    def about(self) -> Reference:
        """The object."""
        return Reference(self.kind, self.name, self.namespace, self.uid, self.api_version)

    @property
    def due(self) -> tuple[str, ...]:
        """The keys of what is still to be told."""
        return tuple(key for key, entry in self.events.items() if entry.due)

    @property
    def last_ns(self) -> int:
        """When something was last heard of the object."""
        return max((entry.last_ns for entry in self.events.values()), default=0)


def book_of(about: Reference) -> Book:
    """Return an empty book for an object."""
    return Book(about.kind, about.name, about.namespace, about.uid, about.api_version)


def entered(book: Book, happening: Happening, verdict: Verdict) -> Book:
    """Return the book with a happening in it."""
    events = dict(book.events)
    old = events.pop(verdict.key, None)
    if old is None:
        entry = _begun(events, happening, verdict)
    else:
        entry = replace(
            old,
            count=old.count + happening.times,
            last_ns=max(old.last_ns, happening.last_ns),
            message=verdict.message,
            due=old.due or verdict.told,
        )
    events[verdict.key] = entry
    return replace(book, events=_bounded(events))


def _begun(events: dict[str, Entry], happening: Happening, verdict: Verdict) -> Entry:
    first_ns = happening.last_ns if verdict.combined else happening.first_ns
    name_ns = first_ns
    taken = {entry.name_ns for entry in events.values()}
    while name_ns in taken:
        name_ns += 1
    return Entry(
        happening.type,
        happening.reason,
        name_ns,
        first_ns,
        happening.last_ns,
        happening.times,
        "" if verdict.combined else happening.about.field_path,
        "" if verdict.combined else digest(happening.message),
        verdict.message,
        due=verdict.told,
    )


def _bounded(events: dict[str, Entry]) -> dict[str, Entry]:
    excess = max(0, len(events) - KEPT)
    for key in [key for key, entry in events.items() if not entry.due][:excess]:
        del events[key]
    return events


def told(book: Book, key: str, entry: Entry) -> Book:
    """Return the book after the API server has an entry as it was when it was sent."""
    now = book.events.get(key)
    if now is None:
        return book
    settled = (now.count, now.last_ns) == (entry.count, entry.last_ns)
    now = replace(now, there=True, due=not settled, message="" if settled else now.message)
    return replace(book, events={**book.events, key: now})


def given_up(book: Book, key: str) -> Book:
    """Return the book without an event that the API server will not have."""
    return replace(book, events={k: e for k, e in book.events.items() if k != key})


def more_of(event: Event, seen: Seen | None) -> int:
    """Return how often an event of a table has happened since it was taken over last.

    Another beginning means that the table had forgotten it meanwhile.
    """
    if seen is None or seen.first_ns != event.first_ns:
        return event.count
    return max(0, event.count - seen.count)
