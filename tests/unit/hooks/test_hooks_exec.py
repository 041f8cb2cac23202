"""Hooks that run a command, or wait, or cannot be run (P-143..P-145)."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest

from kubelet.api.container import Container
from kubelet.api.handlers import ExecAction, LifecycleHandler, SleepAction, TCPSocketAction
from kubelet.cri import api_pb2 as pb
from kubelet.cri.core import grpc
from procs.syncloop.runtime.hooks import HookError, Hooks
from tests.unit.cri.runtime import HANG, Refusal, pair
from tests.unit.hooks.hook_servers import POD

COMMAND = ("sh", "-c", "stop it")
WHERE = 'Exec lifecycle hook ([sh -c stop it]) for Container "c" in Pod "web_ns(u1)" failed'


@pytest.fixture
def sockets():
    """A short directory on a tmpfs, as socket addresses want it."""
    directory = Path(tempfile.mkdtemp(prefix="hook-", dir="/dev/shm"))
    yield directory
    shutil.rmtree(directory)


def ran(directory, said, seconds=None):
    """Run a command as a hook against a runtime; return what the runtime was asked for."""

    async def main():
        async with asyncio.timeout(20), pair(directory) as (runtime, client, _images):
            runtime.answers["ExecSync"] = said
            handler = LifecycleHandler(exec=ExecAction(COMMAND))
            hooks = Hooks(client, lambda *_event: None)
            await hooks.run(POD, Container(name="c"), "id-1", handler, "", seconds)
        return pb.ExecSyncRequest.FromString(runtime.requests[-1][1]), runtime.time_left["ExecSync"]

    return asyncio.run(main())


def test_command_runs_in_the_container(sockets):
    """Without an end to its time, unless it is given one."""
    asked, left = ran(sockets, pb.ExecSyncResponse(stdout=b"done"))
    assert (asked.container_id, tuple(asked.cmd), asked.timeout) == ("id-1", COMMAND, 0)
    assert left is None
    asked, left = ran(sockets, pb.ExecSyncResponse(), seconds=2.5)
    assert asked.timeout == 3
    assert left is not None


def test_command_that_fails(sockets):
    """What it said is in the sentence, as far as it is not too much."""
    said = pb.ExecSyncResponse(stdout=b'a "b"\n', stderr=b"no\n" + b"x" * 20000, exit_code=3)
    with pytest.raises(HookError) as caught:
        ran(sockets, said)
    text = str(caught.value)
    assert text.startswith(f"{WHERE} - error: command 'sh -c stop it' exited with 3: no\n")
    assert 'message: "a \\"b\\"\\nno\\nxxx' in text
    assert len(text) < 21000


def test_runtime_that_refuses(sockets):
    """Its words are in the sentence, as those of a Go kubelet are."""
    refusal = Refusal(grpc.StatusCode.NOT_FOUND, "no such container")
    with pytest.raises(HookError) as caught:
        ran(sockets, refusal)
    words = "rpc error: code = NotFound desc = no such container"
    assert str(caught.value) == f'{WHERE} - error: {words}, message: ""'


def test_hook_can_be_broken_off(sockets):
    """Whoever runs it stops waiting when the grace is over, and so does the runtime."""

    async def main():
        async with asyncio.timeout(20), pair(sockets) as (runtime, client, _images):
            runtime.answers["ExecSync"] = HANG
            handler = LifecycleHandler(exec=ExecAction(COMMAND))
            hooks = Hooks(client, lambda *_event: None)
            run = asyncio.create_task(
                hooks.run(POD, Container(name="c"), "id-1", handler, "", None)
            )
            await runtime.hanging.wait()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            await runtime.given_up.wait()

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [0, None])
def test_sleep_of_nothing_ends_at_once(seconds):
    """A sleep is a hook as any other."""
    handler = LifecycleHandler(sleep=SleepAction(seconds))
    hooks = Hooks(None, lambda *_event: None)
    asyncio.run(hooks.run(POD, Container(name="c"), "id", handler, "", None))


@pytest.mark.parametrize(
    ("handler", "given"),
    [
        (LifecycleHandler(), "nothing"),
        (LifecycleHandler(tcp_socket=TCPSocketAction(port=80)), "tcpSocket"),
    ],
)
def test_hook_that_names_nothing_to_do_fails(handler, given):
    """The API accepts a tcpSocket; there is none for hooks."""
    hooks = Hooks(None, lambda *_event: None)
    with pytest.raises(HookError, match=f"Cannot run handler: invalid handler: {given} in"):
        asyncio.run(hooks.run(POD, Container(name="c"), "id", handler, "", None))
