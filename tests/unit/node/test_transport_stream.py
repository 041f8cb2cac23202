"""Answers that go on, as watches do."""

from __future__ import annotations

import asyncio

import pytest
from transport_kit import Server, States, answer, endpoint, serving

from procs.node.apiserver import http1
from procs.node.apiserver.connection import Connection
from procs.node.apiserver.types import ApiError, Request

WATCH = Request("GET", "/api/v1/pods?watch=1", seconds=10.0)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data):
    return b"%x\r\n" % len(data) + data + b"\r\n"


def talk(handler, story):
    async def whole():
        async with serving(Server(handler)) as server:
            states = States()
            connection = Connection(endpoint(server), states, environment={})
            try:
                await story(server, connection, states)
            finally:
                await connection.close()

    asyncio.run(asyncio.wait_for(whole(), 120))


async def taken(stream, got):
    """Take a stream to its end."""
    async for data in stream:
        got.append(data)


def test_pieces_come_as_they_are_sent():
    """Each piece is there when it was sent: the server waits until it was seen."""
    seen = asyncio.Event()

    async def handler(_asked, writer):
        writer.write(HEAD)
        for text in (b"one", b"two", b"three"):
            writer.write(chunk(text))
            await writer.drain()
            await seen.wait()
            seen.clear()
        writer.write(b"0\r\n\r\n")

    async def story(server, connection, states):
        got = []
        async with connection.stream(WATCH) as stream:
            assert stream.status == 200
            assert stream.headers["content-type"] == "application/json"
            async for data in stream:
                got.append(data)
                seen.set()
        assert got == [b"one", b"two", b"three"]
        assert server.asked[0].header("accept-encoding") is None
        assert states.told == [None]

    talk(handler, story)


def test_each_stream_has_a_connection_and_requests_have_theirs():
    """Many watches leave the connections for requests alone."""

    async def handler(asked, writer):
        if "watch" in asked.path:
            writer.write(HEAD + chunk(b"x"))
        else:
            writer.write(answer())

    async def story(server, connection, _states):
        async def watch(opened, end):
            async with connection.stream(WATCH):
                opened.release()
                await end.wait()

        opened, end = asyncio.Semaphore(0), asyncio.Event()
        tasks = [asyncio.create_task(watch(opened, end)) for _ in range(20)]
        for _ in tasks:
            await opened.acquire()
        assert (await connection.send(Request("GET", "/x"))).status == 200
        assert server.connections == 21
        end.set()
        await asyncio.gather(*tasks)

    talk(handler, story)


def test_end_within_the_body_is_an_error_after_all_that_came():
    """A server that dies in the middle of a watch: what it said counts, and the end is named."""

    async def handler(_asked, writer):
        writer.write(HEAD + chunk(b"one") + b"10\r\nhalf")
        await writer.drain()
        return False

    async def story(_server, connection, _states):
        got = []
        async with connection.stream(WATCH) as stream:
            with pytest.raises(ApiError, match="/api/v1/pods: the answer ended in the") as error:
                await taken(stream, got)
        assert b"".join(got) == b"onehalf"
        assert error.value.unreachable

    talk(handler, story)


def test_garbage_within_the_body_is_an_error():
    """A frame that is no chunk ends the stream with a sentence."""

    async def handler(_asked, writer):
        writer.write(HEAD + chunk(b"one") + b"this is no chunk\r\n")

    async def story(_server, connection, _states):
        async with connection.stream(WATCH) as stream:
            with pytest.raises(ApiError, match="the answer is not HTTP"):
                await taken(stream, [])

    talk(handler, story)


def test_head_must_come_in_time_and_the_body_need_not():
    """A stream without a head is given up; one with a head may be silent for hours."""
    late = asyncio.Event()

    async def handler(asked, writer):
        if asked.path == "/head":
            writer.write(HEAD)
            await writer.drain()
            await late.wait()
            writer.write(chunk(b"late") + b"0\r\n\r\n")

    async def story(_server, connection, states):
        with pytest.raises(ApiError, match="no answer within 1 s"):
            async with connection.stream(Request("GET", "/never", seconds=1.0)):
                pytest.fail("there is no head")
        assert "no answer" in states.told[-1]
        async with connection.stream(Request("GET", "/head", seconds=30.0)) as stream:
            loop = asyncio.get_running_loop()
            true_time = loop.time
            loop.time = lambda: true_time() + 60.0  # a limit that was still set would be over
            await asyncio.sleep(0.01)
            late.set()
            assert [data async for data in stream] == [b"late"]

    talk(handler, story)


def test_refusal_is_read_like_any_body():
    """A status other than 200 has a body that says why."""

    async def handler(_asked, writer):
        writer.write(answer(410, b'{"reason":"Expired"}'))

    async def story(_server, connection, _states):
        async with connection.stream(WATCH) as stream:
            assert stream.status == 410
            assert b"".join([data async for data in stream]) == b'{"reason":"Expired"}'

    talk(handler, story)


def test_slow_reader_makes_the_server_wait(monkeypatch):
    """What is not taken does not pile up here without end, and nothing of it is lost."""
    monkeypatch.setattr(http1, "_AHEAD", 100_000)
    sent = [0]

    async def handler(_asked, writer):
        writer.write(HEAD)
        for _ in range(2000):
            writer.write(chunk(b"a" * 10_000))
            await writer.drain()
            sent[0] += 10_000
        writer.write(b"0\r\n\r\n")

    async def story(_server, connection, _states):
        async with connection.stream(WATCH) as stream:
            async with asyncio.timeout(10):
                before = -1
                while sent[0] != before:  # until the server is stuck
                    before = sent[0]
                    await asyncio.sleep(0.1)
            assert sent[0] < 20_000_000
            assert stream.flow._waiting < 1_000_000
            assert sum([len(data) async for data in stream]) == 20_000_000

    talk(handler, story)


def test_leaving_the_block_closes_the_connection():
    """The server sees the end of a watch that nobody wants any more."""
    ended = asyncio.Event()

    async def handler(_asked, writer):
        writer.write(HEAD + chunk(b"x"))
        await writer.drain()
        try:
            while True:
                writer.write(chunk(b"x"))
                await writer.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            ended.set()
        return False

    async def story(_server, connection, _states):
        async with connection.stream(WATCH):
            pass
        await asyncio.wait_for(ended.wait(), 10)
        assert not connection._streams

    talk(handler, story)


def test_closing_ends_streams():
    """Closing the connection ends watches that are waiting."""

    async def handler(_asked, writer):
        writer.write(HEAD + chunk(b"x"))

    async def story(_server, connection, _states):
        async with connection.stream(WATCH) as stream:
            waiting = asyncio.create_task(taken(stream, []))
            await asyncio.sleep(0)
            await connection.close()
            with pytest.raises(ApiError, match="closed here"):
                await waiting

    talk(handler, story)
