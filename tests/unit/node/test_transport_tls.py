"""TLS with real certificates: whom we trust, who we are, and what is said when that fails."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
import warnings
from contextlib import suppress
from datetime import timedelta

import pytest
from transport_kit import Authority, Server, States, answer, endpoint, now, server_context, serving

from procs.node.apiserver import validity
from procs.node.apiserver.connection import Connection
from procs.node.apiserver.types import ApiError, Endpoint, Purpose, Request

GET = Request("GET", "/api/v1/nodes/n")
WATCH = Request("GET", "/watch")
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"


@pytest.fixture(scope="module")
def ca():
    return Authority()


@pytest.fixture(scope="module")
def other():
    return Authority("another CA")


async def handler(asked, writer):
    if asked.path == "/watch":
        writer.write(HEAD)
    else:
        writer.write(answer(body=asked.peer.encode()))


def talk(context, story, **fields):
    """Run a story with a TLS server and a connection to it."""

    async def whole():
        async with serving(Server(handler, context)) as server:
            states = States()
            connection = Connection(endpoint(server, **fields), states, environment={})
            try:
                await story(server, connection, states)
            finally:
                await connection.close()

    asyncio.run(asyncio.wait_for(whole(), 120))


def fails(context, pattern, **fields):
    """Show that a connection cannot be made, and which sentence says why."""

    async def story(server, connection, states):
        with pytest.raises(ApiError, match=pattern) as caught:
            await connection.send(GET)
        assert caught.value.unreachable
        assert server.url in str(caught.value)
        assert states.told == [str(caught.value)]
        assert not server.asked

    talk(context, story, **fields)


def test_trusted_server_and_client_certificate(ca, tmp_path):
    """The CA's server is trusted, and the server knows us by our certificate."""
    cert, key = ca.issue("system:node:n")

    async def story(_server, connection, states):
        assert (await connection.send(GET)).body == b"system:node:n"
        assert states.told == [None]

    context = server_context(ca.issue(), tmp_path, ca)
    talk(context, story, ca_pem=ca.pem, client_cert_pem=cert, client_key_pem=key)


def test_keys_are_never_on_disk_and_no_descriptor_is_left(ca, tmp_path, monkeypatch):
    """Inline keys reach OpenSSL through memory: no file is made, no descriptor stays."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    cert, key = ca.issue("n")

    async def story(_server, connection, _states):
        await connection.send(GET)
        names = [
            os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is(fd)
        ]
        assert not [name for name in names if "memfd:pem" in name]
        assert not os.listdir(tmp_path / "tmp")

    context = server_context(ca.issue(), tmp_path, ca)
    talk(context, story, ca_pem=ca.pem, client_cert_pem=cert, client_key_pem=key)


def _is(fd):
    return os.path.islink(f"/proc/self/fd/{fd}")


def test_large_answers_and_requests_go_through(ca, tmp_path):
    """More than one record of TLS each way."""
    big = os.urandom(500_000).hex().encode()

    async def echo(asked, writer):
        writer.write(answer(body=asked.body))

    async def story():
        async with serving(Server(echo, server_context(ca.issue(), tmp_path))) as server:
            connection = Connection(endpoint(server, ca_pem=ca.pem), States(), environment={})
            request = Request("PUT", "/x", big)
            assert (await connection.send(request)).body == big
            assert (await connection.send(request)).body == big
            assert server.connections == 1
            await connection.close()

    asyncio.run(story())


def test_wrong_ca_is_named(ca, other, tmp_path):
    """A server that another CA has signed: the sentence names the CA's file."""
    file = tmp_path / "ca.crt"
    file.write_text(other.pem)
    context = server_context(ca.issue(), tmp_path)
    pattern = f"certificate is not signed by the CA in {file}"
    fails(context, pattern, ca_pem=other.pem, ca_file=str(file))
    fails(context, "is not signed by the CA in the kubeconfig", ca_pem=other.pem)
    fails(context, "is not signed by a CA of this system")


def test_insecure_asks_nothing(ca, tmp_path):
    """insecure-skip-tls-verify: any certificate will do."""

    async def story(_server, connection, _states):
        assert (await connection.send(GET)).status == 200

    pair = ca.issue(hosts=("elsewhere",), begin=now() - timedelta(days=100))
    talk(server_context(pair, tmp_path), story, insecure=True)


def test_expired_server_certificate_says_when(ca, tmp_path):
    """The day on which it expired is said, and what the clock says here."""
    begin = now() - timedelta(days=100)
    when = (begin + timedelta(days=30)).strftime("%Y-%m-%d %H:%M:%S UTC")
    pair = ca.issue(begin=begin, days=30)
    pattern = f"its certificate expired on {when}: this node's clock says {now():%Y-%m-%d}"
    fails(server_context(pair, tmp_path), pattern, ca_pem=ca.pem)


def test_clock_that_is_behind(ca, tmp_path):
    """A certificate of the future is a matter of clocks, and the sentence says both times."""
    begin = now() + timedelta(days=3)
    pair = ca.issue(begin=begin)
    when = begin.strftime("%Y-%m-%d %H:%M:%S UTC")
    pattern = f"its certificate is not valid before {when}: this node's clock says {now():%Y-%m-%d}"
    fails(server_context(pair, tmp_path), pattern, ca_pem=ca.pem)


@pytest.mark.parametrize(
    ("hosts", "name", "pattern"),
    [
        (("10.1.1.1",), "", r"its certificate is not for 127\.0\.0\.1"),
        ((), "", r"its certificate is not for 127\.0\.0\.1"),
        (("kubernetes",), "", r"its certificate is not for 127\.0\.0\.1"),
        (("127.0.0.1",), "kubernetes", "its certificate is not for kubernetes"),
    ],
)
def test_other_host(ca, tmp_path, hosts, name, pattern):
    """A certificate for another host is refused; its common name does not count."""
    context = server_context(ca.issue("127.0.0.1", hosts=hosts), tmp_path)
    fails(context, pattern, ca_pem=ca.pem, server_name=name)


def test_tls_server_name(ca, tmp_path):
    """tls-server-name: the certificate need only be for that name."""

    async def story(_server, connection, _states):
        assert (await connection.send(GET)).status == 200

    context = server_context(ca.issue(hosts=("kubernetes",)), tmp_path)
    talk(context, story, ca_pem=ca.pem, server_name="kubernetes")


def test_server_that_speaks_no_tls(ca):
    """A plain server behind an https URL is recognised."""

    def talks(sock):
        sock.recv(1000)
        sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\nClient sent TLS to an HTTP server")

    refused(talks, "it does not speak TLS", ca_pem=ca.pem)


def refused(behave, pattern, **fields):
    """Show what is said of a server that ends TLS; asyncio's own never sends why it does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)

        def serve():
            sock, _ = listener.accept()
            with sock:
                behave(sock)

        thread = threading.Thread(target=serve)
        thread.start()
        where = Endpoint(server=f"https://127.0.0.1:{listener.getsockname()[1]}", **fields)

        async def story():
            connection = Connection(where, States(), environment={})
            with pytest.raises(ApiError, match=pattern) as caught:
                await connection.send(GET)
            assert caught.value.unreachable
            await connection.close()

        try:
            asyncio.run(asyncio.wait_for(story(), 120))
        finally:
            thread.join()


def shakes(context):
    """Return what a server does that finds fault with the handshake, and says so."""

    def behave(sock):
        with context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False) as wrapped:
            wrapped.settimeout(60)
            with pytest.raises(ssl.SSLError):
                wrapped.do_handshake()
            # Closing with something unread would take back what was sent.
            socket.socket.shutdown(wrapped, socket.SHUT_WR)
            with suppress(ConnectionError):
                while socket.socket.recv(wrapped, 1000):
                    pass

    return behave


def test_old_tls_is_refused(ca, tmp_path):
    """Nothing below TLS 1.2 is spoken."""
    context = server_context(ca.issue(), tmp_path)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # for they are what this is about
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    refused(shakes(context), r"no version of TLS from 1\.2 on", ca_pem=ca.pem)


def test_server_that_hangs_in_the_handshake(ca):
    """A port that takes connections and says nothing is given up in time."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        async def story():
            url = f"https://127.0.0.1:{listener.getsockname()[1]}"
            connection = Connection(Endpoint(server=url, ca_pem=ca.pem), States(), environment={})
            with pytest.raises(
                ApiError, match=r"cannot connect to .*: no connection within 0\.2 s"
            ):
                await connection.send(Request("GET", "/x", seconds=0.2))
            await connection.close()

        asyncio.run(story())


def test_client_certificate_that_the_server_does_not_know(ca, other, tmp_path):
    """A server that refuses our certificate in TLS: the sentence says that it is ours."""
    cert, key = other.issue("n")
    context = server_context(ca.issue(), tmp_path, ca)
    pattern = "does not know the CA of our client certificate"
    own = {"client_cert_pem": cert, "client_key_pem": key}
    refused(shakes(context), pattern, ca_pem=ca.pem, **own)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    refused(shakes(context), pattern, ca_pem=ca.pem, **own)


def test_server_that_wants_a_client_certificate(ca, tmp_path):
    """A server that insists on a certificate, and we have none."""
    context = server_context(ca.issue(), tmp_path, ca)
    context.verify_mode = ssl.CERT_REQUIRED
    refused(shakes(context), "wants a client certificate", ca_pem=ca.pem)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    refused(shakes(context), "wants a client certificate", ca_pem=ca.pem)


def test_expired_client_certificate_is_named(ca, tmp_path):
    """An answer 401 to a certificate that expired says that, with file and day."""
    begin = now() - timedelta(days=100)
    cert, key = ca.issue("n", begin=begin, days=30)
    file = tmp_path / "client.pem"
    file.write_text(cert + key)
    when = (begin + timedelta(days=30)).strftime("%Y-%m-%d %H:%M:%S UTC")

    async def refuse(_asked, writer):
        writer.write(answer(401))

    async def story():
        async with serving(Server(refuse, server_context(ca.issue(), tmp_path))) as server:
            states = States()
            where = endpoint(
                server,
                ca_pem=ca.pem,
                client_cert_pem=cert + key,
                client_cert_file=str(file),
            )
            connection = Connection(where, states, environment={})
            with pytest.raises(ApiError, match=f"client certificate {file} expired on {when}") as e:
                await connection.send(GET)
            assert e.value.unauthorized
            assert states.told == [None]
            await connection.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("cert", "key", "pattern"),
    [
        (0, 3, "client certificate in the kubeconfig and its key do not belong together"),
        (0, "nothing", "client certificate in the kubeconfig or its key cannot be read"),
        ("nothing", 1, "client certificate in the kubeconfig or its key cannot be read"),
    ],
)
def test_client_certificate_that_is_none(ca, tmp_path, cert, key, pattern):
    """What cannot be a certificate and its key is said to be that; nothing is asked for."""
    texts = (*ca.issue("a"), *ca.issue("b"))
    cert = texts[cert] if isinstance(cert, int) else cert
    key = texts[key] if isinstance(key, int) else key
    context = server_context(ca.issue(), tmp_path, ca)

    async def story(_server, connection, _states):
        with pytest.raises(ApiError, match=pattern):
            await connection.send(GET)

    talk(context, story, ca_pem=ca.pem, client_cert_pem=cert, client_key_pem=key)


def written(path, text):
    """Replace a file as programs do: at once."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def test_new_client_certificate_replaces_all_connections(ca, tmp_path):
    """N-46: idle connections and watches are made anew with it; a running request may end."""
    file = tmp_path / "kubelet-client-current.pem"
    first, second = ca.issue("first"), ca.issue("second")
    written(file, "".join(first))
    release = asyncio.Event()

    async def held(asked, writer):
        if asked.path == "/held":
            await release.wait()
        await handler(asked, writer)

    async def story():
        async with serving(Server(held, server_context(ca.issue(), tmp_path, ca))) as server:
            where = endpoint(
                server,
                ca_pem=ca.pem,
                client_cert_pem="".join(first),
                client_key_pem="".join(first),
                client_cert_file=str(file),
                client_key_file=str(file),
            )
            connection = Connection(where, States(), environment={})
            await through_rotation(connection, server)
            await connection.close()

    async def through_rotation(connection, server):
        assert (await connection.send(GET)).body == b"first"
        await connection.send(Request("GET", "/x", purpose=Purpose.HEARTBEAT))
        running = asyncio.create_task(connection.send(Request("GET", "/held")))
        async with connection.stream(WATCH) as stream:
            pieces = aiter(stream)
            assert await anext(pieces) == b"x"
            before = server.connections
            written(file, "".join(second))
            connection.look()
            with pytest.raises(ApiError, match="the certificates are others now"):
                await anext(pieces)
            assert (await connection.send(GET)).body == b"second"
            assert server.connections == before + 1
        beat = await connection.send(Request("GET", "/x", purpose=Purpose.HEARTBEAT))
        assert beat.body == b"second"
        release.set()
        assert (await running).body == b"first"
        count = server.connections
        assert (await connection.send(GET)).body == b"second"
        assert server.connections == count

    asyncio.run(asyncio.wait_for(story(), 120))


def test_certificate_and_key_that_come_one_after_the_other(ca, tmp_path):
    """Between the two files nothing fits: the old pair is used until both are there."""
    cert_file, key_file = tmp_path / "c.pem", tmp_path / "k.pem"
    first, second = ca.issue("first"), ca.issue("second")
    written(cert_file, first[0])
    written(key_file, first[1])

    async def story(server, connection, states):
        assert (await connection.send(GET)).body == b"first"
        written(cert_file, second[0])
        assert (await connection.send(GET)).body == b"first"
        cert_file.unlink()
        assert (await connection.send(GET)).body == b"first"
        assert server.connections == 1
        written(cert_file, second[0])
        written(key_file, second[1])
        assert (await connection.send(GET)).body == b"second"
        assert states.told == [None]

    fields = {
        "client_cert_pem": first[0],
        "client_key_pem": first[1],
        "client_cert_file": str(cert_file),
        "client_key_file": str(key_file),
    }
    talk(server_context(ca.issue(), tmp_path, ca), story, ca_pem=ca.pem, **fields)


def test_file_written_again_with_the_same_text_changes_nothing(ca, tmp_path):
    """Only another certificate is a reason to make connections anew."""
    file = tmp_path / "client.pem"
    text = "".join(ca.issue("same"))
    written(file, text)

    async def story(server, connection, _states):
        await connection.send(GET)
        written(file, text)
        await connection.send(GET)
        assert server.connections == 1

    fields = {"client_cert_pem": text, "client_cert_file": str(file)}
    talk(server_context(ca.issue(), tmp_path, ca), story, ca_pem=ca.pem, **fields)


def test_new_ca_is_taken(ca, other, tmp_path):
    """A CA that is replaced in its file counts from then on."""
    file = tmp_path / "ca.crt"
    written(file, other.pem)

    async def story(server, connection, states):
        with pytest.raises(ApiError, match="is not signed by"):
            await connection.send(GET)
        written(file, ca.pem)
        assert (await connection.send(GET)).status == 200
        written(file, other.pem)
        with pytest.raises(ApiError, match="is not signed by"):
            await connection.send(GET)
        assert len(server.asked) == 1
        assert [told is None for told in states.told] == [False, True, False]

    talk(server_context(ca.issue(), tmp_path), story, ca_pem=other.pem, ca_file=str(file))


def test_validity_of_certificates(ca):
    """The two dates are read as the library that knows all of X.509 reads them."""
    begin = now() - timedelta(days=5)
    for days in (30, 365 * 40):  # two encodings of time
        cert, key = ca.issue(begin=begin, days=days)
        found = validity.of_pem(key + cert)
        assert (found.begin, found.end) == (begin, begin + timedelta(days=days))
    assert validity.of_pem("nothing") is None
    assert validity.of_pem("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----") is None
    assert validity.of_der(b"\x30\x84") is None
