"""HTTP probes of servers that do not behave: the right result, in time, with little memory."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
import tracemalloc

import pytest

from procs.prober.handlers.http import probe_http
from procs.prober.handlers.resolve import Resolver
from procs.prober.handlers.tcp import probe_tcp
from procs.prober.job import ProbeError, Result
from tests.unit.prober.probe_servers import (
    HOST,
    OK,
    closed_port,
    http_job,
    listening,
    saying,
    tcp_job,
)

HEAD = b"HTTP/1.1 200 OK\r\n"
LATE = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"


def probed(serve, **action):
    """Probe a server; return the outcome, with its port written as PORT."""

    async def main():
        async with listening(serve) as port:
            outcome = await probe_http(http_job(port, **action))
            return outcome.result, outcome.output.replace(str(port), "PORT")

    return asyncio.run(main())


def endless(first, piece):
    """A server that never stops."""

    async def serve(reader, writer):
        await reader.read(4096)
        writer.write(first)
        while True:
            writer.write(piece)
            await writer.drain()

    return serve


async def byte_by_byte(reader, writer):
    """Say a whole answer in pieces of one byte."""
    await reader.read(4096)
    for at in range(len(OK)):
        writer.write(OK[at : at + 1])
        await writer.drain()
        await asyncio.sleep(0)
    await reader.read()


@pytest.mark.parametrize(
    ("serve", "why"),
    [
        (saying(hangs=True), LATE),
        (saying(HEAD, b"X", b":", hangs=True), LATE),
        (saying(), "EOF"),
        (saying(b"garbage\r\n"), 'malformed HTTP response "garbage"'),
        (saying(HEAD + b"X: "), "unexpected EOF"),
        (endless(HEAD, b"X: y\r\n" * 10000), "server response headers exceeded 10485760 bytes"),
        (endless(HEAD + b"X: ", b"y" * 60000), "server response headers exceeded 10485760 bytes"),
    ],
)
def test_server_without_an_answer_fails(serve, why: str):
    """Whether it is silent, hangs up, or says what is no HTTP."""
    seconds = 0.2 if why is LATE else 30
    result, output = probed(serve, seconds=seconds)
    assert result is Result.FAILURE
    assert output.startswith('Get "http://127.0.0.1:PORT/x": ')
    assert why in output


def test_headers_that_come_byte_by_byte_are_an_answer():
    """As long as they come in time; the connection may stay open."""
    assert probed(byte_by_byte) == (Result.SUCCESS, "ok")


def test_body_without_end_is_a_success():
    """Its first 10 KiB are enough (B-12)."""
    result, output = probed(endless(HEAD + b"\r\n", b"x" * 60000))
    assert (result, output) == (Result.SUCCESS, "x" * 10240)


@pytest.mark.parametrize(
    ("serve", "why"),
    [
        (saying(HEAD + b"\r\nab", hangs=True), "while reading body"),
        (saying(HEAD + b"Content-Length: 5\r\n\r\nab"), "unexpected EOF"),
    ],
)
def test_body_that_breaks_off_is_an_error(serve, why: str):
    """As it is of a Go kubelet: the round counts for nothing (B-8)."""
    with pytest.raises(ProbeError, match=why):
        probed(serve, seconds=0.2 if "while" in why else 30)


def test_connection_that_is_reset_fails():
    """Both ends are told."""
    result, output = probed(saying(HEAD, resets=True))
    assert result is Result.FAILURE
    assert output.startswith('Get "http://127.0.0.1:PORT/x": read tcp 127.0.0.1:')
    assert output.endswith("->127.0.0.1:PORT: read: connection reset by peer")


def test_closed_port_and_unknown_name_fail_a_request():
    """In Go's words."""

    def nobody(_name):
        raise socket.gaierror(socket.EAI_NONAME, "x")

    with closed_port() as port:
        outcome = asyncio.run(probe_http(http_job(port)))
        where = f'Get "http://{HOST}:{port}/x": dial tcp {HOST}:{port}'
        assert outcome.output == f"{where}: connect: connection refused"
    outcome = asyncio.run(probe_http(http_job(80, host="no.test"), Resolver(nobody)))
    assert outcome.result is Result.FAILURE
    assert outcome.output == 'Get "http://no.test:80/x": dial tcp: lookup no.test: no such host'


def test_much_that_is_sent_is_not_held():
    """Ten mebibytes of head cost less than one of memory, the server's own included."""

    async def main():
        async with listening(endless(HEAD, b"X: y\r\n" * 1000)) as port:
            tracemalloc.start()
            outcome = await probe_http(http_job(port))
            _now, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            return outcome, most

    outcome, most = asyncio.run(main())
    assert outcome.result is Result.FAILURE
    assert most < 1 << 20


def test_no_descriptor_is_left_behind():
    """Neither by a success, nor by a failure, nor by a probe that is broken off."""

    async def main(port):
        before = len(os.listdir("/proc/self/fd"))
        broken_off = asyncio.create_task(probe_http(http_job(port)))
        await asyncio.sleep(0)
        assert len(os.listdir("/proc/self/fd")) == before + 1
        broken_off.cancel()
        with pytest.raises(asyncio.CancelledError):
            await broken_off
        assert (await probe_http(http_job(port, seconds=0.1))).result is Result.FAILURE
        assert (await probe_tcp(tcp_job(port))).result is Result.SUCCESS
        await probe_tcp(tcp_job(1))
        await probe_http(http_job(1))
        assert len(os.listdir("/proc/self/fd")) == before

    with socket.create_server((HOST, 0)) as silent:  # the kernel takes connections for it
        asyncio.run(main(silent.getsockname()[1]))


class Slow:
    """A server in a thread, as the loop of the probe is made to stand still."""

    def __init__(self):
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.heard, self.may_answer, self.answered = (threading.Event() for _ in range(3))
        self.thread = threading.Thread(target=self._serve)

    def _serve(self):
        connection, _ = self.listener.accept()
        with connection:
            connection.recv(4096)
            self.heard.set()
            self.may_answer.wait(60)
            connection.sendall(OK)
            self.answered.set()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.may_answer.set()
        self.thread.join()
        self.listener.close()


def stand_still(server, seconds):
    """Keep the loop from its work, for longer than a probe may take, after a server has heard."""
    server.heard.wait(60)
    time.sleep(seconds)  # this is what is wrong with the loop


def test_answer_that_came_while_we_were_late_counts():
    """It was there before anybody looked (users-pains 30)."""

    async def main():
        with Slow() as server:
            server.may_answer.set()
            probe = asyncio.create_task(probe_http(http_job(server.port, seconds=0.2)))
            await asyncio.sleep(0)
            stand_still(server, 0.5)
            server.answered.wait(60)
            return await probe

    outcome = asyncio.run(main())
    assert outcome.result is Result.SUCCESS
    assert outcome.late_ns > 0


def test_time_that_we_took_is_given_back():
    """A server that could not answer in time because of us gets its time."""

    async def main():
        with Slow() as server:
            probe = asyncio.create_task(probe_http(http_job(server.port, seconds=1)))
            await asyncio.sleep(0)
            stand_still(server, 1.5)
            await asyncio.sleep(0.01)  # the loop has looked, and its timer was due
            assert not probe.done()
            server.may_answer.set()
            return await probe

    outcome = asyncio.run(main())
    assert outcome.result is Result.SUCCESS
    assert outcome.late_ns > 0
