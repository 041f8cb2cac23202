"""Where a list and watch stands, and what follows from how it ended. Pure.

``version`` is the newest that was heard of, bookmarks included. A list asks for nothing older than
it, so that a server that lags behind cannot take us back in time; "0", at the very beginning, is
whatever the server has at hand, and "" is read from the store itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from procs.node.apiserver.frames import BAD_FRAME
from procs.node.apiserver.types import ApiError

ANY: Final = "0"
STORE: Final = ""
TOO_LARGE: Final = "ResourceVersionTooLarge"
_TIMEOUT: Final = 504
_PATIENCE: Final = 2  # failures of one kind in a row before the next, dearer way is taken


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known, and what comes next: a list or a watch."""

    version: str = ""  # the newest heard of; "": nothing was
    list_from: str | None = ANY  # the version to list from; None: watch
    gone: int = 0  # how often in a row the version was too old,
    ahead: int = 0  # newer than the server's own,
    garbled: int = 0  # or the watch could not be understood


def too_large(error: ApiError) -> bool:
    """Whether the server has not heard of a version yet: it, or its store, was started again."""
    if error.status != _TIMEOUT:
        return False
    causes = error.details.get("causes")
    if isinstance(causes, list):
        for cause in causes:
            if isinstance(cause, dict) and cause.get("reason") == TOO_LARGE:
                return True
    return "too large resource version" in str(error).lower()


def listed(progress: Progress, version: str) -> Progress:
    """Take that everything was listed at a version."""
    return replace(progress, version=version, list_from=None, ahead=0, garbled=0)


def heard(progress: Progress, version: str) -> Progress:
    """Take a version that a watch has come to."""
    if version == progress.version and not (progress.gone or progress.ahead or progress.garbled):
        return progress
    return Progress(version, None)


def failed(progress: Progress, error: ApiError) -> Progress:
    """Take that a list or a watch ended with an error."""
    if error.gone:
        return _gone(progress)
    if too_large(error):
        return _ahead(progress)
    if error.reason == BAD_FRAME:
        return _garbled(progress)
    if progress.list_from is None and error.status in (400, 404):
        # The collection, or the version, means nothing to this server (any more).
        return _list_again(progress)
    return progress


def _list_again(progress: Progress) -> Progress:
    return replace(progress, list_from=progress.version or ANY)


def _gone(progress: Progress) -> Progress:
    """List again: what the server has at hand the first time, then what the store has."""
    dearer = progress.gone > 0 or progress.list_from is not None
    again = replace(_list_again(progress), gone=progress.gone + 1)
    return replace(again, list_from=STORE) if dearer else again


def _ahead(progress: Progress) -> Progress:
    """Give the server time to catch up; then the store itself has lost what we have heard."""
    again = replace(_list_again(progress), ahead=progress.ahead + 1)
    return replace(again, list_from=STORE) if again.ahead >= _PATIENCE else again


def _garbled(progress: Progress) -> Progress:
    """Resume once; then go around what cannot be understood."""
    if progress.garbled + 1 >= _PATIENCE:
        return replace(_list_again(progress), garbled=0)
    return replace(progress, garbled=progress.garbled + 1)


def at_once(error: ApiError, progress: Progress) -> bool:
    """Whether an error is answered by a list at once: the first times that a version was gone."""
    return error.gone and progress.gone <= _PATIENCE
