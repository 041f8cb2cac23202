"""What is to be told, kept in the ledger: one book for each object, and the order of what waits.

What a book holds is there before anybody is told anything, so a death loses nothing and repeats
nothing. At most a thousand events wait. What comes then is dropped and counted, as elsewhere; a
pod's come from a table, where they stay until there is room.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from kubelet import logging as klog
from kubelet.pods.rows import Event, EventsRow
from kubelet.pods.wire import BadRecordError
from procs.node.apiserver.types import Reference
from procs.node.events import book as books
from procs.node.events.book import Book, Entry, Seen, book_of, more_of
from procs.node.events.correlate import (
    SIMILAR_NS,
    Correlator,
    Happening,
    event_key,
    object_key,
    similar_key,
)
from procs.node.events.sink import LIFE_NS
from procs.node.ledger import Ledger

log = klog.get_logger(__name__)

PART: Final = "events"  # of the ledger
WAITING: Final = 1000  # events
BOOKS: Final = 4096  # as many objects are remembered (N-63)
FORGET_NS: Final = SIMILAR_NS  # a book that says nothing new for so long may go


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event that is to be told, as it was when it was given out."""

    place: str
    key: str
    about: Reference
    entry: Entry
    tries: int  # so far


class Desk:
    """The books, and what waits."""

    def __init__(
        self,
        ledger: Ledger,
        wall: Callable[[], int] = time.time_ns,
        clock: Callable[[], int] = time.monotonic_ns,
        limit: int = WAITING,
    ) -> None:
        self._ledger = ledger
        self._wall = wall
        self._clock = clock
        self._limit = limit
        self._correlator = Correlator()
        self._books: OrderedDict[str, Book] = OrderedDict()  # by place in the ledger
        self._due: OrderedDict[tuple[str, str], int] = OrderedDict()  # place, key -> tries
        self._pruned_ns = clock()
        self.dropped = 0  # because too many waited
        self.spared = 0  # because there was too much of one object

    @property
    def waiting(self) -> int:
        """How many events wait."""
        return len(self._due)

    @property
    def full(self) -> bool:
        """Whether no more may wait."""
        return len(self._due) >= self._limit

    def load(self) -> None:
        """Take over what a predecessor left."""
        for place, value in list(self._ledger.items(PART)):
            try:
                book = Book.from_wire(value)
            except BadRecordError as err:
                log.warning("Events of an object cannot be read and are forgotten", err=err)
                self._ledger.delete(f"{PART}/{place}")
                continue
            self._books[place] = book
            for key in book.due:
                self._due[place, key] = 0
            self._remember(book)

    def _remember(self, book: Book) -> None:
        wall_ns, now_ns = self._wall(), self._clock()
        for entry in book.events.values():
            age_ns = max(0, wall_ns - entry.last_ns)
            if entry.said and age_ns <= SIMILAR_NS:
                shared = similar_key(book.about, entry.type, entry.reason)
                self._correlator.remember(shared, entry.said, now_ns - age_ns)

    # What comes in.

    def take(self, happening: Happening) -> bool:
        """Take a happening, each of a moment once; False if there is no room for it."""
        place = _place(happening.about)
        book = self._books.get(place) or book_of(happening.about)
        known = book.events.get(event_key(happening))
        if known is not None and known.last_ns == happening.last_ns:
            return True
        if self.full:
            self.dropped += 1
            return False
        self._write(place, self._entered(place, book, happening))
        return True

    def take_row(self, row: EventsRow) -> bool:
        """Take what is new in a pod's row; False if there is no room for it now."""
        place = row.uid
        book = self._books.get(place) or Book("Pod", row.name, row.namespace, row.uid)
        seen: dict[str, Seen] = {}
        news: list[Happening] = []
        for event in row.events:
            happening = _happening(book.about, event)
            key = event_key(happening)
            seen[key] = Seen(event.first_ns, event.count)
            times = more_of(event, book.seen.get(key))
            # What the API server would have thrown away by now is no news.
            if times and self._wall() - event.last_ns < LIFE_NS:
                news.append(replace(happening, times=times))
        if news and self.full:
            return False
        for happening in news:
            book = self._entered(place, book, happening)
        if news or seen != book.seen:
            self._write(place, replace(book, seen=seen))
        return True

    def _entered(self, place: str, book: Book, happening: Happening) -> Book:
        verdict = self._correlator.judge(happening, self._clock())
        book = books.entered(book, happening, verdict)
        if verdict.told:
            self._due.setdefault((place, verdict.key), 0)
        else:
            self.spared += 1
            log.v(3, "Event is too much", object=book.name, reason=happening.reason)
        return book

    # What goes out.

    def next(self) -> Waiting | None:
        """Return what waits longest."""
        while self._due:
            (place, key), tries = next(iter(self._due.items()))
            book = self._books[place]
            entry = book.events.get(key)
            if entry is not None and entry.due:
                return Waiting(place, key, book.about, entry, tries)
            del self._due[place, key]
        return None

    def told(self, found: Waiting) -> None:
        """Take that the API server has an event as it was given out."""
        place, key = found.place, found.key
        book = books.told(self._books[place], key, found.entry)
        del self._due[place, key]
        if book.events[key].due:  # it has happened again meanwhile
            self._due[place, key] = 0
        self._write(place, book)

    def failed(self, found: Waiting) -> None:
        """Take that an event could not be told; others come first now."""
        self._due[found.place, found.key] += 1
        self._due.move_to_end((found.place, found.key))

    def give_up(self, found: Waiting) -> None:
        """Take that an event will not be told."""
        del self._due[found.place, found.key]
        self._write(found.place, books.given_up(self._books[found.place], found.key))

    # Keeping.

    def prune(self, rows: Callable[[], set[str]]) -> None:
        """Now and then, forget what nobody can need: ``rows`` are the pods of the table."""
        now_ns = self._clock()
        if now_ns - self._pruned_ns < FORGET_NS and len(self._books) <= BOOKS:
            return
        self._pruned_ns = now_ns
        held, wall_ns = rows(), self._wall()
        idle = [p for p, book in self._books.items() if p not in held and not book.due]
        excess = len(self._books) - BOOKS
        for index, place in enumerate(idle):
            if index < excess or wall_ns - self._books[place].last_ns > FORGET_NS:
                del self._books[place]
                self._ledger.delete(f"{PART}/{place}")

    def _write(self, place: str, book: Book) -> None:
        self._books[place] = book
        self._books.move_to_end(place)
        self._ledger.put(f"{PART}/{place}", book.to_wire())


def _place(about: Reference) -> str:
    """Return where the book of an object is; a pod's under its UID, beside what its row says."""
    return about.uid if about.kind == "Pod" and about.uid else object_key(about)


def _happening(about: Reference, event: Event) -> Happening:
    about = replace(about, field_path=event.field_path)
    return Happening(
        about, event.type, event.reason, event.message, event.first_ns, event.last_ns, event.count
    )
