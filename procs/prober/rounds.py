"""Making one probe: by its handler, up to three times if it cannot even be tried (B-10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from procs.prober.job import Job, Outcome, ProbeError

ATTEMPTS: Final = 3

Handler: TypeAlias = Callable[[Job], Awaitable[Outcome]]
Handlers: TypeAlias = Mapping[str, Handler]  # by the members of a Probe


async def make(handler: Handler | None, job: Job) -> Outcome | ProbeError:
    """Make a probe; return what came of it, or why nothing did."""
    if handler is None:
        pod = job.pod.metadata
        where = f"{pod.name}_{pod.namespace}({pod.uid}):{job.container.name}"
        return ProbeError(f"missing probe handler for {where}")
    found = ProbeError("")
    for _ in range(ATTEMPTS):
        try:
            return await handler(job)
        except ProbeError as err:
            found = err
    return found
