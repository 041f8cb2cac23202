"""The records of table ``runtime``: what the container runtime holds, as pleg saw it last.

A :class:`PodRecord` under a pod's uid, and one :class:`RuntimeRecord` under the key ``runtime``.
How old a record is, and what an absent one means, :mod:`kubelet.pods.cache` says.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kubelet import durations
from kubelet.pods.wire import BadRecordError, Record

__all__ = [
    "RUNTIME_KEY",
    "TABLE",
    "BadRecordError",
    "Condition",
    "ContainerRecord",
    "ContainerState",
    "Handler",
    "PodRecord",
    "Resources",
    "RuntimeRecord",
    "SandboxRecord",
    "SandboxState",
    "User",
    "problem",
]

TABLE: Final = "runtime"
RUNTIME_KEY: Final = "runtime"  # no pod has this uid


class ContainerState(StrEnum):
    """The state of a container, by the runtime's word."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


class SandboxState(StrEnum):
    """The state of a sandbox; one that the runtime names oddly is taken as not ready."""

    READY = "ready"
    NOT_READY = "not-ready"


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """One sandbox of a pod."""

    id: str
    attempt: int = 0
    state: SandboxState = SandboxState.NOT_READY
    created_at_ns: int = 0
    ips: tuple[str, ...] = ()  # the first is the pod's IP
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    user_namespace: bool = False
    runtime_handler: str = ""
    labels: dict[str, str] = field(default_factory=dict)  # io.kubernetes.* but the pod's identity
    annotations: dict[str, str] = field(default_factory=dict)  # those that kubelets write


@dataclass(frozen=True, slots=True)
class Resources:
    """What the runtime says that a container may use; 0 and "" are "not said"."""

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_limit: int = 0
    memory_swap_limit: int = 0
    oom_score_adj: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    hugepages: dict[str, int] = field(default_factory=dict)  # page size -> bytes
    unified: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class User:
    """The user that a container's first process was started as."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """One container of a pod. ``inspected`` False: as listed, its status was not asked for."""

    id: str
    name: str
    attempt: int = 0
    state: ContainerState = ContainerState.UNKNOWN
    sandbox_id: str = ""
    created_at_ns: int = 0
    started_at_ns: int = 0
    finished_at_ns: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    image: str = ""  # as the runtime resolved it
    image_spec: str = ""  # as the user wrote it
    image_ref: str = ""  # digested reference
    image_id: str = ""
    pid: int = 0  # of its first process; 0: not running, or not told
    log_path: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()  # where they are inside the container
    resources: Resources | None = None
    user: User | None = None
    stop_signal: str = ""
    inspected: bool = True


@dataclass(frozen=True, slots=True)
class PodRecord(Record):
    """Everything that the runtime holds of one pod; empty when there is nothing left of it."""

    uid: str
    name: str = ""
    namespace: str = ""
    sandboxes: tuple[SandboxRecord, ...] = ()  # newest first
    containers: tuple[ContainerRecord, ...] = ()  # newest first
    left_out: int = 0  # more dead containers that the runtime holds of it
    problems: tuple[str, ...] = ()  # what is odd about it, in words

    @property
    def gone(self) -> bool:
        """Whether the runtime has nothing of this pod."""
        return not self.sandboxes and not self.containers


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of the runtime."""

    type: str
    status: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Handler:
    """A runtime handler and what it can do (R-9)."""

    name: str
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


@dataclass(frozen=True, slots=True)
class RuntimeRecord(Record):
    """The runtime itself, and how well it is seen.

    ``reason`` and ``trouble`` hold no ages, so that the record is written when something changes
    and not each second: :func:`problem` adds the ages when somebody looks.
    """

    endpoint: str = ""
    name: str = ""
    version: str = ""
    api_version: str = ""
    cgroup_driver: str = ""  # "systemd" or "cgroupfs" (C-10)
    cgroup_driver_source: str = ""  # who said so: "runtime", or the "config" or its "fallback"
    handlers: tuple[Handler, ...] = ()
    features: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    connected: bool = False  # its Version was answered, by it or by what it was before a restart
    looked: bool = False  # there was a full look at it since this table is there
    healthy: bool = False
    reason: str = ""  # why it is not healthy
    since_ns: int = 0  # when healthy last changed
    trouble: str = ""  # what goes wrong at the moment, healthy or not
    waiting_for: str = ""  # the call that has not answered for long
    waiting_since_ns: int = 0
    unseen: tuple[str, ...] = ()  # pods that the last full look could not see: see the cache
    foreign: int = 0  # sandboxes and containers that no kubelet made
    problems: tuple[str, ...] = ()  # what else is odd, in words


def problem(record: RuntimeRecord, now_ns: int | None = None) -> str | None:
    """Say in a sentence what is wrong with the runtime, or None."""
    now_ns = time.monotonic_ns() if now_ns is None else now_ns
    parts = []
    if not record.healthy:
        age = f" for {_age(record.since_ns, now_ns)}" if record.since_ns else ""
        parts.append(f"not healthy{age}: {record.reason or 'not looked at yet'}")
    if record.waiting_for:
        age = _age(record.waiting_since_ns, now_ns)
        parts.append(f"{record.waiting_for} has not answered for {age}")
    elif record.trouble and record.trouble not in record.reason:
        parts.append(record.trouble)
    parts += record.problems
    return "container runtime: " + "; ".join(parts) if parts else None


def _age(since_ns: int, now_ns: int) -> str:
    """Return an age in whole seconds, as Go shows it."""
    return durations.render(max(0, now_ns - since_ns) // 1_000_000_000 * 1_000_000_000)
