"""Text in fixed room: what does not fit is cut, visibly and never inside a character."""

from __future__ import annotations

from typing import Final

ELLIPSIS: Final = "…".encode()


def cut(text: str, room: int) -> bytes:
    """Return text as at most ``room`` bytes of UTF-8, ending in an ellipsis where it was cut.

    A lone surrogate (a file name that is not UTF-8, say) becomes a question mark: a report must
    never fail on the thing it reports.
    """
    data = text.encode(errors="replace")
    if len(data) <= room:
        return data
    if room < len(ELLIPSIS):
        return b""
    kept = data[: room - len(ELLIPSIS)]
    return kept.decode(errors="ignore").encode() + ELLIPSIS
