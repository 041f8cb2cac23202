"""Proxies: which one is used, and the way through it."""

from __future__ import annotations

import asyncio
import base64
import ssl
import struct

import pytest
from transport_kit import (
    Authority,
    Server,
    States,
    answer,
    endpoint,
    read_request,
    server_context,
    serving,
)

from procs.node.apiserver import proxy
from procs.node.apiserver.connection import Connection
from procs.node.apiserver.types import ApiError, Request

GET = Request("GET", "/x")


@pytest.fixture(scope="module")
def ca():
    return Authority()


@pytest.mark.parametrize(
    ("server", "no_proxy", "used"),
    [
        ("https://api.example.com:6443", "", True),
        ("https://api.example.com:6443", "*", False),
        ("https://api.example.com:6443", "example.com", False),
        ("https://API.Example.COM:6443", "example.com", False),
        ("https://api.example.com:6443", "EXAMPLE.com", False),
        ("https://api.example.com:6443", ".example.com", False),
        ("https://api.example.com:6443", "*.example.com", False),
        ("https://example.com:6443", "example.com", False),
        ("https://example.com:6443", ".example.com", True),
        ("https://example.com:6443", "*.example.com", True),
        ("https://badexample.com:6443", "example.com", True),
        ("https://api.example.com:6443", "other.com, example.com", False),
        ("https://api.example.com:6443", "example.com:6443", False),
        ("https://api.example.com:6443", "example.com:443", True),
        ("https://api.example.com", "example.com:443", False),
        ("https://10.1.2.3:6443", "10.1.2.3", False),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", False),
        ("https://10.1.2.3:6443", "10.1.2.3:443", True),
        ("https://10.1.2.3:6443", "10.1.0.0/16", False),
        ("https://10.1.2.3:6443", "10.2.0.0/16", True),
        ("https://10.1.2.3:6443", "10.1.2.3/99,junk/,:", True),
        ("https://10.1.2.3:6443", "2.3", True),
        ("https://[fd00::5]:6443", "fd00::/64", False),
        ("https://[fd00::5]:6443", "fd00::5", False),
        ("https://[fd00::5]:6443", "[fd00::5]:6443", False),
        ("https://[fd00::5]:6443", "[fd00::5]:443", True),
        ("https://localhost:6443", "", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://127.9.9.9:6443", "", False),
        ("https://[::1]:6443", "", False),
    ],
)
def test_no_proxy(server, no_proxy, used):
    """NO_PROXY is read as Go programs read it."""
    environment = {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": no_proxy}
    found = proxy.choose(server, "", environment)
    assert found == (proxy.Proxy("http", "p", 3128) if used else None)


@pytest.mark.parametrize(
    ("server", "configured", "environment", "expected"),
    [
        ("https://h", "", {}, None),
        ("https://h", "", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://h", "", {"https_proxy": "http://p:1"}, "http://p:1"),
        ("https://h", "", {"HTTPS_PROXY": "http://a", "https_proxy": "http://b"}, "http://a:80"),
        ("https://h", "", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://h", "", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("http://h", "", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://h", "", {"HTTPS_PROXY": "p:3128"}, "http://p:3128"),
        ("https://h", "", {"HTTPS_PROXY": "p"}, "http://p:80"),
        ("https://h", "", {"HTTPS_PROXY": "https://p"}, "https://p:443"),
        ("https://h", "", {"HTTPS_PROXY": "socks5://p"}, "socks5://p:1080"),
        ("https://h", "", {"HTTPS_PROXY": "socks5h://p"}, "socks5://p:1080"),
        ("https://h", "", {"HTTPS_PROXY": "http://p:1", "no_proxy": "h"}, None),
        ("https://h", "http://q:2", {"HTTPS_PROXY": "http://p:1"}, "http://q:2"),
        ("https://localhost", "http://q:2", {"NO_PROXY": "*"}, "http://q:2"),
        ("https://h", "http://[fd00::1]:3", {}, "http://[fd00::1]:3"),
    ],
)
def test_choice(server, configured, environment, expected):
    """The kubeconfig's proxy comes first and is always used; then the environment decides."""
    found = proxy.choose(server, configured, environment)
    assert (None if found is None else str(found)) == expected


def test_password_is_used_and_never_shown():
    """What stands in a proxy's URL logs in there, and in no sentence."""
    found = proxy.choose("https://h", "http://me:s%40crt@p:1", {})
    assert found.authorization == "Basic " + base64.b64encode(b"me:s@crt").decode()
    assert "crt" not in str(found)
    for text in ("ftp://me:s3cret@p", "http://me:s3cret@p:99999", "http://"):
        with pytest.raises(proxy.ProxyError, match="HTTPS_PROXY is not the URL of a proxy") as err:
            proxy.choose("https://h", "", {"HTTPS_PROXY": text})
        assert "s3cret" not in str(err.value)


# --- the way through -----------------------------------------------------------------------------


async def pump(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


class Middle:
    """A proxy that connects wherever it is asked to, and notes it."""

    def __init__(self, kind, reply=b"HTTP/1.1 200 Connection established\r\n\r\n"):
        self.kind = kind
        self.reply = reply
        self.asked = []
        self.tasks = []
        self.writers = []

    async def serve(self, reader, writer):
        self.writers.append(writer)
        try:
            target = await (self.socks if self.kind == "socks" else self.connect)(reader, writer)
            if target is None:
                writer.close()
                return
            inner_reader, inner_writer = await asyncio.open_connection(*target)
            self.writers.append(inner_writer)
            self.tasks.append(asyncio.create_task(pump(inner_reader, writer)))
            await pump(reader, inner_writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            writer.close()

    async def connect(self, reader, writer):
        asked = await read_request(reader)
        self.asked.append(asked)
        writer.write(self.reply)
        if b" 200 " not in self.reply:
            return None
        host, _, port = asked.path.rpartition(":")
        return host, int(port)

    async def socks(self, reader, writer):
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        writer.write(bytes([5, methods[-1]]))
        if methods[-1] == 2:
            _, size = await reader.readexactly(2)
            user = await reader.readexactly(size)
            password = await reader.readexactly((await reader.readexactly(1))[0])
            self.asked.append((user, password))
            writer.write(b"\x01\x00")
        _, _, _, kind = await reader.readexactly(4)
        size = (await reader.readexactly(1))[0] if kind == 3 else 4
        raw = await reader.readexactly(size)
        (port,) = struct.unpack("!H", await reader.readexactly(2))
        host = raw.decode() if kind == 3 else ".".join(map(str, raw))
        self.asked.append((kind, host, port))
        writer.write(b"\x05" + self.reply + b"\x00\x01\x00\x00\x00\x00\x00\x00")
        return (host, port) if self.reply == b"\x00" else None


def through(middle, story, ca, tmp_path, url, *, front=None, **fields):
    """Run a story with a server behind a proxy."""

    async def handler(asked, writer):
        writer.write(answer(body=asked.path.encode()))

    async def whole():
        context = server_context(ca.issue(), tmp_path)
        listener = await asyncio.start_server(middle.serve, "127.0.0.1", 0, ssl=front)
        port = listener.sockets[0].getsockname()[1]
        async with serving(Server(handler, context)) as server:
            where = endpoint(server, ca_pem=ca.pem, proxy=url.format(port), **fields)
            connection = Connection(where, States(), environment={})
            try:
                await story(server, connection)
            finally:
                await connection.close()
                listener.close()
                for writer in middle.writers:
                    writer.transport.abort()
                for task in middle.tasks:
                    task.cancel()
                await asyncio.gather(*middle.tasks, return_exceptions=True)

    asyncio.run(asyncio.wait_for(whole(), 120))


def test_connect_with_login(ca, tmp_path):
    """CONNECT: the proxy sees where we go and who we are for it, and nothing else."""
    middle = Middle("http")

    async def story(server, connection):
        for _ in range(2):
            assert (await connection.send(GET)).body == b"/x"
        (asked,) = middle.asked
        assert (asked.method, asked.path) == ("CONNECT", f"127.0.0.1:{server.port}")
        login = base64.b64encode(b"me:pw").decode()
        assert asked.header("proxy-authorization") == f"Basic {login}"
        assert asked.header("authorization") is None
        assert server.asked[0].header("proxy-authorization") is None
        assert server.asked[0].header("authorization") == "Bearer t"

    through(middle, story, ca, tmp_path, "http://me:pw@127.0.0.1:{}", token="t")


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "it answered 407 Proxy Auth"),
        (b"HTTP/1.0 503 No\r\nX: y\r\n\r\n", "it answered 503 No"),
        (b"garbage\r\n\r\n", "no answer of a proxy"),
        (b"", "it closed the connection"),
        (b"x" * 200_000, "no answer of a proxy"),
    ],
)
def test_proxy_that_refuses(ca, tmp_path, reply, sentence):
    """What the proxy says against it is in the sentence, with the proxy's name."""
    middle = Middle("http", reply)

    async def story(_server, connection):
        with pytest.raises(ApiError, match=rf"proxy http://127\.0\.0\.1:\d+: .*{sentence}"):
            await connection.send(GET)

    through(middle, story, ca, tmp_path, "http://127.0.0.1:{}")


def test_proxy_that_is_not_there(ca, tmp_path):
    """A proxy that nobody listens at is named, not the server."""

    async def story(server, connection):
        pattern = rf"connect to {server.url}: proxy http://127\.0\.0\.1:1: connection refused"
        with pytest.raises(ApiError, match=pattern):
            await connection.send(GET)

    through(Middle("http"), story, ca, tmp_path, "http://127.0.0.1:1")


def test_https_proxy(ca, tmp_path, monkeypatch):
    """TLS within TLS: the proxy's certificate is checked by the system's CAs."""
    other = Authority("CA of the proxy")
    system = tmp_path / "system.pem"
    system.write_text(other.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(system))
    middle = Middle("http")
    (tmp_path / "front").mkdir()
    front = server_context(other.issue(), tmp_path / "front")
    big = Request("PUT", "/x", b"a" * 300_000)

    async def story(server, connection):
        assert (await connection.send(GET)).body == b"/x"
        assert (await connection.send(big)).status == 200
        assert len(server.asked[1].body) == 300_000
        assert len(middle.asked) == 1

    through(middle, story, ca, tmp_path, "https://127.0.0.1:{}", front=front)

    async def distrust(_server, connection):
        with pytest.raises(ApiError, match=r"proxy https://.*is not signed by a CA of this system"):
            await connection.send(GET)

    system.write_text(ca.pem)
    through(Middle("http"), distrust, ca, tmp_path, "https://127.0.0.1:{}", front=front)


@pytest.mark.parametrize("login", [False, True])
def test_socks(ca, tmp_path, login):
    """SOCKS 5 with and without a password."""
    middle = Middle("socks", b"\x00")

    async def story(server, connection):
        assert (await connection.send(GET)).body == b"/x"
        expected = [(b"me", b"pw")] if login else []
        assert middle.asked == [*expected, (1, "127.0.0.1", server.port)]

    url = "socks5://me:pw@127.0.0.1:{}" if login else "socks5://127.0.0.1:{}"
    through(middle, story, ca, tmp_path, url)


def test_socks_that_refuses(ca, tmp_path):
    """The reply of a SOCKS proxy in words."""

    async def story(_server, connection):
        with pytest.raises(ApiError, match=r"proxy socks5://.*: connection refused"):
            await connection.send(GET)

    through(Middle("socks", b"\x05"), story, ca, tmp_path, "socks5://127.0.0.1:{}")


def test_plain_server_is_asked_for_by_its_whole_url():
    """Without TLS there is nothing to connect through: the proxy is asked for the URL."""

    async def handler(asked, writer):
        writer.write(answer(body=asked.path.encode()))

    async def story():
        async with serving(Server(handler)) as middle:
            environment = {"HTTP_PROXY": f"http://me:pw@127.0.0.1:{middle.port}"}
            where = type(endpoint(middle))(server="http://api.example.com:8080/base")
            connection = Connection(where, States(), environment=environment)
            response = await connection.send(GET)
            assert response.body == b"http://api.example.com:8080/base/x"
            assert middle.asked[0].header("host") == "api.example.com:8080"
            login = base64.b64encode(b"me:pw").decode()
            assert middle.asked[0].header("proxy-authorization") == f"Basic {login}"
            await connection.close()

    asyncio.run(story())


def test_environment_that_is_wrong_is_a_sentence():
    """With a proxy variable that is no URL nothing goes past the proxy: each request says why."""
    where = type(endpoint(Server()))(server="https://api.example.com")

    async def story():
        states = States()
        connection = Connection(where, states, environment={"HTTPS_PROXY": "gopher://x"})
        for _ in range(2):
            with pytest.raises(ApiError, match="HTTPS_PROXY is not the URL of a proxy"):
                await connection.send(GET)
        assert len(states.told) == 1
        await connection.close()

    asyncio.run(story())
