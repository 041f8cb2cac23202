"""The requests that every process answers."""

from __future__ import annotations

import asyncio
import io
import os

from kubelet import logging as klog
from kubelet.channels import messages
from kubelet.channels.errors import HandlerError
from kubelet.channels.server import Caller
from kubelet.process import sampler
from kubelet.process.process import Process, RestartWantedError

log = klog.get_logger(__name__)

_PROFILE_BYTES = 900_000  # fits into one frame of a channel


class CommonRequests:
    """Handlers over a process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        channels = process.channels
        channels.handle(messages.Ping, self.ping)
        channels.handle(messages.Tasks, self.tasks)
        channels.handle(messages.Profile, self.profile)
        channels.handle(messages.Metrics, self.metrics)
        channels.handle(messages.CheckTable, self.check_table)
        channels.handle(messages.Restart, self.restart)
        channels.handle(messages.SetVerbosity, self.set_verbosity)

    async def ping(self, _request: messages.Ping, _caller: Caller) -> messages.Pong:
        """Answer."""
        return messages.Pong(self._process.kind, os.getpid())

    async def tasks(self, _request: messages.Tasks, _caller: Caller) -> messages.TaskStacks:
        """Show where each task waits."""
        text = io.StringIO()
        for task in sorted(asyncio.all_tasks(), key=lambda t: t.get_name()):
            text.write(f"{task.get_name()}\n")
            task.print_stack(file=text)
        return messages.TaskStacks(text.getvalue())

    async def profile(self, request: messages.Profile, _caller: Caller) -> messages.Profiled:
        """Sample this process."""
        try:
            found = await sampler.profile(request.seconds, request.hertz, request.mode)
        except (ValueError, sampler.SamplerBusyError) as err:
            raise HandlerError(str(err)) from None
        stacks = sampler.fit(found.stacks, _PROFILE_BYTES)
        return messages.Profiled(found.metadata.samples, stacks)

    async def metrics(
        self, _request: messages.Metrics, _caller: Caller
    ) -> messages.MetricsSnapshot:
        """Hand out the counters."""
        counters = dict(self._process.channels.counters())
        gauges = {k: float(v) for k, v in self._process.channels.depths().items()}
        gauges["log_lines_lost"] = float(klog.lost_lines())
        return messages.MetricsSnapshot(counters, gauges)

    async def check_table(
        self, request: messages.CheckTable, _caller: Caller
    ) -> messages.TableChecked:
        """Look at a table of ours that a reader could not make sense of; start anew if it is so."""
        writer = self._process.tables.writers.get(request.table)
        if writer is None:
            raise HandlerError(f"{self._process.kind} does not write table {request.table!r}")
        problem = writer.verify()
        if problem is not None:
            reason = f"table {request.table} is broken: {problem}"
            self._process.spawn(self._leave(reason), name="restart")
        return messages.TableChecked(request.table, writer.generation, problem)

    async def restart(self, request: messages.Restart, _caller: Caller) -> messages.Restarting:
        """Start anew."""
        self._process.spawn(self._leave(request.reason), name="restart")
        return messages.Restarting(os.getpid())

    async def _leave(self, reason: str) -> None:
        await asyncio.sleep(0)  # the answer goes out first
        raise RestartWantedError(reason)

    async def set_verbosity(
        self, request: messages.SetVerbosity, _caller: Caller
    ) -> messages.VerbositySet:
        """Log more or less."""
        previous = klog.verbosity()
        klog.set_verbosity(request.level)
        log.info("Verbosity changed", was=previous, now=request.level)
        return messages.VerbositySet(previous)
