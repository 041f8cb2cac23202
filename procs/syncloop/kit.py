"""What every part of a pod's work is given: the node, the runtime, the tables, the clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from kubelet.cri.client import RuntimeClient
from kubelet.pods.cache import RuntimeCache
from kubelet.process import Process
from procs.syncloop.admission import Admission
from procs.syncloop.configs.lookup import Lookup
from procs.syncloop.configs.policy import Policy
from procs.syncloop.configs.userns import UserNamespaces
from procs.syncloop.events import Emit, Said
from procs.syncloop.gather import Gatherer
from procs.syncloop.gc import ContainerGc
from procs.syncloop.images.manager import ImageManager
from procs.syncloop.probes.results import Results
from procs.syncloop.runtime.hooks import Hooks
from procs.syncloop.workers.turns import Turns, at_once

# Called with the name of a step and the pod at the points where a death is hardest to survive;
# it does nothing but in the tests that die there.
Reached = Callable[[str, str], None]


def pass_by(_step: str, _uid: str) -> None:
    """Go on."""


@dataclass(slots=True)
class Kit:
    """The tools of the workers."""

    process: Process
    client: RuntimeClient
    cache: RuntimeCache
    images: ImageManager
    hooks: Hooks
    probes: Results
    gc: ContainerGc
    emit: Emit
    said: Said
    admission: Admission
    lookup: Lookup
    policy: Policy
    users: UserNamespaces
    site: Gatherer
    wall: Callable[[], int]
    started_ns: int  # monotonic: nothing seen before is acted on
    started_wall_ns: int
    reached: Reached = pass_by
    random: random.Random = field(default_factory=random.Random)
    turns: Turns = field(default_factory=lambda: Turns(at_once()))

    def jittered(self, seconds: float) -> float:
        """Return a delay of one to one and a half times as long (P-36)."""
        return seconds * self.random.uniform(1.0, 1.5)
