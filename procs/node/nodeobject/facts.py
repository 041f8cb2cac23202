"""What is true at a moment of the machine, its runtime and this kubelet, for the node's status."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kubelet.channels.messages import NodeImage
from kubelet.config import Effective
from kubelet.machine import addresses, capacity, identity
from kubelet.machine.addresses import Address
from kubelet.machine.identity import Identity
from kubelet.pods.resources import MEMORY
from kubelet.pods.runtime import RuntimeRecord
from procs.node.nodeobject.settings import Settings

MEMORY_PRESSURE: Final = "MemoryPressure"
DISK_PRESSURE: Final = "DiskPressure"
PID_PRESSURE: Final = "PIDPressure"


@dataclass(frozen=True, slots=True)
class Machine:
    """What the machine says of itself."""

    capacity: dict[str, str] = field(default_factory=dict)  # quantities by resource (N-16)
    allocatable: dict[str, str] = field(default_factory=dict)  # N-17
    identity: Identity = field(default_factory=Identity)
    swap: int = 0
    addresses: tuple[Address, ...] = ()  # N-19; none: see the problem
    address_problem: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the status is made of."""

    wall_ns: int
    machine: Machine = Machine()
    runtime: RuntimeRecord | None = None  # None: nobody has looked yet
    images: tuple[NodeImage, ...] | None = None  # None: not known, what was said stays
    pressures: frozenset[str] = frozenset()  # types of the conditions that are true
    errors: tuple[str, ...] = ()  # why the node is not ready (N-14)
    in_use: frozenset[str] = frozenset()  # devices (L-13)
    in_use_settled: bool = False  # and no others


def read_machine(
    config: Effective, settings: Settings, resolved: tuple[str, ...] = (), root: str = "/"
) -> Machine:
    """Look at the machine; nothing is waited for."""
    has = capacity.read(settings.root_dir, root)
    total = capacity.amounts(has, config)
    if not has.memory:  # it could not be read, which is not the same as none
        del total[MEMORY]
    left = capacity.amounts(capacity.allocatable(has, config), config)
    found, problem = find_addresses(settings, resolved, root)
    return Machine(
        capacity={name: str(amount) for name, amount in total.items()},
        allocatable={name: str(left[name]) for name in total},
        identity=identity.read(root),
        swap=has.swap,
        addresses=found,
        address_problem=problem,
    )


def find_addresses(
    settings: Settings,
    resolved: tuple[str, ...] = (),
    root: str = "/",
    *,
    route: addresses.Route | None = None,
    local: addresses.Local | None = None,
) -> tuple[tuple[Address, ...], str]:
    """Return the node's addresses (N-19), or none and why (N-20)."""
    for ip in addresses.configured(settings.node_ip):
        problem = addresses.problem_with(ip, local)
        if problem is not None:
            return (), f"--node-ip: {problem}"
    ips = addresses.find_ips(settings.node_ip, settings.node, root, route, resolved)
    if not ips:
        return (), f"no address of node {settings.node} can be found: there is no default route"
    return addresses.listed(ips, settings.node), ""


def pressures_in(value: object) -> frozenset[str]:
    """Return what presses, from the row ``node`` of table ``stats``; nothing if it is not there."""
    found = value.get("conditions") if isinstance(value, dict) else None
    if not isinstance(found, dict):
        return frozenset()
    known = (MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE)
    return frozenset(name for name in known if found.get(name) is True)


class Kept:
    """A value that is found elsewhere and used until it is too old: then it is looked for again."""

    def __init__(self, seconds: float, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._ns = int(seconds * 1e9)
        self._clock = clock
        self._asked_ns = 0

    def due(self) -> bool:
        """Whether it is time to ask again; if it is, that counts as asked."""
        now = self._clock()
        if self._asked_ns and now - self._asked_ns < self._ns:
            return False
        self._asked_ns = now
        return True

    def forget(self) -> None:
        """Take that asking did not help: it is due again."""
        self._asked_ns = 0
