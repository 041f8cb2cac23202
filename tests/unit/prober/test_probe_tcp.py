"""TCP probes, and names that are looked up for probes (B-13)."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from procs.prober.handlers.resolve import Resolver
from procs.prober.handlers.tcp import probe_tcp
from procs.prober.job import ProbeError, Result
from tests.unit.prober.probe_servers import HOST, closed_port, listening, saying, tcp_job


def test_server_that_takes_a_connection_is_well():
    """Nothing is said to it."""

    async def main():
        async with listening(saying()) as port:
            return await probe_tcp(tcp_job(port))

    outcome = asyncio.run(main())
    assert (outcome.result, outcome.output) == (Result.SUCCESS, "")


def test_port_without_a_listener_fails():
    """The kernel's word is told as Go tells it."""
    with closed_port() as port:
        outcome = asyncio.run(probe_tcp(tcp_job(port)))
    assert outcome.result is Result.FAILURE
    assert outcome.output == f"dial tcp {HOST}:{port}: connect: connection refused"


def test_connection_that_is_not_taken_fails_in_time():
    """A queue that is full takes nobody any more."""
    with socket.socket() as full, socket.socket() as first:
        full.bind((HOST, 0))
        full.listen(0)
        port = full.getsockname()[1]
        first.connect((HOST, port))
        outcome = asyncio.run(probe_tcp(tcp_job(port, seconds=0.2)))
    assert outcome.result is Result.FAILURE
    assert outcome.output == f"dial tcp {HOST}:{port}: i/o timeout"


@pytest.mark.parametrize(
    ("port", "ip", "why"),
    [
        ("none", HOST, "couldn't find port: 'none' in container c"),
        (0, HOST, "invalid port number: 0"),
        (80, "", "the pod has no address"),
    ],
)
def test_connection_that_cannot_be_tried_is_an_error(port: int | str, ip: str, why: str):
    """It says nothing of the container (B-8)."""
    with pytest.raises(ProbeError, match=why):
        asyncio.run(probe_tcp(tcp_job(port, ip=ip)))


def at(*hosts):
    """A resolver that knows these addresses, whatever the name."""
    return Resolver(lambda _name: [(socket.AF_INET, (host, 0)) for host in hosts])


def test_every_address_of_a_name_is_tried():
    """The first one's words are told when none takes us."""

    async def main():
        async with listening(saying()) as port:
            good = await probe_tcp(tcp_job(port, host="web.test"), at("127.0.0.9", HOST))
            bad = await probe_tcp(tcp_job(port, host="web.test"), at("127.0.0.9", "127.0.0.8"))
            return port, good, bad

    port, good, bad = asyncio.run(main())
    assert good.result is Result.SUCCESS
    assert bad.output == f"dial tcp 127.0.0.9:{port}: connect: connection refused"


def test_name_that_does_not_resolve_fails():
    """So does one that cannot be a name."""

    def nobody(_name):
        raise socket.gaierror(socket.EAI_NONAME, "x")

    outcome = asyncio.run(probe_tcp(tcp_job(1, host="no.test"), Resolver(nobody)))
    assert outcome.result is Result.FAILURE
    assert outcome.output == "dial tcp: lookup no.test: no such host"
    outcome = asyncio.run(probe_tcp(tcp_job(1, host="x" * 70 + ".test")))
    assert outcome.output.endswith("no such host")


def test_resolver_that_is_silent_costs_no_more_than_its_names_time():
    """One lookup for a name however many wait, few at once, and none for numbers."""
    answers = threading.Event()
    asked = []

    def silent(name):
        asked.append(name)
        answers.wait(60)
        return []

    async def main():
        names = Resolver(silent, limit=2)
        probes = [tcp_job(1, host=name, seconds=0.2) for name in ("a.test", "a.test", "b.test")]
        waiting = await asyncio.gather(*(probe_tcp(job, names) for job in probes))
        with pytest.raises(ProbeError, match="2 lookups wait for the resolver already"):
            await probe_tcp(tcp_job(1, host="c.test"), names)
        number = await probe_tcp(tcp_job(1, host=HOST), names)
        answers.set()
        return waiting, number

    waiting, number = asyncio.run(main())
    assert [one.output for one in waiting] == [
        f"dial tcp: lookup {name}.test: i/o timeout" for name in "aab"
    ]
    assert number.output == f"dial tcp {HOST}:1: connect: connection refused"
    assert sorted(asked) == ["a.test", "b.test"]
