"""Every table, once: who writes it, who reads it, what it holds.

A writer reads its own table through its own :class:`shm.table.Writer` and is not listed as a
reader. A new schema number makes the successor begin with an empty table, which is always safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Declaration:
    """One table."""

    name: str
    writer: str  # the only kind that may change it
    readers: tuple[str, ...]  # the kinds that may map it
    key: str  # what an entry is found by
    holds: str
    schema: int  # of the payload; another number in a file means that it is thrown away
    max_bytes: int  # it starts small and grows to this at most


TABLES: Final[tuple[Declaration, ...]] = (
    Declaration(
        name="assigned",
        writer="node",
        readers=("syncloop",),
        key="pod uid, or 'state'",
        holds="pods that the API server gave this node",
        schema=1,
        max_bytes=256 * MIB,
    ),
    Declaration(
        name="pods",
        writer="syncloop",
        readers=("pleg", "prober", "eviction", "api", "node", "volumes"),
        key="pod uid",
        holds="every known pod: spec, source, worker state, admission, current step",
        schema=1,
        max_bytes=256 * MIB,
    ),
    Declaration(
        name="runtime",
        writer="pleg",
        readers=("syncloop", "api", "eviction", "node"),
        key="pod uid",
        holds="the pod status cache: sandboxes and containers, and when they were observed",
        schema=1,
        max_bytes=256 * MIB,
    ),
    Declaration(
        name="status",
        writer="syncloop",
        readers=("node", "api", "prober"),
        key="pod uid",
        holds="the pod status as the API shows it, versioned",
        schema=2,
        max_bytes=256 * MIB,
    ),
    Declaration(
        name="events",
        writer="syncloop",
        readers=("node",),
        key="pod uid",
        holds="what happened to each pod, as the API's events tell it",
        schema=1,
        max_bytes=64 * MIB,
    ),
    Declaration(
        name="probes",
        writer="prober",
        readers=("syncloop",),
        key="container id",
        holds="what the probes of each container found",
        schema=2,
        max_bytes=64 * MIB,
    ),
    Declaration(
        name="probing",
        writer="prober",
        readers=("api",),
        key="container id",
        holds="counts, phase and times of each probe",
        schema=1,
        max_bytes=64 * MIB,
    ),
    Declaration(
        name="inflight",
        writer="syncloop",
        readers=(),
        key="call id",
        holds="runtime calls sent and not yet answered, so that a successor does not repeat them",
        schema=1,
        max_bytes=64 * MIB,
    ),
    Declaration(
        name="stats",
        writer="eviction",
        readers=("api", "node"),
        key="pod uid, or 'node'",
        holds="node, pod and container usage; node conditions",
        schema=1,
        max_bytes=128 * MIB,
    ),
    Declaration(
        name="mounts",
        writer="volumes",
        readers=("syncloop", "node"),
        key="pod uid",
        holds="what is mounted for each pod, what is pending and why",
        schema=1,
        max_bytes=128 * MIB,
    ),
    Declaration(
        name="volumestats",
        writer="volumes",
        readers=("eviction", "api"),
        key="pod uid",
        holds="how full the volumes of each pod are",
        schema=1,
        max_bytes=64 * MIB,
    ),
    Declaration(
        name="cluster",
        writer="node",
        readers=("syncloop", "volumes", "api"),
        key="kind/namespace/name, 'node', 'connection' or 'listed'",
        holds="this node's object and connection, services for variables, runtime classes",
        schema=1,
        max_bytes=128 * MIB,
    ),
    Declaration(
        name="objects",
        writer="node",
        readers=("syncloop", "volumes"),
        key="kind/namespace/name",
        holds="secrets, configmaps, tokens and pull credentials that a pod here refers to",
        schema=1,
        max_bytes=512 * MIB,
    ),
    Declaration(
        name="ledger",
        writer="node",
        readers=(),
        key="what it is about",
        holds="how to reach the API server, and what was already said there",
        schema=1,
        max_bytes=64 * MIB,
    ),
)

BY_NAME: Final[dict[str, Declaration]] = {table.name: table for table in TABLES}


def tables_written_by(kind: str) -> tuple[Declaration, ...]:
    """Return the tables that this kind writes."""
    return tuple(table for table in TABLES if table.writer == kind)


def tables_read_by(kind: str) -> tuple[Declaration, ...]:
    """Return the tables that this kind maps to read; its own are not among them."""
    return tuple(table for table in TABLES if kind in table.readers)
