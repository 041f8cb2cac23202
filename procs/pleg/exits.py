"""A pidfd on the first process of each running container: its end is seen at once, on any runtime.

The kernel says that a process has ended; only the runtime says how, and it needs some time for
that: 5 to 100 ms were seen. So the end of the process starts a chase: the container's status is
asked for until it says so, with pauses that grow with the time that has passed. What it says then
goes into the cache at once, and the pod is looked at.

A pid may be another's by the time it is opened. The descriptor is trusted if the process is in the
container's own cgroup, or if the runtime, asked after it was opened, still says that the container
runs with this pid: a pid cannot change hands while its process lives.

One that cannot be had (no pid told, another pid namespace, no descriptors left) costs nothing but
speed: the full look sees the exit within a second.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from kubelet import logging as klog
from kubelet.cri import api_pb2 as pb
from kubelet.cri.errors import CriError, NotFound
from kubelet.cri.info import init_pid
from kubelet.pods.runtime import ContainerState, PodRecord
from kubelet.process import Process

log = klog.get_logger(__name__)

RESERVE: Final = 512  # descriptors that stay free for everything else
SHORTEST: Final = 0.005  # seconds between two questions at first
SHARE: Final = 0.08  # of the time since the end: what a question may come too late, later on
GIVE_UP: Final = 5.0  # seconds; from then on the full look has to do

Status = Callable[..., Awaitable[pb.ContainerStatusResponse]]
Ended = Callable[[str, pb.ContainerStatus], None]


@dataclass(slots=True)
class _Watch:
    """A container whose process is watched, or has ended (fd is -1)."""

    uid: str
    id: str
    pid: int
    fd: int = -1
    ended: bool = False


class Exits:
    """Watches processes and says which pod to look at."""

    def __init__(
        self,
        process: Process,
        status: Status,
        ended: Ended,
        look: Callable[[str], object],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._process = process
        self._status = status
        self._tell = ended
        self._look = look
        self._clock = clock
        self._watches: dict[str, dict[str, _Watch]] = {}  # by pod, by container
        self._open = 0
        self._limit = _descriptors() - RESERVE
        self._full = klog.every(60)

    def update(self, uid: str, record: PodRecord | None) -> None:
        """Watch what runs of a pod now, and nothing else of it."""
        wanted = _running(record)
        mine = self._watches.setdefault(uid, {})
        for id_ in [id_ for id_ in mine if id_ not in wanted]:
            self._close(mine.pop(id_))
        for id_, pid in wanted.items():
            if id_ not in mine:
                self._add(mine, _Watch(uid, id_, pid))
        if not mine:
            del self._watches[uid]
        self._process.row.depth("pidfds", self._open)

    def close(self) -> None:
        """Watch nothing any more."""
        for uid in list(self._watches):
            self.update(uid, None)

    def _add(self, mine: dict[str, _Watch], watch: _Watch) -> None:
        if self._open >= self._limit:
            self._say_full(f"{self._limit} descriptors are in use")
            return
        try:
            watch.fd = os.pidfd_open(watch.pid)
        except OSError as err:
            if err.errno == errno.ESRCH:  # it has ended already
                mine[watch.id] = watch
                self._ended(watch)
            else:
                self._say_full(err.strerror or str(err))
            return
        self._open += 1
        mine[watch.id] = watch
        asyncio.get_running_loop().add_reader(watch.fd, self._ended, watch)
        if not in_cgroup_of(watch.pid, watch.id):
            self._process.spawn(self._verify(watch), name=f"verify {watch.id[:13]}")

    def _say_full(self, why: str) -> None:
        self._process.row.count("pidfd_errors")
        if self._full.ready():
            log.warning(
                "A container's process cannot be watched, its exit is seen by the full look",
                reason=why,
                more=self._full.skipped,
            )

    def _close(self, watch: _Watch) -> None:
        if watch.fd >= 0:
            asyncio.get_running_loop().remove_reader(watch.fd)
            os.close(watch.fd)
            watch.fd = -1
            self._open -= 1

    def _ended(self, watch: _Watch) -> None:
        self._close(watch)
        watch.ended = True
        self._process.row.count("pidfd_exits")
        self._process.spawn(self._chase(watch), name=f"chase {watch.id[:13]}")

    def _current(self, watch: _Watch) -> bool:
        return self._watches.get(watch.uid, {}).get(watch.id) is watch

    async def _chase(self, watch: _Watch) -> None:
        """Ask until the runtime knows of the end, then have the pod looked at."""
        ended_ns = self._clock()
        while self._current(watch):
            try:
                answer = await self._status(watch.uid, watch.id)
            except NotFound:
                break
            except CriError:
                return  # it is in trouble; the full look finds out when it is back
            if answer.status.state == pb.CONTAINER_EXITED:
                self._process.row.count("chased")
                if self._current(watch):
                    self._look(watch.uid)
                    self._tell(watch.uid, answer.status)
                return
            if answer.status.state != pb.CONTAINER_RUNNING:
                break
            passed = (self._clock() - ended_ns) / 1e9
            if passed > GIVE_UP:
                self._process.row.count("chases_given_up")
                return
            await asyncio.sleep(max(SHORTEST, passed * SHARE))
        if self._current(watch):
            self._look(watch.uid)

    async def _verify(self, watch: _Watch) -> None:
        """Let go of a descriptor that is not of the process that the runtime means."""
        try:
            answer = await self._status(watch.uid, watch.id, verbose=True)
            right = init_pid(answer) == watch.pid
        except NotFound:
            right = False
        except CriError:
            return  # it counts as right: a wrong one costs a chase
        if not right and self._current(watch) and not watch.ended:
            self._process.row.count("pidfd_mistaken")
            self._close(watch)
            self._look(watch.uid)


def _running(record: PodRecord | None) -> dict[str, int]:
    """Return the pid of each container that runs, by its id."""
    if record is None:
        return {}
    running = ContainerState.RUNNING
    return {c.id: c.pid for c in record.containers if c.pid and c.state is running}


def in_cgroup_of(pid: int, container_id: str) -> bool:
    """Whether a process is in a cgroup that is named after a container, as runtimes name them."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as groups:
            return container_id in groups.read()
    except OSError:
        return False


def _descriptors() -> int:
    """Return how many descriptors this process may have, after asking for all it can get."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft
    return hard if hard != resource.RLIM_INFINITY else 1 << 20
