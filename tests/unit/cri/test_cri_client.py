"""How the client behaves around a call: books, versions, streams, cancelling and closing."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

import grpc
import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import RuntimeClient
from kubelet.cri.connection import MAX_MESSAGE
from kubelet.cri.errors import (
    Cancelled,
    NotFound,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
    Unreachable,
    VersionNotSupported,
)
from tests.unit.cri.runtime import HANG, VERSION, Refusal, Runtime, pair, serving

GONE = Refusal(grpc.StatusCode.NOT_FOUND, "not found")
EMPTY_LIST = pb.ListContainersResponse()


class Clock:
    """Stands still unless it is moved."""

    def __init__(self):
        self.now = 1_000_000_000

    def __call__(self):
        return self.now


def test_a_call_is_in_flight_until_it_is_answered(sockets):
    """The books name the call, what it is about and since when, the oldest first."""

    async def main():
        async with pair(sockets) as (runtime, client, _images):
            runtime.answers = {"ContainerStatus": HANG, "ListContainers": HANG}
            before = time.monotonic_ns()
            first = asyncio.create_task(client.container_status("c-1"))
            await runtime.hanging.wait()
            second = asyncio.create_task(client.list_containers())
            await asyncio.sleep(0)
            one, two = client.in_flight
            assert (one.name, one.about) == ("ContainerStatus", "c-1")
            assert (two.name, two.about) == ("ListContainers", "")
            assert before <= one.since_ns <= two.since_ns <= time.monotonic_ns()
            for task in (first, second):
                task.cancel()
            await asyncio.wait((first, second))
            assert client.in_flight == ()

    asyncio.run(main())


def test_a_cancelled_call_is_told_to_the_runtime(sockets):
    """Giving up a call ends it on both sides, and leaves no trace in the books."""

    async def main():
        seen = []
        async with pair(sockets, observe=lambda *what: seen.append(what)) as (runtime, client, _):
            runtime.answers = {"ListContainers": HANG}
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.list_containers()
            assert client.in_flight == ()
            await asyncio.wait_for(runtime.given_up.wait(), 5)
            (name, seconds, error) = seen[0]
            assert name == "list_containers"
            assert 0.1 < seconds < 5
            assert isinstance(error, Cancelled)

    asyncio.run(main())


def test_every_call_is_observed(sockets):
    """The hook for metrics has the operation, its duration and its error, if any."""

    async def main():
        seen = []
        async with pair(sockets, observe=lambda *what: seen.append(what)) as (runtime, client, _):
            runtime.answers = {"ListContainers": EMPTY_LIST, "PodSandboxStatus": GONE}
            await client.list_containers()
            with pytest.raises(NotFound):
                await client.pod_sandbox_status("s-1")
            assert [name for name, _, _ in seen] == ["list_containers", "podsandbox_status"]
            assert seen[0][2] is None
            assert isinstance(seen[1][2], NotFound)
            assert all(0 < seconds < 5 for _, seconds, _ in seen)

    asyncio.run(main())


def test_closing_ends_the_calls_that_wait(sockets):
    """They raise an error rather than look as if their task were cancelled; later calls do too."""

    async def main():
        async with pair(sockets) as (runtime, client, _images):
            runtime.answers = {"ListContainers": HANG}
            waiting = asyncio.create_task(client.list_containers())
            await runtime.hanging.wait()
            await client.close()
            with pytest.raises(Cancelled, match="ListContainers: Canceled: the client was closed"):
                await waiting
            assert client.in_flight == ()
            with pytest.raises(Cancelled, match="the client is closed"):
                await client.list_containers()
            await client.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("StopPodSandbox", lambda r, _i: r.stop_pod_sandbox("s")),
        ("RemovePodSandbox", lambda r, _i: r.remove_pod_sandbox("s")),
        ("StopContainer", lambda r, _i: r.stop_container("c", 1)),
        ("RemoveContainer", lambda r, _i: r.remove_container("c")),
        ("RemoveImage", lambda _r, i: i.remove_image(pb.ImageSpec(image="x"))),
    ],
)
def test_what_is_gone_need_not_be_ended(sockets, name, make):
    """NotFound is no error where the aim is that it be gone (R-6)."""

    async def main():
        async with pair(sockets) as (runtime, client, images):
            runtime.answers = {name: GONE}
            assert await make(client, images) is False

    asyncio.run(main())


def test_the_version_is_remembered_for_a_minute(sockets):
    """R-4: asked again after 60 s, or at once when a fresh one is wanted."""

    async def main():
        clock = Clock()
        async with pair(sockets, clock=clock) as (runtime, client, _images):
            for step in (0, 59, 2, 0):
                clock.now += step * 10**9
                assert await client.version() == VERSION
            assert len(runtime.requests) == 2
            await client.version(fresh=True)
            assert len(runtime.requests) == 3

    asyncio.run(main())


def test_a_failed_version_is_not_remembered(sockets):
    """After a failure the next caller asks again."""

    async def main():
        async with pair(sockets) as (runtime, client, _images):
            runtime.answers = {"Version": Refusal(grpc.StatusCode.UNAVAILABLE, "starting")}
            with pytest.raises(Exception, match="Unavailable: starting"):
                await client.version()
            runtime.answers = {"Version": VERSION}
            assert await client.version() == VERSION

    asyncio.run(main())


def test_only_runtime_v1_is_accepted(sockets):
    """A gRPC server without the service, and one with other messages, are told apart in words."""

    async def main():
        async with pair(sockets) as (runtime, client, _images):
            runtime.answers = {}
            with pytest.raises(VersionNotSupported, match=r"serves gRPC, and not runtime\.v1"):
                await client.version()
            other = pb.VersionResponse(
                version="0.2.0", runtime_name="x", runtime_version="9", runtime_api_version="v2"
            )
            runtime.answers = {"Version": other}
            with pytest.raises(
                VersionNotSupported, match=r"x 9 speaks version '0\.2\.0'.*'0\.1\.0'"
            ):
                await client.version()

    asyncio.run(main())


def event(number):
    return pb.ContainerEventResponse(container_id=f"c-{number}", created_at=number)


def test_events_arrive_one_by_one(sockets):
    """A stream that the runtime ends is a loop that ends; while open it is not in flight."""

    async def main():
        seen = []
        async with pair(sockets, observe=lambda *what: seen.append(what)) as (runtime, client, _):
            runtime.answers = {"GetContainerEvents": [event(1), event(2)]}
            got = []
            async for one in client.get_container_events():
                got.append(one)
                assert client.in_flight == ()
            assert got == [event(1), event(2)]
            assert [(name, error) for name, _, error in seen] == [("get_container_events", None)]

    asyncio.run(main())


def test_leaving_the_events_tells_the_runtime(sockets):
    """The call ends with the loop: no stream is left open behind our back."""

    async def main():
        async with pair(sockets) as (runtime, client, _images):
            runtime.answers = {"GetContainerEvents": [event(1), HANG]}
            async with aclosing(client.get_container_events()) as events:
                async for one in events:
                    assert one == event(1)
                    break
                await runtime.hanging.wait()
            await asyncio.wait_for(runtime.given_up.wait(), 5)

    asyncio.run(main())


def test_events_that_the_runtime_does_not_have(sockets):
    """The error comes at the first look into the stream."""

    async def main():
        async with pair(sockets) as (_runtime, client, _images):
            with pytest.raises(Unimplemented):
                await anext(client.get_container_events())

    asyncio.run(main())


def test_an_event_stream_breaks_with_the_runtime(sockets):
    """When the runtime goes away, the reader hears of it at once."""

    async def main():
        path = sockets / "runtime.sock"
        runtime = Runtime({"GetContainerEvents": [event(1), HANG]})
        async with await RuntimeClient.connect(f"unix://{path}") as client:
            async with serving(path, runtime):
                events = client.get_container_events()
                assert await anext(events) == event(1)
                await runtime.hanging.wait()
            with pytest.raises((Unavailable, Cancelled)):
                await asyncio.wait_for(anext(events), 5)

    asyncio.run(main())


def test_lists_come_in_one_where_the_runtime_has_no_streams(sockets):
    """R-7: the fallback is found once, not asked for at each list."""

    async def main():
        async with pair(sockets) as (runtime, client, _images):
            runtime.answers = {
                "ListContainers": pb.ListContainersResponse(containers=[pb.Container(id="c-1")])
            }
            for _ in range(3):
                assert await client.stream_containers() == [pb.Container(id="c-1")]
            assert [name for name, _ in runtime.requests] == ["ListContainers"] * 3

    asyncio.run(main())


def listing(size):
    """A list whose message has just this many bytes."""
    filler = size - pb.ListContainersResponse(containers=[pb.Container(id="x" * size)]).ByteSize()
    answer = pb.ListContainersResponse(containers=[pb.Container(id="x" * (size + filler))])
    assert answer.ByteSize() == size
    return answer


def test_messages_have_up_to_16_mib(sockets):
    """R-4: that much arrives; a byte more is an error that says so, and the next call works."""

    async def main():
        async with pair(sockets) as (runtime, client, _images):
            runtime.answers = {"ListContainers": listing(MAX_MESSAGE)}
            assert len((await client.list_containers())[0].id) > MAX_MESSAGE - 100
            runtime.answers = {"ListContainers": listing(MAX_MESSAGE + 1)}
            with pytest.raises(ResourceExhausted, match="larger than max"):
                await client.list_containers()
            runtime.answers = {"Version": VERSION}
            await client.version()
            with pytest.raises(ResourceExhausted, match="larger than max"):
                await client.container_status("x" * (MAX_MESSAGE + 1))
            assert client.in_flight == ()

    asyncio.run(main())


def test_a_runtime_that_comes_back_is_found(sockets):
    """One client lives through the runtime's absence, at the start and later."""

    async def main():
        path = sockets / "runtime.sock"
        async with await RuntimeClient.connect(f"unix://{path}") as client:
            for _ in range(2):
                with pytest.raises(Unreachable):
                    await client.version(fresh=True)
                async with serving(path):
                    await asyncio.wait_for(reached(client), 8)

    asyncio.run(main())


async def reached(client):
    """Ask until there is an answer; nothing tells that a socket has begun to listen."""
    while True:
        try:
            return await client.version(fresh=True)
        except Unreachable:
            await asyncio.sleep(0.05)


def test_many_calls_at_once(sockets):
    """A few hundred calls share the connection, and every one is answered."""

    async def main():
        async with pair(sockets) as (runtime, client, _images):
            runtime.answers = {"ListContainers": EMPTY_LIST}
            await asyncio.gather(*(client.list_containers() for _ in range(300)))
            assert len(runtime.requests) == 300
            assert client.in_flight == ()

    asyncio.run(main())
