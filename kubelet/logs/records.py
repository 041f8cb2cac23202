r"""The lines of a container's log file, and what they say (H-60). Pure.

A runtime writes ``2026-01-02T03:04:05.123456789Z stdout F text``; a P in place of the F says that
the line goes on in the next record of that stream. Lines of Docker's json-file driver,
``{"log":"text\n","stream":"stdout","time":"..."}``, are understood too. A line that is neither is
left out and counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

LONGEST: Final = 1 << 20  # bytes of a line that are held in memory: a longer one goes on in parts
HEAD: Final = 256  # bytes of a line in which all that stands before its text must fit

_STAMP: Final = rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)"
_CRI: Final = re.compile(rb"(%b) (stdout|stderr) ([^ \n]*) " % _STAMP)
_DATE: Final = re.compile(_STAMP)
_DOCKER: Final = b"{"
_EOL: Final = b"\n"
_EXAMPLE: Final = "2026-01-02T03:04:05.123456789Z"


class Stream(StrEnum):
    """Where a container wrote something to."""

    STDOUT = "stdout"
    STDERR = "stderr"


_STREAMS: Final = {stream.value.encode(): stream for stream in Stream}


class Record(NamedTuple):
    """A line, or a part of one: then its text does not end in a newline."""

    stamp: bytes  # RFC 3339, as the runtime wrote it
    stream: Stream
    text: bytes

    @property
    def ends(self) -> bool:
        """Whether the line ends here."""
        return self.text.endswith(_EOL)


class Head(NamedTuple):
    """What stands before the text of a line."""

    stream: Stream | None  # None: further on in the line
    partial: bool


def parse_line(line: bytes) -> Record | None:
    """Return what a line of the file says; None if it says nothing that makes sense."""
    if line.startswith(_DOCKER):
        return _docker(line)
    head = _CRI.match(line)
    if head is None:
        return None
    stamp, date, _, zone, stream, tags = head.groups()
    if _second(date, zone) is None:
        return None
    text = line[head.end() :]
    if _is_partial(tags):
        text = text.removesuffix(_EOL)
    return Record(stamp, _STREAMS[stream], text)


def parse_head(start: bytes) -> Head | None:
    """Return what the first bytes of a line tell of it; None as above."""
    if start.startswith(_DOCKER):
        return Head(None, partial=False)
    head = _CRI.match(start)
    return Head(_STREAMS[head[5]], _is_partial(head[6])) if head else None


def _is_partial(tags: bytes) -> bool:
    """Look at the first of the tags, which are separated by colons; others may come to be."""
    return tags == b"P" or tags.startswith(b"P:")


def _docker(line: bytes) -> Record | None:
    try:
        found = json.loads(line)
        text, stamp, stream = found["log"], found["time"].encode(), Stream(found["stream"])
        wall_ns(stamp)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(text, str):
        return None
    return Record(stamp, stream, text.encode(errors="surrogatepass"))


class Decoder:
    """Makes records of a file that is given in blocks, of whatever length its lines are."""

    def __init__(self) -> None:
        self.broken = 0  # lines that were left out
        self._rest = b""  # of a line whose end has not come
        self._long: Record | None = None  # of a line too long to be held: what stood before it
        self._partial = False  # whether that line is a part of one
        self._skipping = False  # a line too long to be held, which makes no sense

    @property
    def pending(self) -> int:
        """How many bytes are held."""
        return len(self._rest)

    def feed(self, block: bytes) -> Iterator[Record]:
        """Return the records that end in a block; and long lines as far as they are there."""
        lines = (self._rest + block).split(_EOL)
        self._rest = lines.pop()
        for line in lines:
            yield from self._line(line + _EOL)
        if len(self._rest) > LONGEST or (self._rest and (self._long or self._skipping)):
            rest, self._rest = self._rest, b""
            yield from self._piece(rest)

    def finish(self) -> Iterator[Record]:
        """Return what there is of a last line without an end."""
        rest, self._rest = self._rest, b""
        if rest:
            yield from self._line(rest)
        self._long, self._skipping = None, False

    def _line(self, line: bytes) -> Iterator[Record]:
        """Take a line to its end, or the end of one whose beginning was passed on before."""
        if self._skipping:
            self._skipping = False
        elif self._long is not None:
            text = line.removesuffix(_EOL) if self._partial else line
            yield self._long._replace(text=text)
            self._long = None
        elif (record := parse_line(line)) is not None:
            yield record
        else:
            self.broken += 1

    def _piece(self, piece: bytes) -> Iterator[Record]:
        """Take what there is of a line that is too long to wait for its end."""
        if self._skipping:
            return
        if self._long is None:
            head = parse_head(piece[:HEAD])
            record = parse_line(piece) if head is not None and head.stream is not None else None
            if head is None or record is None:
                self._skipping = True
                self.broken += 1
                return
            self._long, self._partial = record, head.partial
            yield record
        else:
            yield self._long._replace(text=piece)


def wall_ns(stamp: bytes) -> int:
    """Return the moment that a stamp tells, to the nanosecond; ValueError if it is none."""
    found = _DATE.fullmatch(stamp)
    second = _second(found[1], found[3]) if found is not None else None
    if found is None or second is None:
        raise ValueError(f"{stamp.decode(errors='replace')!r} is no time such as {_EXAMPLE}")
    return second * 10**9 + int(_digits(found[2]))


@lru_cache(maxsize=64)  # lines come many to a second
def _second(date: bytes, zone: bytes) -> int | None:
    try:
        return int(datetime.fromisoformat((date + zone).decode()).timestamp())
    except ValueError:  # as in a thirteenth month
        return None


def _digits(fraction: bytes | None) -> bytes:
    """Return nine digits of a fraction of a second."""
    return (fraction or b"").ljust(9, b"0")[:9]


def fixed(stamp: bytes) -> bytes:
    """Return a stamp with all nine digits, so that all have one width (H-62)."""
    found = _DATE.fullmatch(stamp)
    if found is None:
        raise ValueError(f"{stamp.decode(errors='replace')!r} is no time such as {_EXAMPLE}")
    zone = b"Z" if found[3] in {b"+00:00", b"-00:00"} else found[3]
    return b"%b.%b%b" % (found[1], _digits(found[2]), zone)
