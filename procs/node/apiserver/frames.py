"""The frames of a watch: one JSON object a line, cut out of the bytes as they come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from procs.node.apiserver.types import ApiError, Json

MAX_FRAME: Final = 32 << 20
BAD_FRAME: Final = "BadFrame"  # reason of the ApiError
_NOT_SOUND: Final = 502  # what was heard is not from a sound API server: it may pass


def bad_frame(why: str) -> ApiError:
    """Return the error for a watch that says what cannot be understood."""
    return ApiError(f"the watch sent {why}", status=_NOT_SOUND, reason=BAD_FRAME)


class Frames:
    """Cuts a stream into objects; half an object at its end is dropped, as if it never came."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._parts: list[bytes] = []  # of a frame that is not whole: joined once, at its end
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[Json]:
        """Take more bytes and return the objects that are whole now; ApiError at a bad one."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line = chunk[start:end]
            start = end + 1
            self._keep(line)
            frame = b"".join(self._parts) if len(self._parts) > 1 else line
            self._parts.clear()
            self._size = 0
            if frame and not frame.isspace():
                yield _decoded(frame)
        if start < len(chunk):
            self._keep(chunk[start:])

    @property
    def pending(self) -> int:
        """How many bytes of a frame have come that is not whole yet."""
        return self._size

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit:
            raise bad_frame(f"a frame of more than {self._limit} bytes")


def _decoded(frame: bytes) -> Json:
    try:
        value = json.loads(frame)
    except (ValueError, RecursionError):
        raise bad_frame(f"{len(frame)} bytes that are not JSON") from None
    if not isinstance(value, dict):
        raise bad_frame(f"a {type(value).__name__} where an object belongs")
    return value
