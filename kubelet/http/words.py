"""How what went wrong on a connection is said: in the words that users of Go programs look for."""

from __future__ import annotations

import os
from typing import Final

_SHOWN: Final = 1 << 10  # characters of what another side said that are shown
_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quoted(text: str | bytes) -> str:
    """Return a text in quotes, with what cannot be shown escaped; the end of a long one is cut."""
    if isinstance(text, bytes):
        text = text[:_SHOWN].decode(errors="surrogateescape")
    return '"' + "".join(map(_escaped, text[:_SHOWN])) + '"'


def _escaped(char: str) -> str:
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no text
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def system_words(number: int) -> str:
    """Return what the kernel calls an error, as the end of a sentence."""
    return os.strerror(number).lower()
