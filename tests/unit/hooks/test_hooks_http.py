"""HTTP hooks against real servers (P-145)."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess

import pytest

from procs.syncloop.runtime.hooks import HookError
from tests.unit.hooks.hook_servers import HOST, OK, Calls, PlainServer, Server, serving

_MAKE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
    "-subj /CN=other"
)
FAILED = 'HTTP lifecycle hook (/x) for Container "c" in Pod "web_ns(u1)" failed - error: '


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate that nobody vouches for."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl command to make a certificate with")
    path = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [*_MAKE.split(), "-keyout", str(path / "key"), "-out", str(path / "cert")],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path / "cert", path / "key")
    return context


def answer(status, *headers, body=b""):
    lines = [f"HTTP/1.1 {status}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def got(action, *, answers=None, server=None, tls=None, **more):
    """Run a hook against a server; return what the server heard, and the events."""

    async def main():
        calls = Calls()
        async with serving(server or Server(answers or [OK]), tls) as one:
            wanted = {key: _with_port(value, one.port) for key, value in action.items()}
            await calls.get(one.port, **wanted, **more)
        return one.requests, calls.events

    return asyncio.run(main())


def _with_port(value, port):
    return value.replace("PORT", str(port)) if isinstance(value, str) else value


def test_request_is_a_plain_get():
    """It says who asks, and accepts anything."""
    [[first, *headers]], events = got({"path": "/x"})
    assert first == "GET /x HTTP/1.1"
    assert "User-Agent: kube-lifecycle/1.37" in headers
    assert "Accept: */*" in headers
    assert any(h.startswith(f"Host: {HOST}:") for h in headers)
    assert events == []


def test_headers_of_the_pod_come_before_ours():
    """Repeated ones are all sent; an empty Accept is none at all."""
    given = [("X-A", "1"), ("X-A", "2"), ("host", "h"), ("user-agent", "me"), ("Accept", "")]
    [[_, *headers]], _ = got({"path": "/x", "headers": given})
    assert [h for h in headers if h] == [
        "Host: h",
        "X-A: 1",
        "X-A: 2",
        "user-agent: me",
        "Connection: close",
    ]


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("", "/"),
        ("x", "/x"),
        ("/x?a=b c&d", "/x?a=b%20c&d"),
        ("/a b/\u00e4", "/a%20b/%C3%A4"),
        ("/a%20b", "/a%20b"),
        ("/x#there", "/x"),
        ("/x\r\nX-Other: 1", "/xX-Other:%201"),
        ("//[odd", "/%5Bodd"),
    ],
)
def test_path_is_sent_as_it_may_be(path: str, sent: str):
    """What would end it early is escaped, what is escaped already is not touched."""
    [[first, *_]], _ = got({"path": path})
    assert first == f"GET {sent} HTTP/1.1"


@pytest.mark.parametrize(
    "said",
    [
        answer("200 OK"),
        answer("404 Not Found", "Content-Length: 3", body=b"no."),
        answer("500 Oops", "Transfer-Encoding: chunked", body=b"2\r\nno\r\n0\r\n\r\n"),
        answer("103 Early Hints", "Link: x") + answer("200 OK"),
        answer("200 OK", "Content-Length: 99999999", body=b"much"),
        answer("200 OK", "Content-Length: 10", body=b"short"),  # it hangs up: that is an answer
        answer("302 Found", "Location: http://192.0.2.1:1/elsewhere"),
        answer("302 Found"),
        answer("302 Found", "Location: mailto:x"),
        b"HTTP/1.0 200\n\n",
    ],
)
def test_any_answer_is_success(said: bytes):
    """Whatever its status; a redirection to elsewhere is not followed."""
    requests, _ = got({"path": "/x"}, answers=[said])
    assert len(requests) == 1


def test_answer_with_a_length_does_not_wait_for_the_end():
    """A server that keeps the connection open does not hold up the hook."""
    server = Server(keeps_open=True)
    requests, _ = got({"path": "/x"}, server=server)
    assert len(requests) == 1


def test_redirection_within_the_host_is_followed():
    """Often what is to happen happens behind it."""
    away = answer("301 Moved", "Location: /x/")
    requests, _ = got({"path": "/x"}, answers=[away, OK])
    assert [lines[0] for lines in requests] == ["GET /x HTTP/1.1", "GET /x/ HTTP/1.1"]
    with pytest.raises(HookError, match="stopped after 10 redirects"):
        got({"path": "/x"}, answers=[away])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "EOF"),
        (b"HTTP/1.1 200 OK\r\nX: ", "unexpected EOF"),
        (b"220 mail ready\r\n", 'malformed HTTP status code "mail"'),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 2_000_000, "server response headers exceeded"),
    ],
)
def test_what_is_no_answer_fails(said: bytes, why: str):
    """The sentence names hook, container and pod, and what was wrong."""
    with pytest.raises(HookError) as caught:
        got({"path": "/x"}, answers=[said])
    assert str(caught.value).startswith(f'{FAILED}Get "http://{HOST}:')
    assert why in str(caught.value)


def test_nobody_listens():
    """The kernel's word is in the sentence."""
    with socket.socket() as taken:  # bound, and not listening: nobody else gets the port
        taken.bind((HOST, 0))
        port = taken.getsockname()[1]
        with pytest.raises(HookError) as caught:
            asyncio.run(Calls().get(port, path="/x"))
    assert str(caught.value) == f'{FAILED}Get "http://{HOST}:{port}/x": connection refused'


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ({"port": 80, "ip": ""}, "failed to find networking container: the pod has no address"),
        ({"port": 0}, "invalid port number: 0"),
        ({"port": "70000"}, "invalid port number: 70000"),
        ({"port": None}, "couldn't find port: '' in container c"),
        ({"port": "admin"}, "couldn't find port: 'admin' in container c"),
        ({"port": 80, "headers": [("X", "a\r\nY: b")]}, "invalid header field 'X' with value"),
        ({"port": 80, "headers": [("X Y", "a")]}, "invalid header field 'X Y'"),
    ],
)
def test_hook_that_cannot_be_sent(action: dict, why: str):
    """It fails before anything is sent."""
    with pytest.raises(HookError) as caught:
        asyncio.run(Calls().get(**action, path="/x"))
    assert str(caught.value).startswith(FAILED + why)


def test_host_of_the_hook_comes_before_the_pods():
    """Without one it is the pod's address."""
    requests, _ = got({"path": "/x", "host": HOST}, ip="192.0.2.1")
    assert len(requests) == 1


def test_certificates_are_not_verified(certificate):
    """Not even who it is for."""
    requests, events = got({"path": "/x", "scheme": "HTTPS"}, tls=certificate)
    assert requests[0][0] == "GET /x HTTP/1.1"
    assert events == []


def test_server_without_tls_is_asked_without():
    """That is told with an event of the pod, and what is secret is not sent in the open."""
    server = PlainServer()
    headers = [("Authorization", "Bearer x"), ("X-A", "1")]
    action = {"path": "/x", "scheme": "HTTPS", "headers": headers}

    async def main():
        calls = Calls()
        async with serving(server):
            await calls.get(server.port, **action)
        return calls.events

    events = asyncio.run(main())
    text = (
        f"request to HTTPS lifecycle hook {HOST}:{server.port} got HTTP response, "
        "retry with HTTP succeeded"
    )
    assert events == [("Warning", "LifecycleHTTPFallback", text, "")]
    assert server.heard[1].startswith(b"GET /x HTTP/1.1\r\n")
    assert b"X-A: 1" in server.heard[1]
    assert b"Authorization" not in server.heard[1]


def test_fallback_that_fails_reports_the_first_failure():
    """There is no event then."""

    class Never(PlainServer):
        async def _serve(self, reader, writer):
            self.heard.append(await reader.read(4096))
            writer.write(b"" if len(self.heard) > 1 else b"HTTP/1.0 400 Bad Request\r\n\r\n")
            writer.close()

    async def main():
        calls = Calls()
        async with serving(Never()) as server:
            with pytest.raises(HookError, match="server gave HTTP response to HTTPS client"):
                await calls.get(server.port, path="/x", scheme="HTTPS")
        assert calls.events == []
        assert len(server.heard) == 2

    asyncio.run(main())
