"""Whether a container has started and is ready (B-18, P-133)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kubelet.api.container import Container
from kubelet.api.status import ContainerStatus
from procs.syncloop.status.context import Context, ProbeView

_NO_RESULT: Final = ProbeView()
_OOM_KILLED: Final = "OOMKilled"


def of_running(
    status: ContainerStatus,
    container: Container,
    id_: str,
    context: Context,
    previous: ContainerStatus | None,
) -> ContainerStatus:
    """Return the status of a regular container or a sidecar with what its probes say.

    While a probe has no result, the very same container stays what it was: neither a restart of
    ours nor one of the prober is the container's fault (P-133).
    """
    view = context.probes.get(id_, _NO_RESULT)
    same = previous if previous and previous.container_id == status.container_id else None
    started = running(status) and id_ not in context.unstarted
    if container.startup_probe is not None:
        started = started and _known(view.started, same.started if same else None)
    ready = started
    if container.readiness_probe is not None:
        ready = ready and _known(view.ready, same.ready if same else None)
    return replace(status, started=started, ready=ready)


def of_init(status: ContainerStatus) -> ContainerStatus:
    """Return the status of a regular init container: it is ready when it has done its work.

    One that was killed for its memory has failed, whatever it then said (P-77).
    """
    ended = status.state.terminated if status.state is not None else None
    done = ended is not None and not ended.exit_code and ended.reason != _OOM_KILLED
    return replace(status, started=running(status), ready=done)


def running(status: ContainerStatus) -> bool:
    """Whether a container runs."""
    return status.state is not None and status.state.running is not None


def _known(result: bool | None, before: bool | None) -> bool:
    return bool(before) if result is None else result
