"""The bytes on the channels: MessagePack arrays, one frame per message.

A request, reply or error is ``[schema, sort, name, id, deadline_ns, body]``; a hint is its topic
(the table's name and a NUL) followed by ``[schema, table, key, generation, epoch, number]``, in
one frame, because a message of one part is either there or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgpack

from kubelet.channels.errors import ErrorKind
from kubelet.channels.schema import as_map

MAX_FRAME: Final = 1 << 20
HINT_SCHEMA: Final = 1
ANY_KEY: Final = "*"

REQUEST: Final = "request"
REPLY: Final = "reply"
ERROR: Final = "error"

_packer = msgpack.Packer(default=as_map)
# What msgpack raises on bad input; it is the caller's to count, never a reason to die.
_BAD_INPUT: Final = (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException)


class GarbageError(Exception):
    """Bytes that are no message; ``id`` is set if at least that could be read."""

    def __init__(self, text: str, id_: int | None = None) -> None:
        super().__init__(text)
        self.id = id_


class Envelope(NamedTuple):
    """A message whose body has not been looked at yet."""

    schema: int
    sort: str
    name: str
    id: int
    deadline_ns: int
    body: object


@dataclass(frozen=True, slots=True)
class Hint:
    """A table changed at a key, or, with key ``*``, perhaps anywhere."""

    table: str
    key: str
    generation: int


@dataclass(frozen=True, slots=True)
class NumberedHint:
    """A hint with its place among those of one publisher's life."""

    hint: Hint
    epoch: int  # when the publisher started: differs from one life to the next
    number: int


def encode(envelope: Envelope) -> bytes:
    """Make the frame of a message; its body may be a dataclass."""
    return _pack(list(envelope))


def encode_error(name: str, id_: int, kind: ErrorKind, text: str) -> bytes:
    """Make the frame of an error reply."""
    return _pack([1, ERROR, name, id_, 0, {"kind": kind.value, "text": text[:4096]}])


def decode(frame: bytes) -> Envelope:
    """Read a frame up to its body, or raise GarbageError."""
    fields = _unpack(frame)
    if not isinstance(fields, list):
        raise GarbageError("not an array")
    id_ = fields[3] if len(fields) > 3 and type(fields[3]) is int else None
    if len(fields) != 6:
        raise GarbageError(f"{len(fields)} elements instead of 6", id_)
    schema, sort, name, _, deadline, body = fields
    if id_ is None or type(schema) is not int or type(deadline) is not int:
        raise GarbageError("schema, id and deadline must be integers", id_)
    if sort not in (REQUEST, REPLY, ERROR) or type(name) is not str:
        raise GarbageError("sort or name is not what it can be", id_)
    return Envelope(schema, sort, name, id_, deadline, body)


def decode_error(body: object) -> tuple[ErrorKind, str]:
    """Read the body of an error reply, or raise GarbageError."""
    if isinstance(body, dict) and isinstance(body.get("text"), str):
        for kind in ErrorKind:
            if kind.value == body.get("kind"):
                return kind, body["text"]
    raise GarbageError("not an error's body")


def topic(table: str) -> bytes:
    """Name what a reader of a table subscribes to; the NUL keeps pods from matching podsets."""
    return table.encode() + b"\0"


def encode_hint(numbered: NumberedHint) -> bytes:
    """Make the frame of a hint."""
    h = numbered.hint
    fields = [HINT_SCHEMA, h.table, h.key, h.generation, numbered.epoch, numbered.number]
    return topic(h.table) + _pack(fields)


def decode_hint(frame: bytes) -> NumberedHint:
    """Read a hint, or raise GarbageError."""
    name, nul, payload = frame.partition(b"\0")
    fields = _unpack(payload)
    if not nul or not isinstance(fields, list) or len(fields) != 6 or fields[0] != HINT_SCHEMA:
        raise GarbageError("not a hint")
    _, table, key, generation, epoch, number = fields
    if type(table) is not str or type(key) is not str or table.encode() != name:
        raise GarbageError("a hint's table and key must be text, the table that of the topic")
    if type(generation) is not int or type(epoch) is not int or type(number) is not int:
        raise GarbageError("a hint's numbers must be integers")
    return NumberedHint(Hint(table, key, generation), epoch, number)


def _pack(fields: list[Any]) -> bytes:
    data: bytes = _packer.pack(fields)
    return data


def _unpack(frame: bytes) -> object:
    try:
        value: object = msgpack.unpackb(frame, strict_map_key=True, raw=False)
    except _BAD_INPUT as error:
        raise GarbageError(f"not MessagePack: {error}") from error
    return value
