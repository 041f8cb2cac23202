"""The cgroups of pods, and those above them: made and set when syncloop asks (P-190 to P-196).

With the systemd driver a group is a slice, and slices are systemd's: it makes them over D-Bus.
Where no systemd runs, and until this process speaks D-Bus, the directories that the slices would
have are made directly; systemd, where it does run, takes such a directory over when the runtime
starts a scope in it, and may then set limits of the slice back. That is said once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from kubelet import logging as klog
from kubelet.channels.errors import ErrorKind, HandlerError
from kubelet.channels.messages import (
    EnsurePodCgroup,
    PodCgroupReady,
    PodCgroupRemoved,
    RemovePodCgroup,
)
from kubelet.channels.server import Caller
from kubelet.machine.capacity import Capacity
from kubelet.pods.cgroups import MIN_SHARES
from kubelet.process import Process
from procs.eviction import cgroupfiles
from procs.eviction.cgroupfiles import Limits, Role
from procs.eviction.cgrouptree import CgroupError, Tree

log = klog.get_logger(__name__)

LIMIT: Final = 256  # requests at a time
REFRESH: Final = 60.0  # T-13
_SYSTEMD: Final = "/run/systemd/system"


class PodCgroups:
    """Makes, sets and removes the cgroups of pods."""

    def __init__(self, process: Process, tree: Tree, capacity: Callable[[], Capacity]) -> None:
        self._process = process
        self._tree = tree
        self._capacity = capacity  # what all pods together may use
        self._limits: dict[str, Limits] = {}  # by path, as they are in force
        self._shares: dict[str, dict[str, int]] = {}  # group of a class -> pod's path -> shares
        self._above: set[str] = set()  # groups above pods that have their values
        self._locks: dict[str, asyncio.Lock] = {}
        self._said_systemd = False

    def start(self) -> None:
        """Answer requests, and keep what is above pods as it should be."""
        channels = self._process.channels
        channels.handle(EnsurePodCgroup, self.ensure, limit=LIMIT)
        channels.handle(RemovePodCgroup, self.remove, limit=LIMIT)
        self._process.spawn(self._refresh_forever(), name="cgroups above pods")

    # Requests.

    async def ensure(self, request: EnsurePodCgroup, _caller: Caller) -> PodCgroupReady:
        """Have a pod's cgroup with its limits."""
        _check(request.path, request.pod)
        limits = cgroupfiles.pod_limits(request, self._capacity().hugepages)
        async with self._alone(request.path):
            if self._limits.get(request.path) == limits and self._tree.exists(request.path):
                return PodCgroupReady(created=False)
            with self._process.doing("making a cgroup", pod=request.pod):
                try:
                    self._set_above(request.path)
                    created = await asyncio.to_thread(self._make, request.path, limits)
                except CgroupError as err:
                    raise HandlerError(str(err)) from None
            self._limits[request.path] = limits
            self._count(request.path, request.cpu_shares)
        if created:
            self._process.record("cgroup made", request.path, request.pod)
        return PodCgroupReady(created=created)

    async def remove(self, request: RemovePodCgroup, _caller: Caller) -> PodCgroupRemoved:
        """Remove a pod's cgroup with whatever is still in it."""
        _check(request.path, request.pod)
        async with self._alone(request.path):
            with self._process.doing("removing a cgroup", pod=request.pod):
                try:
                    killed = await asyncio.to_thread(self._tree.remove, request.path)
                except CgroupError as err:
                    raise HandlerError(str(err)) from None
            self._limits.pop(request.path, None)
            self._count(request.path, None)
        more = f", {killed} processes killed" if killed else ""
        self._process.record("cgroup removed", f"{request.path}{more}", request.pod)
        return PodCgroupRemoved(killed)

    def _make(self, path: str, limits: Limits) -> bool:
        created = self._tree.make(path)
        wanted = cgroupfiles.settings(limits, unified=self._tree.unified)
        self._tree.set(path, wanted, fresh=created)
        return created

    @asynccontextmanager
    async def _alone(self, path: str) -> AsyncIterator[None]:
        """Do one thing with a group at a time."""
        lock = self._locks.setdefault(path, asyncio.Lock())
        async with lock:
            yield
        if not lock.locked() and self._locks.get(path) is lock:
            del self._locks[path]

    # What is above pods.

    def _set_above(self, path: str) -> None:
        """Have the groups above a pod's, with the values of their role."""
        self._mention_systemd(path)
        for above in cgroupfiles.parents_of(path):
            role = cgroupfiles.role_of(above)
            if role is None or (above in self._above and self._tree.exists(above)):
                continue
            self._tree.make(above)
            if role is Role.BURSTABLE:
                self._shares[above] = self._shares_of_pods(above)
            self._above.add(above)
            self._write_above(above, role)

    def _write_above(self, above: str, role: Role) -> None:
        """Write the values of a group above pods; one that is refused keeps no pod from running."""
        limits = self._limits_above(above, role)
        wanted = cgroupfiles.settings(limits, unified=self._tree.unified)
        for setting in wanted:
            try:
                self._tree.set(above, [setting])
            except CgroupError as err:
                log.warning("A limit of all pods could not be set", cgroup=above, err=err)

    def _limits_above(self, above: str, role: Role) -> Limits:
        match role:
            case Role.ALL_PODS:
                return cgroupfiles.all_pods_limits(self._capacity())
            case Role.BURSTABLE:
                shares = self._shares.get(above, {})
                return Limits(shares=cgroupfiles.burstable_shares(shares.values()))
            case Role.BEST_EFFORT:
                return Limits(shares=MIN_SHARES)

    def _count(self, path: str, shares: int | None) -> None:
        """Take what a pod adds to the shares of its class, None when it is gone (P-195)."""
        above = path.rpartition("/")[0]
        if cgroupfiles.role_of(above) is not Role.BURSTABLE:
            return
        pods = self._shares.setdefault(above, {})
        if shares is None:
            pods.pop(path, None)
        else:
            pods[path] = shares
        if self._tree.exists(above):
            self._write_above(above, Role.BURSTABLE)

    def _shares_of_pods(self, above: str) -> dict[str, int]:
        """Return the shares of the pods in a group, as we or our predecessor have set them."""
        controller, file = cgroupfiles.shares_file(unified=self._tree.unified)
        return {
            path: self._shares_of(path, controller, file)
            for path in self._tree.children(above, controller)
        }

    def _shares_of(self, path: str, controller: str, file: str) -> int:
        known = self._limits.get(path)
        if known is not None and known.shares is not None:
            return known.shares  # exact: a weight is rounded
        text = self._tree.read(path, controller, file)
        return cgroupfiles.shares_in(text, unified=self._tree.unified)

    async def _refresh_forever(self) -> None:
        """Set what is above pods again each minute: others on the node can write there too."""
        while True:
            await asyncio.sleep(REFRESH)
            self.refresh()

    def refresh(self) -> None:
        """Set what is above pods again."""
        for above in sorted(self._above):
            role = cgroupfiles.role_of(above)
            if role is None or not self._tree.exists(above):
                self._above.discard(above)
                continue
            if role is Role.BURSTABLE:
                self._shares[above] = self._shares_of_pods(above)
            self._tree.forget_written(above)
            self._write_above(above, role)

    def _mention_systemd(self, path: str) -> None:
        if path.endswith(".slice") and not self._said_systemd and os.path.isdir(_SYSTEMD):
            self._said_systemd = True
            log.warning("Slices of pods are made as directories, not by systemd", cgroup=path)


def _check(path: str, pod: str) -> None:
    problem = cgroupfiles.problem_with(path, pod)
    if problem is not None:
        raise HandlerError(problem, ErrorKind.BAD_REQUEST)
