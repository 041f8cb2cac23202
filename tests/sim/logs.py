"""Container logs in the CRI format: time, stream, F or P, text."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

LONGEST = 16 * 1024  # a longer line is written in parts, as containerd does


def stamp(now_ns: int) -> str:
    """A time with nine digits of fraction."""
    seconds, fraction = divmod(now_ns, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction:09d}Z"


class Log:
    """One container's log file. A directory that is not there, or is gone, costs the lines."""

    def __init__(self, path: str, clock: Callable[[], int]) -> None:
        self._path = path
        self._clock = clock
        self._fd = -1
        self._rest = {"stdout": b"", "stderr": b""}
        self.reopen()

    def reopen(self) -> None:
        """Open the path anew: after a rotation, a new file."""
        self.close()
        if self._path:
            try:
                os.makedirs(os.path.dirname(self._path), exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._fd = os.open(self._path, flags, 0o640)
            except OSError:
                self._fd = -1

    def write(self, stream: str, data: bytes) -> None:
        """Write whole lines; the rest of a line waits for its end."""
        if self._fd < 0:
            return
        *lines, self._rest[stream] = (self._rest[stream] + data).split(b"\n")
        if len(self._rest[stream]) > LONGEST:
            self._put(stream, [(b"P", self._rest[stream])])
            self._rest[stream] = b""
        self._put(stream, [(b"F", line) for line in lines])

    def finish(self) -> None:
        """Write what is left of each stream, and close."""
        for stream, rest in self._rest.items():
            if rest and self._fd >= 0:
                self._put(stream, [(b"F", rest)])
        self._rest = {"stdout": b"", "stderr": b""}
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _put(self, stream: str, lines: list[tuple[bytes, bytes]]) -> None:
        if not lines:
            return
        head = f"{stamp(self._clock())} {stream} ".encode()
        parts = []
        for tag, line in lines:
            rest = line
            while len(rest) > LONGEST:
                parts.append(head + b"P " + rest[:LONGEST] + b"\n")
                rest = rest[LONGEST:]
            parts.append(head + tag + b" " + rest + b"\n")
        with contextlib.suppress(OSError):  # a full disk costs the lines, not the container
            os.write(self._fd, b"".join(parts))
