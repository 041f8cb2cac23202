"""HTTP probes of servers that behave (B-12, B-19)."""

from __future__ import annotations

import asyncio

import pytest

from procs.prober.handlers.http import probe_http
from procs.prober.job import ProbeError, Result
from tests.unit.node.transport_kit import Authority, server_context
from tests.unit.prober.probe_servers import HOST, OK, http_job, listening, saying


class Listener:
    """Gives its answers in turn, the last one again and again, and keeps the requests."""

    def __init__(self, *answers):
        self.answers = list(answers or [OK])
        self.heard = []

    async def serve(self, reader, writer):
        self.heard.append((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n"))
        writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
        writer.close()


def probed(server, tls=None, **action):
    """Probe a server; PORT in the action is its port."""

    async def main():
        async with listening(server.serve if isinstance(server, Listener) else server, tls) as port:
            if isinstance(server, Listener):
                server.answers = [a.replace(b"PORT", b"%d" % port) for a in server.answers]
            return await probe_http(http_job(port, **action))

    return asyncio.run(main())


def test_request_of_a_probe_is_plain():
    """It says who asks, accepts anything, and does not ask for compression."""
    server = Listener()
    outcome = probed(server, path="/x?y=z")
    assert (outcome.result, outcome.output) == (Result.SUCCESS, "ok")
    [[first, host, *rest]] = server.heard
    assert first == "GET /x?y=z HTTP/1.1"
    assert host.startswith(f"Host: {HOST}:")
    assert rest == ["User-Agent: kube-probe/1.37", "Accept: */*", "Connection: close", "", ""]


def test_headers_of_the_probe_come_before_ours():
    """Repeated ones are all sent; an empty Accept is none at all."""
    server = Listener()
    given = [("X-A", "1"), ("X-A", "2"), ("Host", "h"), ("User-Agent", "me"), ("Accept", "")]
    probed(server, headers=given)
    assert [line for line in server.heard[0][1:] if line] == [
        "Host: h",
        "X-A: 1",
        "X-A: 2",
        "User-Agent: me",
        "Connection: close",
    ]


def test_proxies_of_the_environment_are_not_asked(monkeypatch):
    """A probe is between the node and the pod."""
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:1")
    assert probed(Listener()).result is Result.SUCCESS


@pytest.mark.parametrize(
    ("status", "result", "output"),
    [
        (200, Result.SUCCESS, "said"),
        (299, Result.SUCCESS, "said"),
        (300, Result.WARNING, "Probe terminated redirects, Response body: said"),
        (302, Result.WARNING, "Probe terminated redirects, Response body: said"),
        (399, Result.WARNING, "Probe terminated redirects, Response body: said"),
        (400, Result.FAILURE, "HTTP probe failed with statuscode: 400"),
        (500, Result.FAILURE, "HTTP probe failed with statuscode: 500"),
        (101, Result.FAILURE, "HTTP probe failed with statuscode: 101"),
    ],
)
def test_status_decides(status: int, result: Result, output: str):
    """A failure never shows the body: whoever reads events need not be one who may read it."""
    outcome = probed(saying(b"HTTP/1.1 %d x\r\nContent-Length: 4\r\n\r\nsaid" % status))
    assert (outcome.result, outcome.output) == (result, output)


def test_redirections_within_the_host_are_followed():
    """Also to another port or by another way to write it; the body before is not waited for."""
    away = b"HTTP/1.1 302 F\r\nLocation: %s\r\nContent-Length: 9\r\n\r\n"
    server = Listener(away % b"/y", away % b"http://127.0.0.1:PORT/z?q", OK)
    assert probed(server).result is Result.SUCCESS
    assert [lines[0].split()[1] for lines in server.heard] == ["/x", "/y", "/z?q"]


@pytest.mark.parametrize(
    "location", [b"http://192.0.2.1/", b"file:///etc/passwd", b"unix:/run/x.sock", b"mailto:x"]
)
def test_redirections_to_elsewhere_are_warnings(location: bytes):
    """They count as success, and nobody is asked."""
    server = Listener(b"HTTP/1.1 302 F\r\nLocation: %s\r\n\r\nbody" % location)
    outcome = probed(server)
    assert outcome.result is Result.WARNING
    assert outcome.output == "Probe terminated redirects, Response body: body"
    assert len(server.heard) == 1


@pytest.mark.parametrize(
    ("location", "why"),
    [
        (b"/x", 'Get "/x": stopped after 10 redirects'),
        (b"ftp://127.0.0.1/", 'Get "ftp://127.0.0.1/": unsupported protocol scheme "ftp"'),
    ],
)
def test_redirections_that_end_nowhere_fail(location: bytes, why: str):
    """A circle is walked ten times."""
    server = Listener(b"HTTP/1.1 302 F\r\nLocation: %s\r\n\r\n" % location)
    outcome = probed(server)
    assert (outcome.result, outcome.output) == (Result.FAILURE, why)
    assert len(server.heard) in {1, 10}


def test_port_of_the_container_is_found_by_name():
    """And a job that changes is not taken for the one before."""

    async def main():
        async with listening(saying(OK)) as port:
            job = http_job("web")
            with pytest.raises(ProbeError, match="couldn't find port: 'none' in container c"):
                await probe_http(http_job("none"))
            assert (await probe_http(job)).result is Result.FAILURE  # port 1
            found = http_job(port)
            return await probe_http(found), await probe_http(found)

    assert [one.result for one in asyncio.run(main())] == [Result.SUCCESS] * 2


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ({"ip": ""}, "the pod has no address"),
        ({"scheme": "FTP"}, 'unsupported protocol scheme "ftp"'),
        ({"headers": [("X", "a\nb")]}, "invalid header field 'X'"),
        ({"protocol": "SPDY"}, "httpGet.protocol: 'SPDY'"),
    ],
)
def test_request_that_cannot_be_made_is_an_error(action: dict, why: str):
    """It says nothing of the container (B-8)."""
    with pytest.raises(ProbeError, match=why):
        asyncio.run(probe_http(http_job(80, **action)))


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A server's side of TLS, with a certificate that nobody here vouches for."""
    pair = Authority().issue("other")
    return server_context(pair, tmp_path_factory.mktemp("tls"))


def test_certificates_of_probed_servers_are_not_verified(tls):
    """Not even who they are for; redirections are followed there, too."""
    away = b"HTTP/1.1 302 F\r\nLocation: /y\r\n\r\n"
    server = Listener(away, OK)
    assert probed(server, tls=tls, scheme="HTTPS").result is Result.SUCCESS
    assert len(server.heard) == 2


def test_tls_and_none_do_not_understand_each_other(tls):
    """Each side's words are those of Go."""
    outcome = probed(saying(b"HTTP/1.0 400 Bad\r\n\r\n"), scheme="HTTPS")
    assert outcome.result is Result.FAILURE
    assert outcome.output.endswith('/x": http: server gave HTTP response to HTTPS client')
    outcome = probed(saying(b"garbage\r\n"), scheme="HTTPS")
    assert outcome.output.endswith("tls: first record does not look like a TLS handshake")
    outcome = probed(saying(OK), tls=tls)
    assert outcome.result is Result.FAILURE
    assert outcome.output.startswith('Get "http://127.0.0.1:')
