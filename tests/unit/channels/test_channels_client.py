"""The client without a loop, as kubeletctl uses it, against a server in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time

import pytest

from kubelet.channels import client
from kubelet.channels.channels import Channels
from kubelet.channels.errors import (
    DeniedError,
    FailedError,
    HandlerError,
    PeerDownError,
    PeerGoneError,
    RequestTimeoutError,
    SocketPathTooLong,
)
from kubelet.channels.messages import Ping, Pong
from tests.unit.channels.pair import pong


@contextlib.contextmanager
def serving(run_dir, handler, sender="ctl"):
    """Serve ping in a thread; yields a function that closes the server's sockets."""
    started, ready = threading.Event(), {}

    async def serve():
        ready["loop"], ready["stop"] = asyncio.get_running_loop(), asyncio.Event()
        channels = Channels("pleg", run_dir, lambda _uid, _pid: sender, asyncio.create_task)
        await channels.start()
        channels.handle(Ping, handler)
        started.set()
        await ready["stop"].wait()
        await channels.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(10)
    try:
        yield lambda: ready["loop"].call_soon_threadsafe(ready["stop"].set)
    finally:
        with contextlib.suppress(RuntimeError):
            ready["loop"].call_soon_threadsafe(ready["stop"].set)
        thread.join()


def test_a_call_is_answered(run_dir):
    """One call is one connection, and its reply is typed."""
    with serving(run_dir, pong):
        for _ in range(3):
            assert client.call(run_dir, "pleg", Ping(), timeout=5) == Pong("pleg", os.getpid())


def test_an_error_is_raised(run_dir):
    """Error replies become exceptions."""

    async def fail(_message, _caller):
        raise HandlerError("no")

    with serving(run_dir, fail), pytest.raises(FailedError, match="pleg answered ping: no"):
        client.call(run_dir, "pleg", Ping())
    with serving(run_dir, pong, sender="api"), pytest.raises(DeniedError):
        client.call(run_dir, "pleg", client.messages.Restart("x"))


def test_a_silent_process_is_a_time_out(run_dir):
    """The call ends at its time-out, not later."""

    async def sleep(_message, _caller):
        await asyncio.sleep(1)
        return Pong("pleg", 1)

    with serving(run_dir, sleep):
        begun = time.monotonic()
        with pytest.raises(RequestTimeoutError, match=r"did not answer ping within 0\.2 s"):
            client.call(run_dir, "pleg", Ping(), timeout=0.2)
        assert time.monotonic() - begun < 1


def test_a_process_that_goes_away_is_told_at_once(run_dir):
    """The end of the connection ends the wait."""
    closing = []

    async def close(_message, _caller):
        closing[0]()
        await asyncio.sleep(60)

    begun = time.monotonic()
    with serving(run_dir, close) as stop:
        closing.append(stop)
        with pytest.raises(PeerGoneError, match="went away"):
            client.call(run_dir, "pleg", Ping(), timeout=30)
    assert time.monotonic() - begun < 10


def test_no_socket_is_told_at_once(run_dir):
    """Where there is no file nobody will answer."""
    with pytest.raises(PeerDownError, match="is the kubelet running"):
        client.call(run_dir, "pleg", Ping(), timeout=60)


def test_a_socket_that_nobody_listens_at_is_unreachable(run_dir):
    """What a dead process left behind is waited for, but not beyond the time-out."""
    with serving(run_dir, pong):
        pass
    begun = time.monotonic()
    with pytest.raises(PeerDownError, match=r"could not be reached for ping in 0\.2 s"):
        client.call(run_dir, "pleg", Ping(), timeout=0.2)
    assert time.monotonic() - begun < 1


def test_a_run_directory_too_deep_is_named(run_dir):
    """The error of the path check comes through."""
    with pytest.raises(SocketPathTooLong):
        client.call(run_dir / ("d" * 100), "pleg", Ping())
