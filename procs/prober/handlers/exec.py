"""Exec probes: run by ``syncloop``, which has the runtime's socket; this process has none (B-14).

The probe's time-out is the runtime's to keep: it begins when the command does. What is waited for
here is longer by what the way there and back may take on a node that is busy, so that no probe
pays for the way with its own time.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kubelet.channels.errors import ChannelError, PeerGoneError, UnknownRequestError
from kubelet.channels.probing import ExecProbe, ProbeExecuted
from kubelet.process import Process
from procs.prober.job import Job, Outcome, ProbeError, Result

WAY_SECONDS: Final = 15.0  # there and back, with a syncloop that is replaced in between
LIMIT: Final = 224  # at a time: less than may be asked of one process, for it is asked more
_PAUSE: Final = 0.05  # seconds: a syncloop that has just begun does not take requests yet
_SYNCLOOP: Final = "syncloop"


class ExecProbes:
    """Has commands run in containers; that there is one at a time in each is up to who asks."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._asked = 0

    async def run(self, job: Job) -> Outcome:
        """Have the command of a probe run."""
        if self._asked >= LIMIT:
            raise ProbeError(
                f"{self._asked} commands of probes run at the moment, which is the limit"
            )
        self._asked += 1
        try:
            return outcome(await self._persist(job))
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
