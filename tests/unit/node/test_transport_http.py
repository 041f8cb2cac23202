"""Requests and answers over real sockets: connections kept, connections lost, odd answers."""

from __future__ import annotations

import asyncio
import gzip
import re
import socket

import pytest
from transport_kit import Server, States, answer, endpoint, serving

from procs.node.apiserver import http1
from procs.node.apiserver.connection import LIMITS, Connection
from procs.node.apiserver.pool import Pool
from procs.node.apiserver.types import ApiError, PatchType, Purpose, Request

GET = Request("GET", "/api/v1/nodes/n?watch=0")


def run(story):
    asyncio.run(asyncio.wait_for(story, 120))


def talk(handler, story, **fields):
    """Run a story with a server and a connection to it."""

    async def whole():
        async with serving(Server(handler)) as server:
            states = States()
            connection = Connection(endpoint(server, **fields), states, environment={})
            try:
                await story(server, connection, states)
            finally:
                await connection.close()

    run(whole())


async def good(_asked, writer):
    writer.write(answer(body=b'{"kind":"Node"}', headers=("X-Odd: Value",)))


def says(data):
    """Return a handler that sends bytes and closes."""

    async def handler(_asked, writer):
        writer.write(data)
        return False

    return handler


def test_request_goes_out_as_a_kubelet_sends_it():
    """Method, path, host, agent and body arrive; the answer's header names are in lower case."""

    async def story(server, connection, states):
        body = b'{"a":1}'
        request = Request("PATCH", "/api/v1/nodes/n/status", body, PatchType.MERGE)
        response = await connection.send(request)
        assert (response.status, response.body) == (200, b'{"kind":"Node"}')
        assert response.headers["x-odd"] == "Value"
        asked = server.asked[0]
        assert (asked.method, asked.path) == ("PATCH", "/api/v1/nodes/n/status")
        assert asked.body == body
        assert asked.header("content-type") == "application/merge-patch+json"
        assert asked.header("host") == f"127.0.0.1:{server.port}"
        agent = asked.header("user-agent")
        assert re.fullmatch(r"kubelet/v\d+\.\d+\.\d+ \(linux/\w+\) kubernetes", agent)
        assert asked.header("accept") == "application/json"
        assert asked.header("accept-encoding") is None
        assert asked.header("authorization") is None
        assert states.told == [None]

    talk(good, story)


def test_server_below_a_path():
    """A server behind a gateway has a path of its own, which stands before each request's."""

    async def story():
        async with serving(Server(good)) as server:
            where = endpoint(server)
            where = type(where)(server=f"{server.url}/k8s/clusters/c1")
            connection = Connection(where, States(), environment={})
            await connection.send(GET)
            await connection.close()
            assert server.asked[0].path == "/k8s/clusters/c1/api/v1/nodes/n?watch=0"

    run(story())


def test_connection_is_kept_and_purposes_do_not_share():
    """Requests after each other use one connection; another purpose has its own."""

    async def story(server, connection, _states):
        for _ in range(3):
            await connection.send(GET)
        await connection.send(Request("GET", "/x", purpose=Purpose.HEARTBEAT))
        assert [asked.connection for asked in server.asked] == [1, 1, 1, 2]

    talk(good, story)


def test_connections_are_bounded_and_a_heartbeat_does_not_wait():
    """More requests than connections wait their turn, but not those of another purpose."""
    gate = asyncio.Event()

    async def slow(asked, writer):
        if asked.path == "/slow":
            await gate.wait()
        writer.write(answer())

    async def story(server, connection, _states):
        slow_ones = [
            asyncio.create_task(connection.send(Request("GET", "/slow"))) for _ in range(20)
        ]
        while len(server.asked) < LIMITS[Purpose.MAIN]:  # noqa: ASYNC110 - the server is here
            await asyncio.sleep(0.01)
        await connection.send(Request("PUT", "/lease", b"{}", purpose=Purpose.HEARTBEAT))
        assert sum(asked.path == "/slow" for asked in server.asked) == LIMITS[Purpose.MAIN]
        gate.set()
        assert {r.status for r in await asyncio.gather(*slow_ones)} == {200}
        assert server.connections == LIMITS[Purpose.MAIN] + 1

    talk(slow, story)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST", "PATCH"])
def test_connection_closed_while_idle_costs_nothing(method):
    """A server that closes an idle connection: the next request makes a new one, of any kind."""

    async def story(server, connection, states):
        await connection.send(GET)
        server.close_all()
        await connection.send(Request(method, "/x", b"{}"))
        assert [asked.connection for asked in server.asked] == [1, 2]
        assert states.told == [None]

    talk(good, story)


@pytest.mark.parametrize(
    ("method", "again"),
    [("GET", True), ("PUT", True), ("DELETE", True), ("POST", False), ("PATCH", False)],
)
def test_connection_closed_under_a_request(method, again):
    """What was sent into a dying connection is sent again only if twice is as good as once."""

    async def handler(asked, writer):
        if asked.path == "/x" and asked.connection == 1:
            return False
        writer.write(answer())
        return None

    async def story(server, connection, states):
        await connection.send(GET)
        request = Request(method, "/x", b"{}")
        if again:
            assert (await connection.send(request)).status == 200
            assert states.told == [None]
        else:
            with pytest.raises(ApiError, match="closed before an answer came") as caught:
                await connection.send(request)
            assert caught.value.unreachable
            assert str(caught.value) in states.told
        assert len([a for a in server.asked if a.path == "/x"]) == (2 if again else 1)

    talk(handler, story)


def test_new_connection_that_fails_is_not_tried_again():
    """Only a kept connection may be stale: a fresh one that is closed is a failure."""

    async def story(server, connection, _states):
        with pytest.raises(
            ApiError, match=r"GET http://127\.0\.0\.1:.*/api/v1/nodes/n: the connect"
        ):
            await connection.send(GET)
        assert len(server.asked) == 1

    talk(says(b""), story)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "ended in the middle"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "ended in the middle"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "ended in the middle",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "is not HTTP"),
        (b"SSH-2.0-OpenSSH_9.0\r\n", "is not HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "is not HTTP"),
        (b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n\x00\x01", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", "is larger than"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
            "is not the gzip",
        ),
        (b"", "before an answer came"),
    ],
)
def test_odd_answers_are_sentences(data, sentence):
    """Half an answer, or none that is HTTP, is an error that says so; the next request works."""
    first = [data]

    async def handler(_asked, writer):
        if first:
            writer.write(first.pop())
            return False
        writer.write(answer())
        return None

    async def story(_server, connection, states):
        with pytest.raises(ApiError, match=sentence) as caught:
            await connection.send(GET)
        assert caught.value.status == 0
        assert (await connection.send(GET)).status == 200
        assert states.told == [str(caught.value), None]

    talk(handler, story)


def test_endless_head_is_given_up():
    """A server that never ends its headers does not fill the memory."""

    async def handler(_asked, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-A: " + b"a" * 60000 + b"\r\n")
            await writer.drain()

    async def story(_server, connection, _states):
        with pytest.raises(ApiError, match="head larger than"):
            await connection.send(GET)

    talk(handler, story)


def test_endless_body_is_given_up(monkeypatch):
    """A body without a length is read up to the limit."""
    monkeypatch.setattr(http1, "MAX_BODY", 100_000)

    async def handler(_asked, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1000\r\n" + b"a" * 4096 + b"\r\n")
            await writer.drain()

    async def story(_server, connection, _states):
        with pytest.raises(ApiError, match="larger than 100000 bytes"):
            await connection.send(GET)

    talk(handler, story)


def test_compressed_bomb_is_given_up(monkeypatch):
    """What is small on the wire and huge in memory is refused."""
    monkeypatch.setattr(http1, "MAX_BODY", 100_000)
    body = gzip.compress(b"0" * 200_000)
    headers = ("Content-Encoding: gzip",)

    async def handler(_asked, writer):
        writer.write(answer(body=body, headers=headers))

    async def story(_server, connection, _states):
        with pytest.raises(ApiError, match="larger than 100000 bytes"):
            await connection.send(GET)

    talk(handler, story)


def test_chunked_and_compressed():
    """A list that comes compressed and in chunks is the text that it stands for."""
    text = b'{"items":[' + b",".join(b'{"n":%d}' % i for i in range(5000)) + b"]}"
    packed = gzip.compress(text)

    async def handler(_asked, writer):
        head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        for at in range(0, len(packed), 1000):
            piece = packed[at : at + 1000]
            writer.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async def story(server, connection, _states):
        assert (await connection.send(GET)).body == text
        assert (await connection.send(GET)).body == text
        assert server.asked[0].header("accept-encoding") == "gzip"
        assert server.connections == 1

    talk(handler, story)


def test_compression_can_be_off():
    """disable-compression of the kubeconfig: nothing compressed is asked for."""

    async def story(server, connection, _states):
        await connection.send(GET)
        assert server.asked[0].header("accept-encoding") is None

    talk(good, story, disable_compression=True)


def test_status_goes_through_whatever_it_is():
    """An error of the server is an answer: the connection is kept and counts as answering."""

    async def handler(_asked, writer):
        writer.write(answer(503, b"busy", ("Retry-After: 3",)))

    async def story(server, connection, states):
        for _ in range(2):
            response = await connection.send(GET)
            assert (response.status, response.headers["retry-after"]) == (503, "3")
        assert server.connections == 1
        assert states.told == [None]

    talk(handler, story)


def test_continue_comes_before_the_answer():
    """An interim answer is not the answer."""
    data = b"HTTP/1.1 100 Continue\r\n\r\n" + answer(201, b"made")

    async def handler(_asked, writer):
        writer.write(data)

    async def story(server, connection, _states):
        for _ in range(2):
            response = await connection.send(Request("POST", "/x", b"{}"))
            assert (response.status, response.body) == (201, b"made")
        assert server.connections == 1

    talk(handler, story)


def test_server_that_closes_after_each_answer():
    """``Connection: close`` is obeyed, and a body may last until the end of the connection."""
    close = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
    until = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it"
    answers = [close, until, close]

    async def handler(_asked, writer):
        writer.write(answers.pop(0))
        return False

    async def story(server, connection, _states):
        bodies = [(await connection.send(GET)).body for _ in range(3)]
        assert bodies == [b"{}", b"all of it", b"{}"]
        assert server.connections == 3

    talk(handler, story)


def test_words_that_nobody_asked_for_end_the_connection():
    """A second answer after the first must not be taken for that of the next request."""
    first = [answer(body=b"first") + answer(408, body=b"late")]

    async def handler(_asked, writer):
        writer.write(first.pop() if first else answer(body=b"second"))

    async def story(server, connection, _states):
        assert (await connection.send(GET)).body == b"first"
        assert (await connection.send(GET)).body == b"second"
        assert server.connections == 2

    talk(handler, story)


def test_deadline_holds_for_the_whole_answer():
    """A server that says nothing, or not all, is given up in time, and its connection too."""

    async def handler(asked, writer):
        if asked.path == "/half":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        if asked.path == "/good":
            writer.write(answer())

    async def story(server, connection, states):
        for path in ("/nothing", "/half"):
            with pytest.raises(ApiError, match=f"{path}: no answer within 1 s") as caught:
                await connection.send(Request("GET", path, seconds=1.0))
            assert caught.value.unreachable
        assert (await connection.send(Request("GET", "/good"))).status == 200
        assert [asked.connection for asked in server.asked] == [1, 2, 3]
        assert states.told[-1] is None

    talk(handler, story)


def test_given_up_request_leaves_room_for_others():
    """Requests that are cancelled give their turn back, whatever they were waiting for."""

    async def handler(asked, writer):
        if asked.path == "/good":
            writer.write(answer())

    async def story(server, connection, _states):
        tasks = [asyncio.create_task(connection.send(Request("GET", "/never"))) for _ in range(20)]
        while len(server.asked) < LIMITS[Purpose.MAIN]:  # noqa: ASYNC110 - the server is here
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        more = await asyncio.gather(
            *(connection.send(Request("GET", "/good")) for _ in range(LIMITS[Purpose.MAIN]))
        )
        assert {response.status for response in more} == {200}

    talk(handler, story)


def test_dropped_connections_are_made_anew():
    """N-10: idle connections are closed when asked, of one purpose or of all."""

    async def story(server, connection, _states):
        await connection.send(GET)
        connection.drop(Purpose.HEARTBEAT)
        await connection.send(GET)
        connection.drop(Purpose.MAIN)
        await connection.send(GET)
        connection.drop()
        await connection.send(GET)
        assert [asked.connection for asked in server.asked] == [1, 1, 2, 3]

    talk(good, story)


def test_idle_connections_are_closed_after_a_while():
    """Nobody keeps a connection that nobody uses."""

    async def story(server, connection, _states):
        pool = Pool(connection._dial, 2, idle_ns=50 * 10**6)
        made = await pool.take()
        pool.give(made)
        assert await pool.take() is made
        pool.give(made)
        async with asyncio.timeout(5):
            while not made.closed:  # noqa: ASYNC110 - time passes by itself
                await asyncio.sleep(0.01)
        assert server.connections == 1
        pool.close()

    talk(good, story)


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX-Evil: 1", "/ä"])
def test_path_cannot_smuggle(path):
    """A path that would end its line never reaches the server."""

    async def story(server, connection, _states):
        with pytest.raises(ApiError, match="no path of a URL"):
            await connection.send(Request("GET", path))
        assert not server.asked

    talk(good, story)


def test_nobody_listens():
    """Refused, and after that reachable again: told once each."""

    async def story():
        async with serving(Server(good)) as server:
            where = endpoint(server)
        states = States()
        connection = Connection(where, states, environment={})
        for _ in range(2):
            with pytest.raises(ApiError, match=r"cannot connect to http://.*: connection refused"):
                await connection.send(GET)
        assert len(states.told) == 1
        await connection.close()

    run(story())


def test_name_that_nobody_knows():
    """A name that cannot be resolved is said to be one."""

    async def story():
        where = type(endpoint(Server()))(server="https://nobody.invalid:6443")
        connection = Connection(where, States(), environment={})
        with pytest.raises(ApiError, match=r"nobody\.invalid:6443: its name cannot be resolved"):
            await connection.send(GET)
        await connection.close()

    run(story())


def test_silent_death_is_noticed_by_the_kernel():
    """Nagle is off; a server that is gone without a word is given up within a minute."""

    async def story(_server, connection, _states):
        made = await connection._dial()
        sock = made.link._socket
        options = {
            name: sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_NODELAY", "TCP_KEEPIDLE", "TCP_USER_TIMEOUT")
        }
        assert options == {"TCP_NODELAY": 1, "TCP_KEEPIDLE": 30, "TCP_USER_TIMEOUT": 30_000}
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        made.close()

    talk(good, story)


def test_closed_connection_says_so():
    """After the end nothing is sent any more."""

    async def story(server, connection, _states):
        await connection.send(GET)
        await connection.close()
        with pytest.raises(ApiError, match="is closed"):
            await connection.send(GET)
        assert len(server.asked) == 1

    talk(good, story)
