"""gRPC probes against real servers, and against what only looks like one (B-13)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from functools import partial

import hpack
import pytest

from kubelet.api.container import Container
from kubelet.api.handlers import GRPCAction, Probe
from kubelet.api.pod import Pod
from kubelet.pods.probes import ProbeKind
from procs.prober.handlers import http2
from procs.prober.handlers.calling import Target
from procs.prober.handlers.grpc import AGENT, probe_grpc
from procs.prober.handlers.h2c import H2cError, H2cTimeoutError, get_h2c
from procs.prober.handlers.http2 import frame
from procs.prober.job import Job, Outcome, ProbeError, Result
from tests.cluster.pki import Authority
from tests.unit.prober.grpc_server import grpc_server

HERE = "127.0.0.1"
PATIENT = 30  # seconds: more than any answer takes on a busy machine
HEALTHY = Outcome(Result.SUCCESS, "service healthy")
NO_HEALTH = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
FAILED = "error: health rpc probe failed: rpc error: code ="
SETTINGS = frame(http2.SETTINGS, 0, 0)
ENDS = http2.END_HEADERS | http2.END_STREAM


def job(port, service="", seconds=PATIENT, mode="", ip=HERE):
    """A probe of a server on this machine."""
    action = GRPCAction(mode=mode, port=port, service=service)
    probe = Probe(grpc=action, timeout_seconds=seconds)
    return Job(Pod(), Container(name="c"), "id", ProbeKind.LIVENESS, probe, ip)


def probe(*arguments, **options):
    """Make a probe."""
    return asyncio.run(probe_grpc(job(*arguments, **options)))


@pytest.fixture(scope="module")
def health():
    """The port of a server with the health service."""
    with grpc_server("health") as port:
        yield port


# Real servers.


@pytest.mark.parametrize(
    ("service", "result", "output"),
    [
        ("", Result.SUCCESS, "service healthy"),
        ("serving", Result.SUCCESS, "service healthy"),
        ("not-serving", Result.FAILURE, 'service unhealthy (responded with "NOT_SERVING")'),
        ("unknown", Result.FAILURE, 'service unhealthy (responded with "UNKNOWN")'),
        ("strange", Result.FAILURE, 'service unhealthy (responded with "9")'),
        ("nobody", Result.FAILURE, f"{FAILED} NotFound desc = unknown service"),
        ("agent", Result.FAILURE, f"{FAILED} DataLoss desc = {AGENT}: 100% näher"),
    ],
)
def test_only_serving_is_healthy(health, service, result, output):
    """B-13: any other status, and any error of the call, is a failure that says what it was."""
    assert probe(health, service) == Outcome(result, output)


def test_the_prober_says_who_it_is():
    """B-13: as a Go kubelet does, with the version that this one follows."""
    assert AGENT.startswith("kube-probe/1.")


def test_a_server_without_the_health_service_is_told_apart():
    """B-13: that is a mistake in the pod, and the text names what is missing."""
    with grpc_server("none") as port:
        found = probe(port)
    assert found.result is Result.FAILURE
    assert found.output.startswith(f"{NO_HEALTH}: ")


def test_a_call_that_is_not_answered_in_time(health):
    """B-13: the server speaks HTTP/2, so it is the call that took too long."""
    found = probe(health, "silent", seconds=1)
    assert found.result is Result.FAILURE
    assert found.output == "timeout: health rpc did not complete within 1s"


def test_many_at_a_time(health):
    """Each probe has a connection of its own, and none is left."""

    async def main():
        return await asyncio.gather(*(probe_grpc(job(health)) for _ in range(50)))

    assert asyncio.run(main()) == [HEALTHY] * 50


def test_tls_is_spoken_when_the_probe_says_so(tmp_path):
    """B-13: nothing is verified; with the gate closed, the mode is not looked at."""
    pair = Authority(tmp_path).issue("pod", "pod", hosts=("somewhere.else",))
    with grpc_server("tls", str(pair.certificate), str(pair.key)) as port:
        assert probe(port, mode="TLS") == HEALTHY
        assert probe(port, "not-serving", mode="TLS").result is Result.FAILURE
        closed = asyncio.run(probe_grpc(job(port, seconds=1, mode="TLS"), tls=False))
    assert closed.output == unreachable(port)


# What cannot be tried.


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (partial(job, 80, ip=""), "the pod has no address"),
        (partial(job, 0), "invalid port number: 0"),
        (partial(job, 65536), "invalid port number: 65536"),
        (partial(job, 80, "x" * 9000), "grpc.service is longer than"),
    ],
)
def test_what_cannot_be_asked_says_nothing_of_the_container(wrong, text):
    """B-8, B-10: such a round is unknown, and its text says why."""
    with pytest.raises(ProbeError, match=text):
        asyncio.run(probe_grpc(wrong()))


# Servers of our own, which send what they are told.


def unreachable(port, seconds="1s"):
    """What is said when no gRPC was spoken at all."""
    where = f'"{HERE}:{port}" within {seconds}'
    return f"timeout: failed to connect service {where}: context deadline exceeded"


@contextlib.asynccontextmanager
async def serving(speak):
    """A server on this loop that has ``speak`` talk on each connection; its port."""
    tasks = set()

    async def connected(reader, writer):
        tasks.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await speak(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(connected, HERE, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def against(speak, seconds=PATIENT, service=""):
    """Probe a server that speaks so; the outcome, with its port."""

    async def main():
        async with serving(speak) as port:
            return await probe_grpc(job(port, service, seconds)), port

    return asyncio.run(main())


async def request(reader):
    """Read a request; the frames after the preface."""
    await reader.readexactly(24)
    found = []
    while not (found and found[-1][0] == http2.DATA):
        head = await reader.readexactly(9)
        payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
        found.append((head[3], head[4], payload))
    return found


def saying(*frames, pieces=0, stay=True):
    """Make a server that says this when it is asked; in pieces of so many bytes, if any."""

    async def speak(reader, writer):
        await request(reader)
        data = b"".join(frames)
        for at in range(0, len(data), pieces or len(data) or 1):
            writer.write(data[at : at + (pieces or len(data))])
            await writer.drain()
            await asyncio.sleep(0)
        if stay:
            await reader.read()

    return speak


def fields(*pairs, flags=http2.END_HEADERS):
    """A HEADERS frame."""
    return frame(http2.HEADERS, flags, 1, hpack.Encoder().encode(pairs, huffman=True))


OK = fields((":status", "200"), ("content-type", "application/grpc"))
GOOD = frame(http2.DATA, 0, 1, b"\0\0\0\0\2\x08\x01")
DONE = fields(("grpc-status", "0"), flags=ENDS)
ANSWER = (SETTINGS, OK, GOOD, DONE)


def trailers_only(status, message=""):
    """An answer that is over before it begins."""
    kind = ("content-type", "application/grpc")
    said = (("grpc-status", status), ("grpc-message", message))
    return fields((":status", "200"), kind, *said, flags=ENDS)


def padded(data, flags=0):
    """The same with bytes that mean nothing around it."""
    return frame(http2.DATA, http2.PADDED | flags, 1, b"\3" + data + b"\0\0\0")


def in_parts(block, flags):
    """Fields in one HEADERS frame and two that continue it."""
    first, second, third = block[:3], block[3:9], block[9:]
    return (
        frame(http2.HEADERS, flags & ~http2.END_HEADERS, 1, first)
        + frame(http2.CONTINUATION, 0, 1, second)
        + frame(http2.CONTINUATION, http2.END_HEADERS, 1, third)
    )


BLOCK = hpack.Encoder().encode([(":status", "200"), ("content-type", "application/grpc+proto")])


@pytest.mark.parametrize(
    "frames",
    [
        ANSWER,
        (SETTINGS, frame(http2.PING, 0, 0, b"12345678"), *ANSWER[1:]),
        (SETTINGS, frame(http2.WINDOW_UPDATE, 0, 0, b"\0\0\1\0"), *ANSWER[1:]),
        (SETTINGS, frame(0xF0, 0, 7, b"who knows"), *ANSWER[1:]),
        (SETTINGS, fields((":status", "103")), *ANSWER[1:]),
        (SETTINGS, OK, padded(b"\0\0\0\0\2"), padded(b"\x08\x01"), DONE),
        (SETTINGS, in_parts(BLOCK, 0), GOOD, DONE),
        (SETTINGS, frame(http2.GOAWAY, 0, 0, struct.pack(">LL", 1, 0)), *ANSWER[1:]),
        (SETTINGS, OK, frame(http2.DATA, 0, 1, b"\0\0\0\0\5\x12\1x\x08\x01"), DONE),
    ],
    ids=["plain", "ping", "window", "strange", "early", "padded", "parts", "leaving", "fields"],
)
@pytest.mark.parametrize("pieces", [0, 1])
def test_all_that_a_server_may_do(frames, pieces):
    """RFC 9113: what is allowed is understood, in whatever pieces it comes."""
    found, _ = against(saying(*frames, pieces=pieces))
    assert found == HEALTHY


def test_what_is_sent_is_answered():
    """RFC 9113: SETTINGS and PING are acknowledged, or the server would wait for that."""
    heard = []

    async def speak(reader, writer):
        heard.extend(await request(reader))
        writer.write(SETTINGS + frame(http2.PING, 0, 0, b"12345678"))
        wanted = frame(http2.SETTINGS, http2.ACK, 0) + frame(http2.PING, http2.ACK, 0, b"12345678")
        assert await reader.readexactly(len(wanted)) == wanted
        writer.write(b"".join(ANSWER[1:]))
        await reader.read()

    found, port = against(speak, service="a.Service")
    assert found == HEALTHY
    said = dict(hpack.Decoder().decode(heard[1][2]))
    assert said == {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": f"{HERE}:{port}",
        "content-type": "application/grpc",
        "user-agent": AGENT,
        "te": "trailers",
        "grpc-timeout": "30000m",
    }
    assert heard[2][2] == b"\0\0\0\0\x0b\x0a\x09a.Service"


@pytest.mark.parametrize(
    ("frames", "output"),
    [
        ((trailers_only("5", "no%20such%20thing"),), f"{FAILED} NotFound desc = no such thing"),
        ((trailers_only("12", "nope"),), f"{NO_HEALTH}: nope"),
        ((trailers_only("4"),), "timeout: health rpc did not complete within 30s"),
        ((trailers_only("99", "odd"),), f"{FAILED} Unknown desc = odd"),
        (
            (fields((":status", "404"), ("content-type", "text/plain"), flags=ENDS),),
            f"{NO_HEALTH}: unexpected HTTP status code received from server: 404 (Not Found)",
        ),
        (
            (fields((":status", "503"), flags=ENDS),),
            f"{FAILED} Unavailable desc = unexpected HTTP status code received from server: 503",
        ),
        (
            (frame(http2.RST_STREAM, 0, 1, struct.pack(">L", 8)),),
            f"{FAILED} Canceled desc = stream terminated by RST_STREAM with error code: CANCEL",
        ),
        ((OK, DONE), f"{FAILED} Internal desc = cardinality violation: received no response"),
        ((OK, GOOD, GOOD, DONE), f"{FAILED} Internal desc = cardinality violation"),
        (
            (OK, frame(http2.DATA, http2.END_STREAM, 1, b"\0\0\0\0\2\x08\x01")),
            f"{FAILED} Internal desc = server closed the stream without sending trailers",
        ),
        ((OK, frame(http2.DATA, 0, 1, b"\0\0\0\0\2\x08"), DONE), f"{FAILED} Internal desc = "),
        ((OK, frame(http2.DATA, 0, 1, b"\0\0\0\0\1\x08"), DONE), f"{FAILED} Internal desc = grpc"),
        ((OK, frame(http2.DATA, 0, 1, b"\1\0\0\0\1x"), DONE), f"{FAILED} Internal desc = grpc"),
        ((frame(http2.DATA, 0, 1, b"x"),), f"{FAILED} Unavailable desc = error reading"),
        ((frame(http2.PUSH_PROMISE, 4, 1, b"\0\0\0\2"),), f"{FAILED} Unavailable desc = error"),
        ((frame(http2.HEADERS, 0, 1, b"x"), SETTINGS), f"{FAILED} Unavailable desc = error"),
        ((frame(http2.HEADERS, 4, 1, b"\xff\xff\xff\xff"),), f"{FAILED} Unavailable desc = error"),
        ((b"\xff\xff\xff" + b"\0" * 6,), f"{FAILED} Unavailable desc = error reading from server"),
    ],
)
def test_what_is_not_a_healthy_answer(frames, output):
    """B-13: errors of gRPC and nonsense are failures, told in the words of a Go kubelet."""
    found, _ = against(saying(SETTINGS, *frames))
    assert found.result is Result.FAILURE
    assert found.output.startswith(output)


@pytest.mark.parametrize(
    "first",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x01\0\2\2\x16", b"220 mail here\r\n", b""],
    ids=["http1", "tls", "smtp", "closed"],
)
def test_what_is_no_http2_is_no_connection(first):
    """B-13: as gRPC's clients see it, tried again until the time is over."""
    found, port = against(saying(first, stay=False), seconds=1)
    assert (found.result, found.output) == (Result.FAILURE, unreachable(port))


def test_a_server_that_accepts_and_says_nothing():
    """B-13: users-pains 30: it fails in time."""
    found, port = against(saying(), seconds=1)
    assert found.output == unreachable(port)


def test_a_port_that_is_closed():
    """B-13: nobody is there, and the text is the one that people search for."""
    with socket.socket() as taken:
        taken.bind((HERE, 0))
        port = taken.getsockname()[1]
        assert probe(port, seconds=1).output == unreachable(port)


def test_a_server_that_comes_within_the_time_is_found():
    """As gRPC's clients do: a container that is about to listen is no failure."""

    async def main():
        with socket.socket() as early:
            early.bind((HERE, 0))
            port = early.getsockname()[1]
            probing = asyncio.create_task(probe_grpc(job(port)))
            await asyncio.sleep(0)  # it has been refused once
            server = await asyncio.start_server(saying(*ANSWER), sock=early)
            found = await probing
            server.close()
            return found

    assert asyncio.run(main()) == HEALTHY


@pytest.mark.parametrize(
    "refusal",
    [
        frame(http2.GOAWAY, 0, 0, struct.pack(">LL", 0, 0)),
        frame(http2.RST_STREAM, 0, 1, struct.pack(">L", http2.REFUSED_STREAM)),
    ],
    ids=["goaway", "refused"],
)
def test_what_a_server_did_not_look_at_is_asked_once_more(refusal):
    """RFC 9113, 8.7: at once, and no third time."""
    asked = []

    def speaking(answers):
        async def speak(reader, writer):
            asked.append(1)
            await saying(SETTINGS, answers[min(len(asked), len(answers)) - 1])(reader, writer)

        return speak

    found, _ = against(speaking([refusal, b"".join(ANSWER[1:])]))
    assert (found, len(asked)) == (HEALTHY, 2)
    asked.clear()
    found, _ = against(speaking([refusal]))
    assert found.output.startswith(f"{FAILED} Unavailable desc = ")
    assert len(asked) == 2


def test_a_connection_that_is_reset_in_the_middle():
    """B-13: the server had begun to speak, so the call failed; the text says between whom."""

    async def speak(reader, writer):
        await request(reader)
        writer.write(SETTINGS + OK)
        await reader.readexactly(9)  # our acknowledgement: all of it was read
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    found, port = against(speak)
    assert found.result is Result.FAILURE
    assert found.output.startswith(f"{FAILED} Unavailable desc = error reading from server: read")
    assert found.output.endswith(f"->{HERE}:{port}: read: connection reset by peer")


@pytest.mark.parametrize(
    ("endless", "text"),
    [
        (padded(b"x" * 1000), "more than 16384 bytes of data"),
        (frame(http2.CONTINUATION, 0, 1, b"x" * 1000), "peer header list size exceeded limit"),
        (frame(http2.PING, http2.ACK, 0, b"12345678"), "more than 262144 bytes"),
        (frame(http2.DATA, 0, 1, b""), "more than 262144 bytes"),
    ],
    ids=["data", "fields", "pings", "nothing"],
)
def test_a_server_without_end_is_left(endless, text):
    """Bounded memory: neither data nor fields nor frames that carry nothing go on for ever."""
    fields_first = frame(http2.HEADERS, 0, 1, b"") if endless[3] == http2.CONTINUATION else OK

    async def speak(reader, writer):
        await request(reader)
        writer.write(SETTINGS + fields_first)
        while True:
            writer.write(endless * 50)
            await writer.drain()

    found, _ = against(speak)
    assert found.result is Result.FAILURE
    assert text in found.output


def test_fields_that_mean_more_than_they_say():
    """A block of few bytes that stands for many is not unfolded beyond the limit."""
    bomb = b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000 + b"\xbe" * 4000
    block = frame(http2.HEADERS, http2.END_HEADERS, 1, bomb)
    found, _ = against(saying(SETTINGS, block))
    assert found.output == f"{FAILED} Internal desc = peer header list size exceeded limit"


# Time.


def test_an_answer_that_was_there_before_we_looked_counts():
    """Users-pains 30: the loop was late, not the server, and the outcome says by how much."""

    async def main():
        async with serving(saying(*ANSWER)) as port:
            probing = asyncio.create_task(probe_grpc(job(port, seconds=1)))
            await asyncio.sleep(0)
            time.sleep(1.5)  # noqa: ASYNC251 - this is what happens to a loop that is late
            return await probing

    found = asyncio.run(main())
    assert found.result is Result.SUCCESS
    assert found.late_ns >= 400_000_000


def test_a_server_that_is_slow_by_itself_fails_for_that():
    """The time that a loop owes is given back once; a server that needs more has failed."""

    async def main():
        async with serving(saying(SETTINGS)) as port:
            probing = asyncio.create_task(probe_grpc(job(port, seconds=1)))
            await asyncio.sleep(0)
            time.sleep(1.2)  # noqa: ASYNC251 - as above
            return await probing

    found = asyncio.run(main())
    assert found.output == "timeout: health rpc did not complete within 1s"
    assert found.late_ns >= 100_000_000


def test_a_probe_that_is_cancelled_leaves_nothing():
    """A container that goes away takes its probe with it, and the socket with that."""

    async def main():
        closed = asyncio.Event()

        async def speak(reader, _writer):
            await request(reader)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            closed.set()

        async with serving(speak) as port:
            probing = asyncio.create_task(probe_grpc(job(port)))
            await asyncio.sleep(0.05)
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
            await asyncio.wait_for(closed.wait(), PATIENT)

    asyncio.run(main())


# GET.


def got(speak, seconds=PATIENT, **options):
    """Ask a server for something."""

    async def main():
        async with serving(speak) as port:
            headers = (("User-Agent", "me"), ("Connection", "close"), ("Host", "x"))
            return await get_h2c(Target(HERE, port), "/a?b", headers, seconds, **options)

    return asyncio.run(main())


def answering(heard, *frames):
    """A server of a single GET."""

    async def speak(reader, writer):
        await reader.readexactly(24)
        for _ in range(2):
            head = await reader.readexactly(9)
            heard.append(await reader.readexactly(int.from_bytes(head[:3], "big")))
        writer.write(SETTINGS + b"".join(frames))
        await reader.read()

    return speak


def test_get_over_http2():
    """B-12: one request without TLS; of the body no more than 10 KiB are read."""
    heard = []
    page = frame(http2.DATA, 0, 1, b"x" * 8000)
    found = got(answering(heard, fields((":status", "204"), ("a", "b")), page, page), authority="h")
    assert (found.status, found.fields["a"], found.body) == (204, "b", b"x" * 10240)
    said = hpack.Decoder().decode(heard[1])
    wanted = {":method": "GET", ":scheme": "http", ":path": "/a?b", ":authority": "h"}
    assert dict(said) == {**wanted, "user-agent": "me"}


def test_get_over_http2_of_what_does_not_answer():
    """B-12: it is not tried again, and a time-out is told from the rest."""
    with pytest.raises(H2cTimeoutError, match="context deadline exceeded"):
        got(answering([]), seconds=1)
    with pytest.raises(H2cError, match="this is not HTTP/2"):
        got(saying_at_once(b"HTTP/1.1 200 OK\r\n\r\n"))
    with pytest.raises(H2cError, match="malformed status code 'x'"):
        got(answering([], fields((":status", "x"), flags=ENDS)))


def saying_at_once(data):
    """A server that does not wait for a request."""

    async def speak(reader, writer):
        writer.write(data)
        await reader.read()

    return speak
