"""Every call of the client against a real server: what is asked, what comes back, how long."""

from __future__ import annotations

import asyncio

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.cri.errors import BadReply
from kubelet.cri.timeouts import limit
from tests.unit.cri.cases import ATTACH, CALLS, CONTAINER, EXEC, IMAGE, SANDBOX
from tests.unit.cri.runtime import pair


def test_the_table_is_complete():
    """Each call of both services is tried; the endless one has tests of its own."""
    services = pb.DESCRIPTOR.services_by_name.values()
    every = {name for service in services for name in service.methods_by_name}
    assert {call[0] for call in CALLS} == every - {"GetContainerEvents"}


@pytest.mark.parametrize("case", CALLS, ids=[f"{at}-{case[0]}" for at, case in enumerate(CALLS)])
def test_call(sockets, case):
    """The request arrives as meant and with its time-out (R-5), and the answer comes back."""
    name, make, request, answer, result, seconds = case

    async def main():
        async with pair(sockets, timeout=100) as (runtime, client, images):
            runtime.answers = {name: answer}
            assert await make(client, images) == result
            arrived, data = runtime.requests[0]
            assert (arrived, type(request).FromString(data)) == (name, request)
            left = runtime.time_left[name]
            if seconds is None:
                assert left is None or left > 1e6
            else:
                assert seconds - 5 < left < seconds + 2  # gRPC rounds up on the wire

    asyncio.run(main())


EMPTY = [
    ("RunPodSandbox", lambda r, _i: r.run_pod_sandbox(SANDBOX), pb.RunPodSandboxResponse()),
    (
        "CreateContainer",
        lambda r, _i: r.create_container("s-1", CONTAINER, SANDBOX),
        pb.CreateContainerResponse(),
    ),
    ("Exec", lambda r, _i: r.exec(EXEC), pb.ExecResponse()),
    ("Attach", lambda r, _i: r.attach(ATTACH), pb.AttachResponse()),
    ("PortForward", lambda r, _i: r.port_forward("s-1", [1]), pb.PortForwardResponse()),
    ("PullImage", lambda _r, i: i.pull_image(IMAGE), pb.PullImageResponse()),
    ("ContainerStatus", lambda r, _i: r.container_status("c"), pb.ContainerStatusResponse()),
    ("PodSandboxStatus", lambda r, _i: r.pod_sandbox_status("s"), pb.PodSandboxStatusResponse()),
    ("ContainerStats", lambda r, _i: r.container_stats("c"), pb.ContainerStatsResponse()),
    ("PodSandboxStats", lambda r, _i: r.pod_sandbox_stats("s"), pb.PodSandboxStatsResponse()),
    ("Status", lambda r, _i: r.status(), pb.StatusResponse()),
    (
        "ImageStatus",
        lambda _r, i: i.image_status(IMAGE),
        pb.ImageStatusResponse(image=pb.Image(size=1)),
    ),
    ("Version", lambda r, _i: r.version(), pb.VersionResponse(version="0.1.0")),
    ("ListContainers", lambda r, _i: r.list_containers(), b"\x0a\xff\xff\xff\xff\x7f"),
    ("ListContainers", lambda r, _i: r.list_containers(), b"\x0a\x04\x0a\x02\xff\xfe"),
]


@pytest.mark.parametrize(("name", "make", "answer"), EMPTY)
def test_an_answer_without_its_content_is_a_bad_reply(sockets, name, make, answer):
    """An empty ID, a missing status, bytes that are no message: a typed error that says so."""

    async def main():
        async with pair(sockets) as (runtime, client, images):
            runtime.answers = {name: answer}
            with pytest.raises(BadReply, match=f"^{name}.*the runtime's answer makes no sense: "):
                await make(client, images)
            assert client.in_flight == images.in_flight == ()

    asyncio.run(main())


def test_the_limits_without_a_runtime():
    """R-5 as a table, with the default of two minutes."""
    assert [
        limit(*case)
        for case in (
            ("ListContainers", 120.0),
            ("RunPodSandbox", 120.0),
            ("StopContainer", 120.0, 30),
            ("StopContainer", 120.0, 0),
            ("ExecSync", 120.0, 10),
            ("ExecSync", 120.0, 0),
            ("CheckpointContainer", 120.0, 60),
            ("CheckpointContainer", 120.0, 600),
            ("PullImage", 120.0),
            ("Exec", 120.0),
            ("Attach", 120.0),
            ("GetContainerEvents", 120.0),
            ("PortForward", 120.0),
        )
    ] == [120, 240, 150, 120, 130, None, 120, 600, None, None, None, None, 120]
