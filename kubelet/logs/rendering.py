"""From records to what a reader is shown (H-62). Pure.

The parts of a line are put together: what the other stream says in between waits until the line
has its end, or until there is nothing more to read, or too much to hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kubelet.logs.options import LogOptions
from kubelet.logs.records import Record, Stream, fixed, wall_ns

HELD: Final = 256 << 10  # bytes of the other stream that wait for the end of a line


class Piece(NamedTuple):
    """Bytes to be shown, of one stream."""

    stream: Stream
    data: bytes


class _Line:
    """The line that a stream is in."""

    def __init__(self) -> None:
        self.open = False  # it has begun, and not ended
        self.shown = True  # it is wanted


class Renderer:
    """Chooses and dresses the lines; ``full`` says that the limit is reached."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit_bytes
        self._lines = {stream: _Line() for stream in Stream}
        self._waiting: list[Record] = []
        self._held = 0

    @property
    def full(self) -> bool:
        """Whether no more bytes are wanted."""
        return self._left is not None and self._left <= 0

    def render(self, records: Iterable[Record], *, pause: bool = False) -> list[Piece]:
        """Return what is to be shown of some records; ``pause``: more may be long in coming."""
        shown: list[Piece] = []
        for record in records:
            if self._options.stream not in (None, record.stream):
                continue
            if self._other(record.stream).open and self._held < HELD:
                self._waiting.append(record)
                self._held += len(record.text)
                continue
            self._show(record, shown)
            if record.ends and self._waiting:
                self._release(shown)
        if pause:
            self._flush(shown)
        return shown

    def _other(self, stream: Stream) -> _Line:
        return self._lines[Stream.STDERR if stream is Stream.STDOUT else Stream.STDOUT]

    def _release(self, shown: list[Piece]) -> None:
        """Show what has waited; a line that begins there may make the rest wait again."""
        waiting, self._waiting, self._held = self._waiting, [], 0
        shown += self.render(waiting)

    def _flush(self, shown: list[Piece]) -> None:
        waiting, self._waiting, self._held = self._waiting, [], 0
        for record in waiting:
            self._show(record, shown)

    def _show(self, record: Record, shown: list[Piece]) -> None:
        line = self._lines[record.stream]
        begins = not line.open
        if begins:
            line.shown = self._wanted(record)
        line.open = not record.ends
        if not line.shown or self.full:
            return
        data = record.text
        if begins and self._options.timestamps:
            data = fixed(record.stamp) + b" " + data
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        if data:
            shown.append(Piece(record.stream, data))

    def _wanted(self, record: Record) -> bool:
        """Tell whether a line is recent enough; its first part counts."""
        since_ns = self._options.since_ns
        return since_ns is None or wall_ns(record.stamp) >= since_ns
