"""Files that somebody else replaces while they are in use: certificates, keys, tokens."""

from __future__ import annotations

import os
from typing import Final

MAX_BYTES: Final = 1 << 20  # of a certificate, key or token file

Stamp = tuple[int, int, int]  # mtime in nanoseconds, size, inode


def stamp(path: str) -> Stamp:
    """Return what changes when a file does; OSError if it is not there."""
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_text(path: str) -> str:
    """Return a file's text; OSError, or ValueError for what cannot be such a file."""
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"is larger than {MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError("is not text") from None


class Followed:
    """A file's text, and whether it has become another.

    A file that is away for a moment, as between a removal and a new one, keeps its last text.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._stamp: Stamp | None = None  # of what was read; the text given may be older

    def look(self) -> bool:
        """Read the file if its stamp is another; whether the text is."""
        if not self.path:
            return False
        try:
            now = stamp(self.path)
            if now == self._stamp:
                return False
            text = read_text(self.path)
        except (OSError, ValueError):
            return False  # the stamp stays as it was: looked at again next time
        self._stamp = now
        if not text.strip() or text == self.text:
            return False
        self.text = text
        return True
