"""Brings one event to the API server, and says what is to become of one that it will not have."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from procs.node.apiserver.types import Api, ApiError, PatchType, Purpose, Reference
from procs.node.events.book import Entry
from procs.node.events.documents import collection, document, name_of, repetition

TRIES: Final = 12  # of an event that the server answers with an error that may pass (N-63)
APART: Final = 10.0  # seconds between two of them, more or less
LIFE_NS: Final = 3600 * 1_000_000_000  # how long the API server keeps an event by default


class Fate(Enum):
    """What is to become of an event that could not be told."""

    RETRY = auto()
    DROP = auto()  # and say so
    DROP_QUIETLY = auto()  # nobody misses it


async def deliver(api: Api, about: Reference, entry: Entry, node: str) -> None:
    """Make the API server have an event as it is here, whatever it has of it."""
    path = collection(about)
    if entry.there:
        try:
            await _patch(api, about, entry)
        except ApiError as err:
            if not err.not_found:
                raise
        else:
            return
    try:
        await api.create(path, document(about, entry, node), purpose=Purpose.EVENTS)
    except ApiError as err:
        # A predecessor, or a call whose answer was lost, has made it: the name is ours alone.
        if not err.already_exists:
            raise
        if entry.count > 1:
            await _patch(api, about, entry)


async def _patch(api: Api, about: Reference, entry: Entry) -> None:
    path = f"{collection(about)}/{name_of(about, entry.name_ns)}"
    await api.patch(path, repetition(entry), PatchType.STRATEGIC, purpose=Purpose.EVENTS)


def fate(error: ApiError, tries: int, age_ns: int) -> Fate:
    """Judge a failure, after so many tries of an event that happened so long ago.

    While there is no answer at all, trying on costs nothing and loses nothing; but what the server
    would have thrown away by now need not be told any more.
    """
    if error.unreachable:
        return Fate.RETRY if age_ns < LIFE_NS else Fate.DROP_QUIETLY
    if error.passing or error.unauthorized:
        return Fate.RETRY if tries < TRIES else Fate.DROP
    if error.not_found or _terminating(error):
        return Fate.DROP_QUIETLY
    return Fate.DROP


def _terminating(error: ApiError) -> bool:
    """Whether the namespace is on its way out."""
    causes = error.details.get("causes")
    found = causes if isinstance(causes, list) else []
    return error.forbidden and any(
        isinstance(cause, dict) and cause.get("reason") == "NamespaceTerminating" for cause in found
    )


def pause(error: ApiError, tries: int, chance: float) -> float:
    """Return the seconds until the next try, after so many; ``chance`` is below 1.

    The first wait is by chance alone, so that nodes that lost the same server spread.
    """
    seconds = APART * (chance if tries <= 1 else 0.75 + chance / 2)
    return max(seconds, error.retry_after or 0.0)
