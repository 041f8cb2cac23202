"""Waiting for what the API server has to say about a pod's objects."""

from __future__ import annotations

from procs.syncloop.configs.lookup import Lookup
from procs.syncloop.configs.needs import Needs
from procs.syncloop.workers.worker import Worker


async def known(worker: Worker, lookup: Lookup, needs: Needs) -> None:
    """Wait until it is known what a step needs, and say so; mostly it is known long before."""
    missing = lookup.unknown(needs)
    if not missing:
        return
    names = ", ".join(need.what for need in missing)
    then = "the pod goes on when they are read"
    worker.step("waiting for objects", worker.waiting(f"{names} to be read", then=then))
    await lookup.known(missing)
