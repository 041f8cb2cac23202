"""Looks at the logs of running containers each monitor interval (I-40, T-14)."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime

from kubelet import logging as klog
from kubelet.cri.client import RuntimeClient
from kubelet.pods.cache import RuntimeCache
from kubelet.pods.runtime import ContainerState
from kubelet.process import Process
from procs.syncloop.gather import Gatherer
from procs.syncloop.logs import files
from procs.syncloop.logs.decide import RotationPolicy
from procs.syncloop.logs.rounds import Rounds, RunningLog

log = klog.get_logger(__name__)


class Rotator:
    """Rotates the logs of running containers, for as long as the process runs."""

    def __init__(
        self, process: Process, client: RuntimeClient, cache: RuntimeCache, site: Gatherer
    ) -> None:
        self._process = process
        self._client = client
        self._cache = cache
        self._site = site
        self._stop = threading.Event()  # seen by the threads that compress

    def start(self) -> None:
        """Begin, unless it is turned off."""
        policy = RotationPolicy.of(self._process.config)
        if policy is None:
            log.info("Logs of containers are not rotated: containerLogMaxSize is negative")
            return
        self._process.spawn(self._run(policy), name="log rotation")

    async def _run(self, policy: RotationPolicy) -> None:
        rounds = Rounds(
            policy,
            self._client.reopen_container_log,
            now=_local_time,
            stopped=self._stop.is_set,
            running=self._is_running,
            rotated=self._note,
        )
        try:
            await self._sweep()
            while True:
                await rounds.run(await self._logs())
                # A file that grows tells nobody but those who watch every single write to it.
                await asyncio.sleep(policy.interval)
        finally:
            self._stop.set()

    async def _sweep(self) -> None:
        try:
            failures = await asyncio.to_thread(files.sweep, self._site().logs_dir)
        except OSError as err:
            failures = [str(err)]
        if failures:
            log.warning("Left-over log files cannot be removed", err="; ".join(failures[:5]))

    async def _logs(self) -> list[RunningLog]:
        """Return the logs that are being written to now."""
        found = []
        for uid in self._cache.uids():
            record = self._cache.get(uid).record
            for container in record.containers if record is not None else ():
                if container.state is ContainerState.RUNNING and container.log_path:
                    one = RunningLog(container.id, container.log_path, container.name, uid)
                    found.append(one)
            await asyncio.sleep(0)  # decoding many pods takes a while, and others have work too
        return found

    def _is_running(self, one: RunningLog) -> bool:
        record = self._cache.get(one.pod).record
        among = record.containers if record is not None else ()
        return any(c.id == one.container_id and c.state is ContainerState.RUNNING for c in among)

    def _note(self, one: RunningLog, path: str) -> None:
        self._process.record("log rotated", f"{one.container}: {path}", one.pod)


def _local_time() -> datetime:
    """Return what the clock on the wall shows: names of rotated logs are for people."""
    return datetime.now().astimezone()
