"""What every part of this process is given."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kubelet.process import Process
from procs.node.apiserver.types import Api, ApiError, Reference, Watched, Watcher
from procs.node.ledger import Ledger
from procs.node.troubles import Troubles
from procs.node.view import NodeView


class Watching(Protocol):
    """A list that is kept up to date."""

    async def stop(self) -> None:
        """Watch no more."""


# Begins to list and watch; the last argument is told what goes wrong, and None
# when all is well.
Watch = Callable[[Watched, Watcher, Callable[[ApiError | None], None] | None], Watching]


class Emit(Protocol):
    """Records an event."""

    def __call__(
        self, about: Reference, type_: str, reason: str, message: str, at_ns: int = 0
    ) -> None:
        """Take what it is about, type (Normal, Warning), reason, message and moment (0: now)."""


@dataclass(slots=True)
class Kit:
    """The tools of the parts."""

    process: Process
    api: Api
    watch: Watch
    emit: Emit
    ledger: Ledger
    view: NodeView
    troubles: Troubles
    wall: Callable[[], int] = time.time_ns  # nanoseconds
    clock: Callable[[], int] = time.monotonic_ns
    random: random.Random = field(default_factory=random.Random)
