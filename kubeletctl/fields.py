"""Careful steps into documents and rows: what is missing or of a wrong type is empty. Pure.

What kubeletctl shows was written by a process that may be of another version, and must be shown
even when a part of it makes no sense.
"""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def obj(value: object, *path: str) -> Document:
    """Return the object at a path, or an empty one."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def objs(value: object, key: str) -> list[Document]:
    """Return the objects in a list under a key."""
    found = value.get(key) if isinstance(value, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def text(value: object, key: str) -> str:
    """Return the text under a key, or an empty one."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def texts(value: object, key: str) -> list[str]:
    """Return the texts in a list under a key."""
    found = value.get(key) if isinstance(value, dict) else None
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def whole(value: object, key: str, default: int = 0) -> int:
    """Return the whole number under a key, or the default."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def flag(value: object, key: str) -> bool:
    """Whether what is under a key is true."""
    return isinstance(value, dict) and value.get(key) is True
