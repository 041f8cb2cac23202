"""A server that comes to a halt, and one that comes and goes."""

from __future__ import annotations

import asyncio

import pytest
from transport_kit import Server, States, answer, endpoint, serving

from procs.node.apiserver.connection import Connection
from procs.node.apiserver.types import ApiError, Purpose, Request
from procs.node.troubles import Troubles
from tests.unit.node.nodeobject_scene import Process

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"3\r\none\r\n"
BEAT = Request("PUT", "/lease", purpose=Purpose.HEARTBEAT, seconds=0.2)
CALL = Request("PUT", "/pod", purpose=Purpose.MAIN, seconds=0.2)


class Halting(Server):
    """Answers heartbeats unless it halts, and streams that go on when told."""

    def __init__(self):
        self.halts = False
        self.more = asyncio.Event()
        super().__init__(self._handle)

    async def _handle(self, asked, writer):
        if asked.method == "GET":
            writer.write(HEAD + CHUNK)
            await writer.drain()
            await self.more.wait()
            writer.write(CHUNK)
            await asyncio.Event().wait()
        elif not self.halts:
            writer.write(answer(200, b"{}"))


def talk(story):
    async def whole():
        async with serving(Halting()) as server:
            connection = Connection(endpoint(server), States(), environment={})
            try:
                await story(server, connection)
            finally:
                await connection.close()

    asyncio.run(asyncio.wait_for(whole(), 60))


async def halt(server, connection, request):
    """Have one request without an answer."""
    server.halts = True
    with pytest.raises(ApiError, match="no answer within"):
        await connection.send(request)
    server.halts = False


@pytest.mark.parametrize(("request_", "ends"), [(BEAT, True), (CALL, False)])
def test_streams_that_came_to_a_halt_with_the_server_end(request_, ends):
    """After a heartbeat without an answer, the next answer ends what has not moved since.

    Other calls may take their time: for them no watch is given up.
    """

    async def story(server, connection):
        async with connection.stream(Request("GET", "/watch")) as stream:
            pieces = aiter(stream)
            assert await anext(pieces) == b"one"
            await halt(server, connection, request_)
            await connection.send(BEAT)
            if ends:
                with pytest.raises(ApiError, match="nothing came while the server did not"):
                    await anext(pieces)
            else:
                server.more.set()
                assert await anext(pieces) == b"one"

    talk(story)


def test_a_stream_that_goes_on_stays():
    """What has brought something since was not at a halt."""

    async def story(server, connection):
        async with connection.stream(Request("GET", "/watch")) as stream:
            pieces = aiter(stream)
            assert await anext(pieces) == b"one"
            await halt(server, connection, BEAT)
            server.more.set()
            assert await anext(pieces) == b"one"
            await connection.send(BEAT)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(pieces), 0.05)

    talk(story)


def test_a_server_that_comes_and_goes_is_not_logged_each_time(tmp_path, capfd):
    """A few lines a minute; the row says what is true at any time."""
    now = [10**18]
    troubles = Troubles(Process(tmp_path), wall=lambda: now[0])
    for _ in range(50):
        for error in (None, "connection refused"):
            troubles.connected(error)
            assert troubles.row.connected == (error is None)
    lines = [line for line in capfd.readouterr().err.splitlines() if "API server" in line]
    assert len(lines) == 7
    assert "comes and goes" in lines[-1]
    now[0] += 60 * 10**9
    troubles.connected(None)
    assert "API server answers" in capfd.readouterr().err
