"""What answers is not a runtime: a typed error with a clear sentence, in time, and nothing left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import subprocess
import sys
import time

import pytest

from kubelet.cri.errors import CriError, TimedOut, Unreachable
from tests.unit.cri import bad_peers
from tests.unit.cri.runtime import HANG, Runtime, serving

NOBODY = 65534

CASES = {
    "silent": (TimedOut, "no answer from the runtime at {} within 1s"),
    "mute": (TimedOut, "no answer from the runtime at {} within 1s"),
    "garbage": (Unreachable, "cannot reach the runtime at {}: what answers does not speak gRPC: "),
    "http1": (Unreachable, "cannot reach the runtime at {}: what answers does not speak gRPC: "),
    "closer": (
        Unreachable,
        "cannot reach the runtime at {}: the connection was accepted and closed at once",
    ),
    "garbled": (Unreachable, "what answers at {} does not speak gRPC: "),
    "deserter": (Unreachable, "the runtime at {} closed the connection: "),
    "missing": (Unreachable, "cannot reach the runtime at {}: there is no such socket"),
    "directory": (Unreachable, "cannot reach the runtime at {}: it is a directory"),
    "file": (Unreachable, "cannot reach the runtime at {}: it is not a socket"),
    "dead": (
        Unreachable,
        "cannot reach the runtime at {}: nobody listens on the socket: the runtime is not running",
    ),
}


def descriptors():
    gc.collect()
    return set(os.listdir("/proc/self/fd"))


def test_the_cases_are_complete():
    """Every bad peer has its sentence."""
    assert set(CASES) == {*bad_peers.TALKERS, *bad_peers.THINGS}


@pytest.mark.parametrize("name", sorted(CASES))
def test_bad_peer(sockets, name):
    """The error has its type, its sentence with the call and the endpoint, and its time."""
    kind, sentence = CASES[name]
    path = sockets / name
    with bad_peers.peer(name, path):
        began = time.monotonic()
        with pytest.raises(CriError) as caught:
            asyncio.run(bad_peers.version(path))
        assert time.monotonic() - began < bad_peers.TIMEOUT + 4
    assert type(caught.value) is kind
    assert str(caught.value).startswith(f"Version: {sentence.format(f'unix://{path}')}")


def test_a_peer_that_only_accepts_is_given_up_after_five_seconds(sockets):
    """R-4: an attempt to connect takes five seconds at most, however long the call may take."""
    path = sockets / "silent"
    with bad_peers.peer("silent", path):
        began = time.monotonic()
        with pytest.raises(Unreachable, match="and then nothing came: the runtime hangs"):
            asyncio.run(bad_peers.version(path, seconds=60))
        assert 4 < time.monotonic() - began < 8


def test_bad_peers_cost_no_descriptor(sockets):
    """A hundred failures later, as many files are open as after the first few."""
    names = ("garbage", "http1", "closer", "missing", "dead")

    async def fail(times):
        for _ in range(times):
            for name in names:
                with pytest.raises(Unreachable):
                    await bad_peers.version(sockets / name)

    async def main():
        await fail(1)
        before = await settled()
        await fail(20)
        assert await settled() <= before

    with contextlib.ExitStack() as peers:
        for name in names:
            peers.enter_context(bad_peers.peer(name, sockets / name))
        asyncio.run(main())


async def settled():
    """How many files are open once the peers' threads and the core have closed theirs."""
    last = -1
    while (now := len(descriptors())) != last:
        last = now
        await asyncio.sleep(0.2)  # nothing tells that a thread of the core is done
    return last


def test_a_socket_that_is_not_ours_to_use(sockets):
    """Without the right to connect, the sentence says so; as root, a child becomes nobody first."""
    path = sockets / "forbidden"
    with bad_peers.listening(path, bad_peers.silent):
        path.chmod(0)
        if os.getuid() == 0:
            sockets.chmod(0o755)
            lines, _ = child(sockets, str(NOBODY))
            name, kind, text = lines[0].split("\t")
            assert (name, kind) == ("forbidden", "Unreachable")
        else:
            with pytest.raises(Unreachable) as caught:
                asyncio.run(bad_peers.version(path))
            text = str(caught.value)
    assert text == f"Version: cannot reach the runtime at unix://{path}: permission denied"


def child(*arguments):
    """Run the calls in a new process, which has loaded gRPC as the kubelet does."""
    command = [sys.executable, "-m", "tests.unit.cri.bad_peers", *map(str, arguments)]
    environment = {key: value for key, value in os.environ.items() if key != "GRPC_VERBOSITY"}
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    return run.stdout.splitlines(), run.stderr.splitlines()


def test_nothing_but_our_log_is_on_stderr(sockets):
    """The core of gRPC keeps quiet, whatever the peer; our own log says each failure once."""
    lines, noise = child(sockets)
    assert [line.split("\t")[0] for line in lines] == [*bad_peers.TALKERS, *bad_peers.THINGS]
    ours = re.compile(r'^E\d{4} .* complaints\.py:\d+\] "Runtime call failed" err="Version: ')
    assert [line for line in noise if not ours.match(line)] == []
    assert len(noise) == len(lines)


GOODBYE = """
import asyncio, os, sys
from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import CriError
async def main():
    assert "GRPC_VERBOSITY" not in os.environ
    async with await RuntimeClient.connect("unix://" + sys.argv[1], timeout=30) as client:
        try:
            await client.list_containers()
        except CriError as error:
            print(type(error).__name__)
asyncio.run(main())
"""


def test_a_runtime_that_says_goodbye_is_no_noise(sockets):
    """A runtime that stops in the middle of a call is an error of the call, and no more."""

    async def main():
        path = sockets / "runtime.sock"
        runtime = Runtime({"ListContainers": HANG})
        async with serving(path, runtime):
            caller = await asyncio.create_subprocess_exec(
                sys.executable, "-c", GOODBYE, str(path), stdout=-1, stderr=-1
            )
            await asyncio.wait_for(runtime.hanging.wait(), 20)
        out, err = await asyncio.wait_for(caller.communicate(), 20)
        assert out.split() in ([b"Unavailable"], [b"Unreachable"])
        assert [line for line in err.splitlines() if b"Runtime call failed" not in line] == []

    asyncio.run(main())
