"""Where the last lines of a log begin: looked for from the end, block by block (H-62)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from kubelet.logs.records import HEAD, Stream, parse_head

BLOCK: Final = 64 << 10
_EOL: Final = b"\n"


def find_tail(fd: int, lines: int, stream: Stream | None = None, block: int = BLOCK) -> int:
    """Return where the last ``lines`` lines of a file begin, of one stream or of both.

    The parts of a line are one line, and what makes no sense is none.
    """
    begin = os.fstat(fd).st_size
    count = _Count(lines, stream)
    if lines <= 0:
        return begin
    for start, head in _lines_backwards(fd, begin, block):
        if count.is_before(head):
            return begin
        begin = start
    return 0


class _Count:
    """Counts lines from the last one on."""

    def __init__(self, wanted: int, stream: Stream | None) -> None:
        self._left = wanted
        self._stream = stream
        self._begun = False

    def is_before(self, head: bytes) -> bool:
        """Take one more line of the file; True when it is before those that are wanted."""
        found = parse_head(head)
        if found is None or (self._stream and found.stream not in (None, self._stream)):
            return False
        if found.partial and self._begun:
            return False  # it belongs to the line that was counted last
        self._begun = True
        self._left -= 1
        return self._left < 0


def _lines_backwards(fd: int, size: int, block: int) -> Iterator[tuple[int, bytes]]:
    """Go through the lines of a file from the last to the first: where each begins, and its head.

    A line may be longer than a block, and a head may reach into the block behind.
    """
    after = b""  # what follows the block, as far as a head may reach into it
    end = size
    while end > 0:
        start = max(0, end - block)
        data = _read(fd, start, end - start)
        window = data + after
        # The newline at the end of the file begins no line.
        at = len(data) - 1 if end == size and data.endswith(_EOL) else len(data)
        while (at := data.rfind(_EOL, 0, at)) >= 0:
            yield start + at + 1, window[at + 1 : at + 1 + HEAD]
        after = window[:HEAD]
        end = start
    if size > 0:
        yield 0, after


def _read(fd: int, start: int, length: int) -> bytes:
    """Read a part of a file that is there; one that was cut off in the meantime is shorter."""
    parts = []
    while length > 0 and (data := os.pread(fd, length, start)):
        parts.append(data)
        start += len(data)
        length -= len(data)
    return b"".join(parts)
