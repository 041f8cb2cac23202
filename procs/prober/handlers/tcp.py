"""TCP probes: a server that takes a connection is well (B-13)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from kubelet.http.target import TargetError, port_of
from procs.prober.handlers.patience import Patience
from procs.prober.handlers.plans import Plans
from procs.prober.handlers.resolve import (
    NAMES,
    Address,
    LookupTimeoutError,
    Resolver,
    UnknownHostError,
    literal,
)
from procs.prober.handlers.stream import Stream, StreamError
from procs.prober.job import Job, Outcome, ProbeError, Result


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where to connect to."""

    host: str
    port: int
    addresses: tuple[Address, ...]  # none: the host is a name


def _plan(job: Job) -> _Plan:
    action = job.probe.tcp_socket
    if action is None:
        raise ProbeError(f"{job.kind}Probe of container {job.container.name} has no tcpSocket")
    host = action.host or job.pod_ip
    if not host:
        raise ProbeError("failed to find networking container: the pod has no address")
    try:
        port = port_of(job.container, action.port)
    except TargetError as err:
        raise ProbeError(str(err)) from None
    return _Plan(host, port, literal(host, port))


_PLANS: Final = Plans(_plan)


async def probe_tcp(job: Job, names: Resolver = NAMES) -> Outcome:
    """Connect, and hang up."""
    plan = _PLANS.of(job)
    patience = Patience(asyncio.get_running_loop(), job.seconds)
    result, output = Result.SUCCESS, ""
    try:
        found = plan.addresses or await names.addresses(plan.host, plan.port, patience)
        await Stream(found, patience).run()
    except UnknownHostError as err:
        result, output = Result.FAILURE, f"dial tcp: {err}"
    except LookupTimeoutError:
        result, output = Result.FAILURE, f"dial tcp: lookup {plan.host}: i/o timeout"
    except StreamError as err:
        result, output = Result.FAILURE, str(err)
    finally:
        patience.done()
    return Outcome(result, output, patience.late_ns())
