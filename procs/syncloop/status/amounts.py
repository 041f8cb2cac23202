"""The resources in a container's status: what it was given, as the runtime says (P-130)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kubelet.api.container import Container, ResourceRequirements
from kubelet.pods import resources
from kubelet.pods.resources import CPU, MEMORY
from kubelet.pods.runtime import ContainerRecord, ContainerState, Resources
from kubelet.quantities import Format, Quantity

_SHARES_PER_CPU: Final = 1024
_MIN_SHARES: Final = 2  # the kernel takes no fewer: at this floor the spec's value is shown
_MIN_LIMIT_MILLI: Final = 10  # a quota of 1 ms in 100 ms, the least that is set (P-193)


def shown(
    container: Container, record: ContainerRecord, before: ResourceRequirements | None
) -> ResourceRequirements:
    """Return a container's resources; ``before``: those shown while this very one ran already."""
    spec = container.resources or ResourceRequirements()
    if record.state is not ContainerState.RUNNING:
        return spec
    before = before or ResourceRequirements()
    said = record.resources or Resources()
    limits, requests = dict(spec.limits), dict(spec.requests)
    if limits:
        _set(limits, CPU, _cpu_limit(said), before.limits, _MIN_LIMIT_MILLI)
        _set(limits, MEMORY, _memory_limit(said), before.limits, 0)
    if requests:
        _set(requests, CPU, _cpu_request(said), before.requests, _MIN_SHARES)
        _set(requests, MEMORY, None, before.requests, 0)
    return replace(spec, limits=limits, requests=requests)


def _set(
    into: dict[str, str], name: str, said: Quantity | None, before: dict[str, str], least: int
) -> None:
    """Put in what the runtime says, or what it said before."""
    if said is None:
        if name in before:
            into[name] = before[name]
        return
    wanted = resources.parse(into.get(name, "0"))
    if least and max(said.milli, wanted.milli) <= least:
        return
    if said != wanted:  # equal amounts stay as the user wrote them
        into[name] = str(said)


def _cpu_limit(said: Resources) -> Quantity | None:
    if said.cpu_quota <= 0 or said.cpu_period <= 0:
        return None
    return _milli(said.cpu_quota * 1000 // said.cpu_period)


def _cpu_request(said: Resources) -> Quantity | None:
    if said.cpu_shares < _MIN_SHARES:
        return None
    # Shares were rounded down when they were set.
    return _milli(-(-said.cpu_shares * 1000 // _SHARES_PER_CPU))


def _memory_limit(said: Resources) -> Quantity | None:
    return Quantity.of(said.memory_limit, Format.BINARY) if said.memory_limit > 0 else None


def _milli(milli: int) -> Quantity:
    return Quantity(milli * 10**6)
