"""How changes of secrets and config maps are noticed (L-24). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from procs.node.apiserver.types import Json

TTL_ANNOTATION: Final = "node.alpha.kubernetes.io/ttl"
TTL_SECONDS: Final = 60.0
LINGER_SECONDS: Final = 60.0  # at least


class Strategy(StrEnum):
    """``configMapAndSecretChangeDetectionStrategy``."""

    WATCH = "Watch"
    CACHE = "Cache"
    GET = "Get"


@dataclass(frozen=True, slots=True)
class Settings:
    """The strategy, and how often pods are looked after."""

    strategy: Strategy = Strategy.WATCH
    sync_seconds: float = 60.0

    @property
    def linger_seconds(self) -> float:
        """For how long something that is watched is kept when no pod refers to it any more."""
        return max(self.sync_seconds, LINGER_SECONDS)

    def period(self, node: Json | None) -> float:
        """Return after how many seconds something that is not watched is read again.

        Pods look at their objects once a sync: with Get each look is a read, with Cache only one
        that finds it older than the node's annotation allows.
        """
        if self.strategy is Strategy.CACHE:
            return max(self.sync_seconds, ttl_seconds(node))
        return self.sync_seconds


def ttl_seconds(node: Json | None) -> float:
    """Return for how long a node may take what it has read as true."""
    metadata = (node or {}).get("metadata")
    notes = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = notes.get(TTL_ANNOTATION) if isinstance(notes, dict) else None
    return (
        float(text) if isinstance(text, str) and text.isascii() and text.isdigit() else TTL_SECONDS
    )
