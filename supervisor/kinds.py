"""The one table of process kinds.

The supervisor, ``kubeletctl``, the metrics, the tests and the documents read it; a new kind is a
new row here and a package under ``procs/``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 1 << 20
SUPERVISOR: Final = "supervisor"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of process: how it is started, what it may do, and how it is stopped."""

    name: str
    entry: str  # module:function, called in the child as ``await function(process)``
    summary: str
    root: bool  # False: runs as the unprivileged user, with no capability at all
    capabilities: frozenset[str]  # what is left in every capability set, the bounding set included
    memory_limit: int  # bytes; the sub-cgroup's limit, where cgroups are writable
    oom_score_adj: int  # the kernel picks the replaceable part before the essential one
    stop_stage: int  # a stop ends stage 1 first; the next begins when all of it is gone
    stop_timeout: float = 5.0  # seconds between SIGTERM and SIGKILL
    preload: tuple[str, ...] = ()  # imported before the fork, beside the entry's own module


def _caps(*names: str) -> frozenset[str]:
    return frozenset(names)


# What writes into pods' directories must own files as any user and pass any mode.
_FILES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")

KINDS: Final[tuple[Kind, ...]] = (
    Kind(
        name="syncloop",
        entry="procs.syncloop.main:main",
        summary="desired and observed pods to actions on the runtime",
        root=True,
        # It leases manifests, so as not to read half of one.
        capabilities=_caps(*_FILES, "CAP_KILL", "CAP_LEASE"),
        memory_limit=512 * MIB,
        oom_score_adj=-999,
        stop_stage=2,
    ),
    Kind(
        name="pleg",
        entry="procs.pleg.main:main",
        summary="what the runtime holds to the pod status cache",
        root=True,
        capabilities=_caps(),
        memory_limit=512 * MIB,
        oom_score_adj=-999,
        stop_stage=3,
    ),
    Kind(
        name="prober",
        entry="procs.prober.main:main",
        summary="liveness, readiness and startup probes",
        root=False,
        capabilities=_caps(),
        memory_limit=256 * MIB,
        oom_score_adj=-998,
        stop_stage=1,
    ),
    Kind(
        name="eviction",
        entry="procs.eviction.main:main",
        summary="cgroups, stats, pressure, garbage collection",
        root=True,
        # The kernel's root cgroups are read-only even for their owner.
        capabilities=_caps(
            "CAP_DAC_OVERRIDE", "CAP_KILL", "CAP_SYS_ADMIN", "CAP_SYS_RESOURCE", "CAP_SYSLOG"
        ),
        memory_limit=512 * MIB,
        oom_score_adj=-900,
        stop_stage=1,
    ),
    Kind(
        name="api",
        entry="procs.api.main:main",
        summary="the HTTP servers",
        root=False,
        capabilities=_caps(),
        memory_limit=512 * MIB,
        oom_score_adj=-800,
        stop_stage=5,
    ),
    Kind(
        name="node",
        entry="procs.node.main:main",
        summary="everything said to or heard from the API server",
        root=True,
        capabilities=_caps(),
        memory_limit=512 * MIB,
        oom_score_adj=-999,
        stop_stage=4,
        stop_timeout=10.0,  # the last statuses are still to be written out
    ),
    Kind(
        name="volumes",
        entry="procs.volumes.main:main",
        summary="mounts and unmounts",
        root=True,
        # Programs that mount network file systems speak from ports that only root has.
        capabilities=_caps(
            *_FILES, "CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_SYS_CHROOT", "CAP_NET_BIND_SERVICE"
        ),
        memory_limit=512 * MIB,
        oom_score_adj=-999,
        stop_stage=2,
    ),
)

BY_NAME: Final[dict[str, Kind]] = {kind.name: kind for kind in KINDS}
NAMES: Final[tuple[str, ...]] = tuple(BY_NAME)
EVERYONE: Final[tuple[str, ...]] = (SUPERVISOR, *NAMES)
