"""Exec probes: run by ``syncloop``, which has the runtime's socket; this process has none (B-14).

The probe's time-out is the runtime's to keep: it begins when the command does. What is waited for
here is longer by what the way there and back may take on a node that is busy, so that no probe
pays for the way with its own time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from kubelet.channels.errors import ChannelError, PeerGoneError, UnknownRequestError
from kubelet.channels.probing import ExecProbe, ProbeExecuted
from kubelet.pods.probes import ProbeKind
from kubelet.process import Process
from procs.prober.job import Job, Outcome, ProbeError, Result

WAY_SECONDS: Final = 15.0  # there and back, with a syncloop that is replaced in between
LIMIT: Final = (
    224  # at a time; less than may be asked of one process, which is asked more than this
)
_PAUSE: Final = 0.05  # seconds: a syncloop that has just begun does not take requests yet
_SYNCLOOP: Final = "syncloop"


@dataclass(slots=True)
class _Turn:
    """The probes of one container that run, or wait for their turn."""

    kinds: set[ProbeKind] = field(default_factory=set)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ExecProbes:
    """Has commands run in containers, one at a time in each."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._turns: dict[str, _Turn] = {}
        self._asked = 0

    async def run(self, job: Job) -> Outcome:
        """Have the command of a probe run, after those of the container's other probes."""
        turn = self._turns.setdefault(job.container_id, _Turn())
        if job.kind in turn.kinds:
            raise ProbeError(f"the {job.kind} probe before this one still runs")
        turn.kinds.add(job.kind)
        try:
            async with turn.lock:
                return outcome(await self._ask(job))
        finally:
            turn.kinds.discard(job.kind)
            if not turn.kinds:
                self._turns.pop(job.container_id, None)

    async def _ask(self, job: Job) -> ProbeExecuted:
        if self._asked >= LIMIT:
            raise ProbeError(
                f"{self._asked} commands of probes run at the moment, which is the limit"
            )
        self._asked += 1
        try:
            return await self._persist(job)
        except ChannelError as err:
            raise ProbeError(f"exec probe could not be made: {err}") from None
        finally:
            self._asked -= 1

    async def _persist(self, job: Job) -> ProbeExecuted:
        """Ask until there is an answer: a syncloop that died is replaced within milliseconds.

        A command that went with it may run again, as any probe's does.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + job.seconds + WAY_SECONDS
        request = ExecProbe(job.pod.uid, job.container_id, job.kind.value)
        while True:
            left = end - loop.time()
            try:
                return await self._process.channels.ask(_SYNCLOOP, request, timeout=left)
            except (PeerGoneError, UnknownRequestError):
                if end - loop.time() < job.seconds + _PAUSE:
                    raise
            await asyncio.sleep(_PAUSE)


def outcome(executed: ProbeExecuted) -> Outcome:
    """Say what came of a command; ProbeError when there was none."""
    if executed.busy:
        raise ProbeError("a command of a probe before this one still runs in the container")
    if executed.error:
        raise ProbeError(executed.error)
    if executed.timed_out:
        return Outcome(Result.FAILURE, executed.output)
    result = Result.FAILURE if executed.exit_code else Result.SUCCESS
    return Outcome(result, executed.output)
