"""What sources say, and what becomes of it: candidates come in, changes go out (P-1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from kubelet import times
from kubelet.api.pod import Pod

SOURCE: Final = "kubernetes.io/config.source"
SEEN: Final = "kubernetes.io/config.seen"
HASH: Final = "kubernetes.io/config.hash"
MIRROR: Final = "kubernetes.io/config.mirror"
# The node's own notes on a pod: kept over updates and no difference between two of them (P-2).
LOCAL_ANNOTATIONS: Final = frozenset({SOURCE, SEEN, MIRROR})


class Op(StrEnum):
    """What happened to a pod in its source."""

    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"  # it got a deletionTimestamp: it ends, with grace
    REMOVE = "remove"  # its source has it no more
    RECONCILE = "reconcile"  # nothing but its status differs


@dataclass(frozen=True, slots=True)
class Change:
    """One pod, and what happened to it."""

    op: Op
    pod: Pod
    source: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that a source wants, and the file or place that it came from."""

    source: str
    origin: str
    pod: Pod


@dataclass(frozen=True, slots=True)
class Delivery:
    """Everything that a source wants now, and what is wrong there."""

    source: str
    candidates: tuple[Candidate, ...] = ()
    problems: tuple[str, ...] = ()
    # False: there is nothing new but the problems, and the pods may not be known at all yet.
    complete: bool = True


Deliver = Callable[[Delivery], None]


class Source(Protocol):
    """A place that pods come from: once started, it delivers whenever something changed there."""

    @property
    def name(self) -> str:
        """What the pods' ``config.source`` annotation says."""

    def start(self) -> None:
        """Begin to deliver."""


def seen_text(wall_ns: int) -> str:
    """Return a moment as the first-seen annotation has it, to the nanosecond."""
    return f"{times.to_text(wall_ns).removesuffix('Z')}.{wall_ns % 10**9:09d}Z"
