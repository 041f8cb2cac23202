"""Times as the API writes them: RFC 3339 in UTC, to the second."""

from __future__ import annotations

from datetime import UTC, datetime


def to_text(wall_ns: int) -> str:
    """Return a moment as the API writes it; "" for none."""
    if wall_ns <= 0:
        return ""
    return datetime.fromtimestamp(wall_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_ns(text: str) -> int:
    """Return the moment that a text says; 0 for none, ValueError for what is no time."""
    if not text:
        return 0
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return int(found.replace(microsecond=0).timestamp()) * 10**9 + found.microsecond * 1000
