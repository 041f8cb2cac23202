"""Exec probes as ``prober`` sees them: asked of another process over real channels (B-14)."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from kubelet.api.container import Container
from kubelet.api.handlers import ExecAction, Probe
from kubelet.api.meta import ObjectMeta
from kubelet.api.pod import Pod
from kubelet.channels.channels import Channels
from kubelet.channels.probing import ExecProbe, ProbeExecuted
from kubelet.pods.probes import ProbeKind
from procs.prober.handlers.exec import ExecProbes, outcome
from procs.prober.job import Job, Outcome, ProbeError, Result

PATIENT = 30.0


def job(kind=ProbeKind.LIVENESS, container_id="id"):
    """A probe of a container."""
    pod = Pod(metadata=ObjectMeta(uid="u1"))
    probe = Probe(exec=ExecAction(("true",)), timeout_seconds=5)
    return Job(pod, Container(name="c"), container_id, kind, probe, "")


@pytest.fixture
def run_dir():
    """A run directory short enough for names of sockets."""
    directory = Path(tempfile.mkdtemp(prefix="ex-", dir="/dev/shm"))
    for kind in ("syncloop", "prober"):
        (directory / "channels" / kind).mkdir(parents=True)
    yield directory
    shutil.rmtree(directory)


class Ends:
    """Both ends: those of prober, and syncloops that come and go."""

    def __init__(self, run_dir, group):
        self._run_dir = run_dir
        self._group = group
        self.prober = Channels("prober", run_dir, lambda _uid, _pid: "syncloop", group.create_task)
        self.probes = ExecProbes(SimpleNamespace(channels=self.prober))
        self.syncloop = None

    async def serve(self, handler=None):
        """Have a syncloop that answers so; without a handler it has just begun."""
        self.syncloop = Channels(
            "syncloop", self._run_dir, lambda _uid, _pid: "prober", self._group.create_task
        )
        await self.syncloop.start()
        if handler is not None:
            self.syncloop.handle(ExecProbe, handler)


@contextlib.asynccontextmanager
async def ends(run_dir, handler=None):
    """Start both ends."""
    async with asyncio.TaskGroup() as group:
        both = Ends(run_dir, group)
        await both.prober.start()
        await both.serve(handler)
        try:
            async with asyncio.timeout(PATIENT):
                yield both
        finally:
            await both.prober.close()
            await both.syncloop.close()


@pytest.mark.parametrize(
    ("executed", "found"),
    [
        (ProbeExecuted(), Outcome(Result.SUCCESS)),
        (ProbeExecuted(exit_code=1, output="no"), Outcome(Result.FAILURE, "no")),
        (
            ProbeExecuted(timed_out=True, output='command timed out: "a b" timed out after 1s'),
            Outcome(Result.FAILURE, 'command timed out: "a b" timed out after 1s'),
        ),
    ],
)
def test_what_a_command_came_to(executed, found):
    """B-14: the exit code decides, and a command that had to be stopped has failed."""
    assert outcome(executed) == found


@pytest.mark.parametrize(
    ("executed", "text"),
    [
        (ProbeExecuted(error="rpc error: x"), "^rpc error: x$"),
        (ProbeExecuted(busy=True), "still runs in the container"),
    ],
)
def test_a_command_that_was_not_run_says_nothing_of_the_container(executed, text):
    """B-8: such a round is unknown."""
    with pytest.raises(ProbeError, match=text):
        outcome(executed)


def test_a_probe_is_asked_of_syncloop(run_dir):
    """B-14: by pod, container and probe; the command itself is not sent."""
    asked = []

    async def answer(request, _caller):
        asked.append(request)
        return ProbeExecuted(exit_code=3, output="bad")

    async def main():
        async with ends(run_dir, answer) as both:
            return await both.probes.run(job(ProbeKind.READINESS))

    assert asyncio.run(main()) == Outcome(Result.FAILURE, "bad")
    assert asked == [ExecProbe("u1", "id", "readiness")]


def test_a_syncloop_that_dies_is_not_the_containers_fault(run_dir):
    """The one that follows is asked again, also while it does not take requests yet."""

    async def main():
        inside = asyncio.Event()

        async def never(_request, _caller):
            inside.set()
            await asyncio.Event().wait()

        async def answer(_request, _caller):
            return ProbeExecuted()

        async with ends(run_dir, never) as both:
            probing = asyncio.create_task(both.probes.run(job()))
            await inside.wait()
            await both.syncloop.close()
            await both.serve()
            while not both.syncloop.counters()["requests_received"]:  # noqa: ASYNC110 - libzmq's
                await asyncio.sleep(0.001)
            both.syncloop.handle(ExecProbe, answer)
            found = await probing
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()  # the handler that died with its process
            return found

    assert asyncio.run(main()) == Outcome(Result.SUCCESS)
