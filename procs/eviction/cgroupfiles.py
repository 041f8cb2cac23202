"""From limits to the files of a cgroup and what is in them. Pure.

What the two versions of cgroups call the same thing differs; the rest of the process does not
know which one it is on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from kubelet.channels.messages import EnsurePodCgroup
from kubelet.machine.capacity import Capacity
from kubelet.pods.cgroups import KUBEPODS, MAX_SHARES, MIN_SHARES, cpu_shares, cpu_weight, shares_of

NO_LIMIT: Final = 0
_MAX: Final = "max"
_SLICE: Final = ".slice"

# What the kernel gives to a new group: writing it once more would be for nothing.
DEFAULTS: Final[Mapping[str, str]] = {
    "cpu.shares": "1024",
    "cpu.cfs_period_us": "100000",
    "cpu.cfs_quota_us": "-1",
    "memory.limit_in_bytes": "-1",
    "pids.max": _MAX,
    "cpu.weight": "100",
    "cpu.max": "max 100000",
    "memory.max": _MAX,
}


class Setting(NamedTuple):
    """A value for a file of a group."""

    controller: str
    file: str
    value: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What a group may use: 0 is no limit of its own, None is left as it is."""

    shares: int | None = None  # of the CPU, in the measure of cgroup v1
    quota: int | None = None  # microseconds of CPU in each period; below 0 is no limit either
    period: int = 100_000
    memory: int | None = None
    pids: int | None = None
    hugepages: dict[str, int] = field(default_factory=dict)  # bytes by size; a real limit, also 0
    unified: dict[str, str] = field(default_factory=dict)  # files of cgroup v2 only


def pod_limits(request: EnsurePodCgroup, page_sizes: Iterable[str]) -> Limits:
    """Return the limits of a pod; of huge pages that it did not ask for it gets none (P-194)."""
    return Limits(
        shares=request.cpu_shares,
        quota=request.cpu_quota,
        period=request.cpu_period,
        memory=request.memory,
        pids=request.pids,
        hugepages={**dict.fromkeys(page_sizes, 0), **request.hugepages},
        unified=request.unified,
    )


def all_pods_limits(capacity: Capacity) -> Limits:
    """Return the limits of all pods together (P-196)."""
    return Limits(
        shares=cpu_shares(capacity.cpu_milli),
        memory=capacity.memory,
        pids=capacity.pids,
        hugepages=dict(capacity.hugepages),
    )


def burstable_shares(pods: Iterable[int]) -> int:
    """Return the shares of all burstable pods together (P-195).

    The least that the kernel allows stands for "none requested", and adds nothing.
    """
    requested = sum(shares for shares in pods if shares > MIN_SHARES)
    return min(MAX_SHARES, max(MIN_SHARES, requested))


def settings(limits: Limits, *, unified: bool) -> list[Setting]:
    """Return what is to be written for these limits, in order."""
    return _v2(limits) if unified else _v1(limits)


def _v1(limits: Limits) -> list[Setting]:
    found = []
    if limits.shares is not None:
        found.append(Setting("cpu", "cpu.shares", str(limits.shares)))
    if limits.quota is not None:
        found.append(Setting("cpu", "cpu.cfs_period_us", str(limits.period)))
        quota = limits.quota if limits.quota > 0 else -1
        found.append(Setting("cpu", "cpu.cfs_quota_us", str(quota)))
    if limits.memory is not None:
        found.append(Setting("memory", "memory.limit_in_bytes", str(limits.memory or -1)))
    if limits.pids is not None:
        found.append(Setting("pids", "pids.max", str(limits.pids or _MAX)))
    for size, amount in sorted(limits.hugepages.items()):
        found.append(Setting("hugetlb", f"hugetlb.{size}.limit_in_bytes", str(amount)))
    return found


def _v2(limits: Limits) -> list[Setting]:
    found = []
    if limits.shares is not None:
        found.append(Setting("cpu", "cpu.weight", str(cpu_weight(limits.shares))))
    if limits.quota is not None:
        quota = str(limits.quota) if limits.quota > 0 else _MAX
        found.append(Setting("cpu", "cpu.max", f"{quota} {limits.period}"))
    if limits.memory is not None:
        found.append(Setting("memory", "memory.max", str(limits.memory or _MAX)))
    if limits.pids is not None:
        found.append(Setting("pids", "pids.max", str(limits.pids or _MAX)))
    for size, amount in sorted(limits.hugepages.items()):
        found.append(Setting("hugetlb", f"hugetlb.{size}.max", str(amount)))
    for file, value in sorted(limits.unified.items()):
        found.append(Setting(file.partition(".")[0], file, value))
    return found


def shares_file(*, unified: bool) -> tuple[str, str]:
    """Return the controller and the file with a group's part of the CPU."""
    return ("cpu", "cpu.weight") if unified else ("cpu", "cpu.shares")


def shares_in(text: str, *, unified: bool) -> int:
    """Return the shares that such a file holds; 0 for what is no number."""
    number = text.strip()
    if not number.isdigit():
        return 0
    return shares_of(int(number)) if unified else int(number)


class Role(StrEnum):
    """What a group above pods is for."""

    ALL_PODS = KUBEPODS
    BURSTABLE = "burstable"
    BEST_EFFORT = "besteffort"


def role_of(path: str) -> Role | None:
    """Return the role of a group by its name, in the manner of either driver (P-190, P-191)."""
    name = path.rpartition("/")[2]
    if name.endswith(_SLICE):
        name = name.removesuffix(_SLICE).rpartition("-")[2]
    return next((role for role in Role if role == name), None)


def parents_of(path: str) -> list[str]:
    """Return the groups above one, the outermost first."""
    parts = path.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]


def problem_with(path: str, pod: str) -> str | None:
    """Say why a path cannot be that of a pod's group; None if it can.

    Whatever runs below it is killed in the end, so that it must be a pod's and nothing else.
    """
    parts = path.split("/")
    if not path.startswith("/") or any(part in ("", ".", "..") for part in parts[1:]):
        return f"path is {path!r}, which is no path of a cgroup"
    if not pod or not any(name in parts[-1] for name in (pod, pod.replace("-", "_"))):
        return f"path is {path!r}, which does not end in the name of pod {pod!r}"
    return None
