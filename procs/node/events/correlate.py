"""Which happenings become events, and which are counted, combined or left out (N-63). Pure.

An identical happening raises the count of the event that is there. One that differs only in its
message from many others becomes part of one event for all of them. And one object may have so
many words and no more: whoever looks at it has seen them by then.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from procs.node.apiserver.types import Reference

SECOND_NS: Final = 1_000_000_000
SIMILAR: Final = 10  # the message that makes it so many different ones is the first to be combined
SIMILAR_NS: Final = 600 * SECOND_NS  # after so long without a similar one they are forgotten
BURST: Final = 25  # events of one object at once,
REFILL_NS: Final = 300 * SECOND_NS  # and one more each five minutes
REMEMBERED: Final = 4096
COMBINED: Final = "(combined from similar events): "
MESSAGE_LIMIT: Final = 1024  # characters, as the API server takes them

V = TypeVar("V")


class Recent(Generic[V]):
    """Values by key; when there are too many, what was used longest ago is forgotten."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._values: OrderedDict[str, V] = OrderedDict()

    def get(self, key: str) -> V | None:
        """Return a value, which counts as use."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: str, value: V) -> None:
        """Remember a value."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._limit:
            self._values.popitem(last=False)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened to an object, ``times`` since it was heard of last."""

    about: Reference
    type: str
    reason: str
    message: str
    first_ns: int  # wall clock
    last_ns: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to become of a happening."""

    key: str  # of the event that it belongs to
    message: str  # that the event then has
    told: bool  # False: there was too much already; it is only counted

    @property
    def combined(self) -> bool:
        """Whether the event stands for similar ones."""
        return self.message.startswith(COMBINED)


@dataclass(slots=True)
class _Similar:
    last_ns: int
    messages: set[str] = field(default_factory=set)  # their digests


@dataclass(slots=True)
class _Tokens:
    left_ns: int  # what is saved up, in time: exact, however often a little is added
    at_ns: int


def digest(*parts: str) -> str:
    """Return a short key for a number of texts."""
    text = "\0".join(parts).encode(errors="surrogatepass")
    return hashlib.blake2b(text, digest_size=9).hexdigest()


def object_key(about: Reference) -> str:
    """Return what an object is known by."""
    return digest(about.kind, about.namespace, about.name, about.uid, about.api_version)


def event_key(happening: Happening) -> str:
    """Return what identical happenings have in common."""
    about, what = happening.about, (happening.type, happening.reason, happening.message)
    return digest(object_key(about), about.field_path, *what)


def similar_key(about: Reference, type_: str, reason: str) -> str:
    """Return what happenings have in common that differ in their message alone."""
    return digest(object_key(about), type_, reason)


class Correlator:
    """Remembers how much was said. The caller says what time it is, by a clock without jumps."""

    def __init__(self) -> None:
        self._similar: Recent[_Similar] = Recent()
        self._tokens: Recent[_Tokens] = Recent()

    def judge(self, happening: Happening, now_ns: int) -> Verdict:
        """Return what is to become of a happening."""
        key, message = self._place(happening, now_ns)
        return Verdict(key, message, self._allowed(object_key(happening.about), now_ns))

    def remember(self, similar: str, message: str, at_ns: int) -> None:
        """Take that a predecessor told something, by the digest of its message."""
        found = self._record(similar, at_ns)
        if len(found.messages) + 1 < SIMILAR:
            found.messages.add(message)

    def _place(self, happening: Happening, now_ns: int) -> tuple[str, str]:
        shared = similar_key(happening.about, happening.type, happening.reason)
        found = self._record(shared, now_ns)
        message = digest(happening.message)
        if message not in found.messages and len(found.messages) + 1 >= SIMILAR:
            return shared, (COMBINED + happening.message)[:MESSAGE_LIMIT]
        found.messages.add(message)
        return event_key(happening), happening.message

    def _record(self, key: str, now_ns: int) -> _Similar:
        found = self._similar.get(key)
        if found is None or now_ns - found.last_ns > SIMILAR_NS:
            found = _Similar(now_ns)
            self._similar.put(key, found)
        found.last_ns = max(found.last_ns, now_ns)
        return found

    def _allowed(self, key: str, now_ns: int) -> bool:
        found = self._tokens.get(key)
        if found is None:
            found = _Tokens(BURST * REFILL_NS, now_ns)
            self._tokens.put(key, found)
        gained = max(0, now_ns - found.at_ns)
        found.left_ns = min(BURST * REFILL_NS, found.left_ns + gained)
        found.at_ns = max(found.at_ns, now_ns)
        if found.left_ns < REFILL_NS:
            return False
        found.left_ns -= REFILL_NS
        return True
