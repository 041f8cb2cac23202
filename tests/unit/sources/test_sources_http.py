"""The HTTP source, against a real server on the loopback (P-6)."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess

import pytest

from kubelet import logging as klog
from procs.syncloop.sources import fetch
from procs.syncloop.sources.fetch import FetchError, without_secrets
from tests.unit.node.transport_kit import Authority, server_context
from tests.unit.sources.sources_scene import pod, scene, story, text

SECRET = "s3cr3t"


def answer(body=b"", status="200 OK", headers=()):
    data = body if isinstance(body, bytes) else text(body)
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + data


def pods(*items):
    return {"kind": "PodList", "apiVersion": "v1", "items": list(items)}


class Server:
    """Answers each request with what ``reply`` is at the moment."""

    def __init__(self, reply=b""):
        self.reply = reply
        self.requests = []
        self.asked = asyncio.Event()
        self.port = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/pods"

    async def serve(self, reader, writer):
        request = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(request.decode())
        found = self.reply(self) if callable(self.reply) else self.reply
        writer.write(found)
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()
        self.asked.set()

    async def next(self, count=1):
        """Wait for so many more requests."""
        for _ in range(count):
            self.asked.clear()
            await self.asked.wait()


@contextlib.asynccontextmanager
async def serving(reply=b"", context=None):
    server = Server(reply)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()


def polling(root, server, **more):
    return scene(root, manifest_url=server.url, http_check_frequency="100ms", **more)


def test_a_list_is_fetched_with_the_headers(tmp_path, capfd):
    """All configured headers are sent; their values are in no line of the log (P-6)."""
    klog.configure(klog.Settings(verbosity=10))

    async def work():
        async with serving(answer(pods(pod("a"), pod("b")))) as server:
            header = f"X-Key:{SECRET}"
            async with polling(tmp_path, server, manifest_url_header=header) as s:
                await s.until(lambda: len(s.wanted) == 2)
                assert s.row.delivered == {"http": True, "local": True}
                assert {c.source for c in s.changes} == {"http"}
                assert f"\r\nX-Key: {SECRET}\r\n" in server.requests[0]
                server.reply = answer(status="500 Oops")
                await s.until(lambda: s.problems)
                assert SECRET not in s.problems
                assert SECRET not in repr(s.process.records)

    try:
        story(work)
    finally:
        klog.configure(klog.Settings())
    assert SECRET not in "".join(capfd.readouterr())


def test_pods_change_and_go(tmp_path):
    """What the URL gives is what is wanted; the same answer changes nothing (P-6)."""

    async def work():
        async with serving(answer(pod("a"))) as server, polling(tmp_path, server) as s:
            await s.until(lambda: s.wanted)
            await server.next(2)
            assert len(s.changes) == 1
            server.reply = answer(pods(pod("a", image="app:2")))
            await s.until(lambda: s.wanted == {"a-node-1": "app:2"})
            server.reply = answer(pods())
            await s.until(lambda: not s.wanted)

    story(work)


BAD = [
    (answer(status="500 Oops"), "answered 500 Oops"),
    (answer(pod(), status="404 Not Found"), "answered 404 Not Found"),
    (answer(b""), "answered with an empty body"),
    (answer(b"<html>"), "must be an object"),
    (answer({"kind": "Node", "apiVersion": "v1"}), 'kind: Invalid value: "Node"'),
    (b"", "the answer broke off"),
    (b"SSH-2.0-x\r\n\r\n", "the answer is no HTTP"),
    (answer(pod())[:-10], "the answer broke off"),
    (answer(b"x", headers=("Content-Encoding: gzip",)), "Content-Encoding gzip"),
]


@pytest.mark.parametrize(("reply", "words"), BAD, ids=[b[1] for b in BAD])
def test_a_failed_poll_keeps_the_last_pods(tmp_path, reply, words):
    """Whatever is wrong with an answer is said, and ends nothing (P-6)."""

    async def work():
        async with serving(answer(pod("a"))) as server, polling(tmp_path, server) as s:
            await s.until(lambda: s.wanted)
            server.reply = reply
            await s.until(lambda: words in s.problems)
            assert s.wanted == {"a-node-1": "app:1"}
            server.reply = answer(pod("a"))
            await s.until(lambda: not s.problems)
            assert len(s.changes) == 1

    story(work)


def test_a_source_that_never_answered_is_not_ready(tmp_path):
    """Nothing unknown is ended until the URL has given its pods once (P-4)."""

    async def work():
        async with serving(answer(status="503 Later")) as server, polling(tmp_path, server) as s:
            await s.until(lambda: "503" in s.problems)
            assert not s.sources.ready
            assert s.calls == 0
            server.reply = answer(pods())
            await s.until(lambda: s.sources.ready)
            assert s.calls == 1

    story(work)


def test_only_the_first_failures_are_loud(tmp_path, capfd):
    """Three in a row are logged as errors, no more (P-6)."""

    async def work():
        async with serving(answer(status="500 Oops")) as server, polling(tmp_path, server):
            await server.next(6)

    story(work)
    lines = "".join(capfd.readouterr()).splitlines()
    assert sum("Manifest URL cannot be used" in line for line in lines) == 3


def test_one_pod_of_a_list_that_breaks_goes_on(tmp_path):
    """Over our own restart, too: the others change meanwhile (P-6)."""
    broken = pod("a", container={"image": ""})

    async def work():
        async with serving(answer(pods(pod("a"), pod("b")))) as server:
            async with polling(tmp_path, server) as s:
                await s.until(lambda: len(s.wanted) == 2)
                server.reply = answer(pods(broken, pod("b", image="app:2")))
                await s.until(lambda: s.wanted["b-node-1"] == "app:2")
                assert s.wanted["a-node-1"] == "app:1"
                assert "pod default/a-node-1 keeps running as it was" in s.problems
                s.remember()
            async with polling(tmp_path, server) as s:
                await s.until(lambda: s.sources.ready)
                assert s.wanted == {"a-node-1": "app:1", "b-node-1": "app:2"}

    story(work)


# The request itself.


def test_chunks_are_put_together():
    """An answer of unknown length comes in pieces."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def work():
        async with serving(head + b"4\r\nabcd\r\n2;x=y\r\nef\r\n0\r\n\r\n") as server:
            assert await fetch.get(server.url, {}) == b"abcdef"
            server.reply = head + b"zz\r\n"
            with pytest.raises(FetchError, match="no HTTP"):
                await fetch.get(server.url, {})
            server.reply = head + b"ffffffff\r\n"
            with pytest.raises(FetchError, match="more than"):
                await fetch.get(server.url, {})

    story(work)


def test_an_answer_may_end_with_the_connection():
    """HTTP/1.0 servers say no length; an announcement may come before the answer."""

    async def work():
        async with serving(b"HTTP/1.0 200 OK\r\n\r\nbody") as server:
            assert await fetch.get(server.url, {}) == b"body"
            server.reply = b"HTTP/1.1 103 Early\r\n\r\n" + answer(b"body")
            assert await fetch.get(server.url, {}) == b"body"

    story(work)


def test_an_answer_has_a_size():
    """More than ten mebibytes are not even read (P-5, P-6)."""

    async def work():
        async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 10485761\r\n\r\n") as server:
            with pytest.raises(FetchError, match="more than 10485760 bytes"):
                await fetch.get(server.url, {})
            server.reply = b"HTTP/1.1 200 OK\r\n\r\n" + bytes(fetch.MAX_BYTES + 1)
            with pytest.raises(FetchError, match="more than 10485760 bytes"):
                await fetch.get(server.url, {})

    story(work)


def test_redirects_are_followed_ten_times():
    """A place that has moved is found; a circle is not walked for ever."""

    def moved(server):
        if len(server.requests) > 10:
            return answer(b"there")
        return answer(status="302 Found", headers=(f"Location: /{len(server.requests)}?a=b",))

    async def work():
        async with serving(moved) as server:
            assert await fetch.get(server.url, {"X": ["1"]}) == b"there"
            assert server.requests[10].startswith("GET /10?a=b HTTP/1.1\r\n")
            assert "\r\nX: 1\r\n" in server.requests[10]
            server.reply = answer(status="308 Moved", headers=("Location: /again",))
            with pytest.raises(FetchError, match="redirected more than 10 times"):
                await fetch.get(server.url, {})

    story(work)


def test_credentials_do_not_go_to_another_host():
    """A redirect elsewhere gets neither cookies nor authorization."""

    async def work():
        async with serving(answer(b"x")) as there, serving() as here:
            location = f"Location: http://localhost:{there.port}/"
            here.reply = answer(status="307 Moved", headers=(location,))
            headers = {"Authorization": ["a"], "Cookie": ["b"], "X": ["c"]}
            await fetch.get(here.url, headers)
            assert "Authorization: a" in here.requests[0]
            assert "\r\nX: c\r\n" in there.requests[0]
            assert "Authorization" not in there.requests[0]
            assert "Cookie" not in there.requests[0]

    story(work)


def test_a_user_in_the_url_is_sent_and_not_shown():
    """As browsers do it; what is shown of a URL has no secrets."""

    async def work():
        async with serving(answer(b"x")) as server:
            url = f"http://me:{SECRET}@127.0.0.1:{server.port}/a b?q=1"
            assert without_secrets(url) == f"http://127.0.0.1:{server.port}/a b"
            await fetch.get(url, {})
            assert server.requests[0].startswith("GET /a%20b?q=1 HTTP/1.1\r\n")
            assert "Authorization: Basic bWU6czNjcjN0\r\n" in server.requests[0]

    story(work)


@pytest.mark.parametrize(
    ("url", "headers", "words"),
    [
        ("ftp://x/", {}, "http:// or https://"),
        ("http:///x", {}, "and a host"),
        ("http://x:99999/", {}, "is not a URL"),
        ("http://127.0.0.1:1/", {}, "cannot connect"),
        ("http://127.0.0.1:1/", {"A": [f"{SECRET}\r\nB: c"]}, "header 'A' of staticPodURLHeader"),
        ("http://127.0.0.1:1/", {"A B": [SECRET]}, "header 'A B' of staticPodURLHeader"),
    ],
)
def test_what_cannot_be_asked(url, headers, words):
    """One sentence, and never a header's value."""

    async def work():
        with pytest.raises(FetchError) as caught:
            await fetch.get(url, headers)
        assert words in str(caught.value)
        assert SECRET not in str(caught.value)

    story(work)


def test_a_server_that_says_nothing_is_given_up():
    """The time-out is for all of it."""
    hung = asyncio.Event()

    async def silent(_reader, writer):
        await hung.wait()
        writer.close()

    async def work():
        listening = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(FetchError, match=r"no answer within 0\.05 seconds"):
            await fetch.get(f"http://127.0.0.1:{port}/", {}, seconds=0.05)
        hung.set()
        listening.close()
        await listening.wait_closed()

    story(work)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls_is_checked(tmp_path, monkeypatch):
    """Who is not certified by the system's authorities is not talked to."""
    key, certificate = str(tmp_path / "key"), str(tmp_path / "cert")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-keyout", key, "-out", certificate, "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def work():
        async with serving(answer(b"x"), context) as server:
            url = f"https://localhost:{server.port}/"
            with pytest.raises(FetchError, match=r"cannot connect.*certificate verify failed"):
                await fetch.get(url, {})
            monkeypatch.setenv("SSL_CERT_FILE", certificate)
            assert await fetch.get(url, {}) == b"x"

    story(work)


def test_an_authority_without_key_identifiers_is_trusted(tmp_path, monkeypatch):
    """Many private ones name none; whether they are trusted is no matter of the interpreter."""
    authority = Authority()
    (tmp_path / "ca").write_text(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca"))

    async def work():
        context = server_context(authority.issue(hosts=("localhost",)), tmp_path)
        async with serving(answer(b"x"), context) as server:
            assert await fetch.get(f"https://localhost:{server.port}/", {}) == b"x"

    story(work)
