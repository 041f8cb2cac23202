"""Small files of the kernel and the system; what cannot be read says nothing."""

from __future__ import annotations

import os
from typing import Final

_LIMIT: Final = 1 << 16


def text(root: str, path: str) -> str:
    """Return what a file below a root directory holds; "" if it cannot be read."""
    try:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            return file.read(_LIMIT)
    except OSError:
        return ""


def line(root: str, path: str) -> str:
    """Return the first line of a file, trimmed; "" if there is none."""
    return text(root, path).partition("\n")[0].strip(" \t\r\0")


def number(root: str, path: str) -> int:
    """Return the number in a file; 0 if there is none."""
    found = line(root, path)
    return int(found) if found.isascii() and found.isdigit() else 0


def names(root: str, path: str) -> list[str]:
    """Return what is in a directory, sorted; nothing if it cannot be read."""
    try:
        return sorted(os.listdir(os.path.join(root, path)))
    except OSError:
        return []
