"""Syncloop runs the commands of probes: what it takes for one, and what came of it (B-14)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import grpc
import pytest

from kubelet.api import codec
from kubelet.api.pod import Pod
from kubelet.channels.probing import ExecProbe, ProbeExecuted
from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import Code, TimedOut, Unavailable
from kubelet.pods.cache import Seen
from kubelet.pods.rows import PodRow, WorkerState, document_of
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord
from procs.syncloop.probes import executing
from procs.syncloop.probes.executing import Executing, RefusedError, ended, failed, plan

UID = "u1"
SOURCE = {"fieldRef": {"fieldPath": "status.podIP"}}
ENV = [{"name": "A", "value": "a $(B)"}, {"name": "B", "valueFrom": SOURCE}]
COMMAND = ["test", "$(A)", "$(B)", "$(C)", "$$(A)"]
CONTAINER = {
    "name": "c",
    "env": ENV,
    "livenessProbe": {"exec": {"command": COMMAND}, "timeoutSeconds": 7},
    "readinessProbe": {"tcpSocket": {"port": 80}},
}
SIDECAR = {"name": "s", "restartPolicy": "Always", "startupProbe": {"exec": {"command": ["up"]}}}
POD = codec.read(
    Pod,
    {
        "metadata": {"name": "p", "namespace": "n", "uid": UID},
        "spec": {"containers": [CONTAINER], "initContainers": [SIDECAR]},
    },
)
RECORD = PodRecord(
    UID,
    containers=(
        ContainerRecord("c1", "c", state=ContainerState.RUNNING),
        ContainerRecord("c0", "c", state=ContainerState.EXITED),
        ContainerRecord("s1", "s", state=ContainerState.RUNNING),
        ContainerRecord("x1", "x", state=ContainerState.RUNNING),
    ),
)


def asking(container_id="c1", probe="liveness", pod=UID):
    """A request of prober."""
    return ExecProbe(pod, container_id, probe)


# What is run.


def test_the_command_is_the_one_of_the_spec():
    """B-14: variables are put in as they are written, those from elsewhere are empty."""
    assert plan(POD, RECORD, asking()) == (("test", "a $(B)", "", "$(C)", "$(A)"), 7.0)


def test_a_sidecar_has_probes_too():
    """B-1, B-15: and a probe without a time-out has a second."""
    assert plan(POD, RECORD, asking("s1", "startup")) == (("up",), 1.0)


@pytest.mark.parametrize(
    ("request_", "record", "text"),
    [
        (asking("c9"), RECORD, "container c9 is not one of the pod's"),
        (asking(), None, "container c1 is not one of the pod's"),
        (asking("c0"), RECORD, "container c0 is not running but exited"),
        (asking("x1"), RECORD, "container x is not in the spec of pod n/p"),
        (asking(probe="readiness"), RECORD, "container c has no readiness probe with a command"),
        (asking(probe="startup"), RECORD, "container c has no startup probe with a command"),
    ],
)
def test_what_is_not_in_the_spec_is_not_run(request_, record, text):
    """B-14: a process without privileges can have nothing run but what the pod's author wrote."""
    with pytest.raises(RefusedError, match=text):
        plan(POD, record, request_)


# What came of it.


def test_both_streams_of_a_failure_are_told():
    """B-14: the output first, then the errors."""
    answer = pb.ExecSyncResponse(exit_code=2, stdout=b"out\xff", stderr=b"err")
    assert ended(answer) == ProbeExecuted(exit_code=2, output="out\ufffderr")


@pytest.mark.parametrize("said", [b"x", b"\xff"])
def test_a_command_that_says_much_is_cut_short(said):
    """B-14: at 10 KiB, whatever it said."""
    answer = pb.ExecSyncResponse(exit_code=1, stdout=said * 9000, stderr=said * 9000)
    assert 10230 <= len(ended(answer).output.encode()) <= 10240


def test_a_success_carries_nothing():
    """Nobody reads what a command said that succeeded."""
    assert ended(pb.ExecSyncResponse(stdout=b"fine")) == ProbeExecuted()


def test_a_time_out_is_the_runtimes_word():
    """B-14: it stopped the command; a runtime that says nothing says nothing of the container."""
    error = TimedOut(Code.DEADLINE_EXCEEDED, "timeout 1s exceeded", "ExecSync")
    found = failed(error, ("sleep", "100"), 90.0)
    said = 'command timed out: "sleep 100" timed out after 1m30s'
    assert found == ProbeExecuted(timed_out=True, output=said)
    silent = TimedOut(Code.DEADLINE_EXCEEDED, "no answer", "ExecSync", no_answer=True)
    assert (
        failed(silent, ("a",), 1.0).error == "rpc error: code = DeadlineExceeded desc = no answer"
    )
    away = Unavailable(Code.UNAVAILABLE, "not now", "ExecSync")
    assert failed(away, ("a",), 1.0) == ProbeExecuted(
        error="rpc error: code = Unavailable desc = not now"
    )


# The whole, on a real gRPC server.


class Runtime:
    """A runtime that has ExecSync and nothing else."""

    def __init__(self):
        self.asked = []
        self.inside = asyncio.Event()
        self.go = asyncio.Event()

    async def exec_sync(self, request, _context):
        """Answer as the command says."""
        self.asked.append((request.container_id, list(request.cmd), request.timeout))
        self.inside.set()
        await self.go.wait()
        return pb.ExecSyncResponse(exit_code=3, stdout=b"no")

    async def serve(self, path):
        """Listen at a path."""
        handler = grpc.unary_unary_rpc_method_handler(
            self.exec_sync,
            request_deserializer=pb.ExecSyncRequest.FromString,
            response_serializer=pb.ExecSyncResponse.SerializeToString,
        )
        service = grpc.method_handlers_generic_handler(
            "runtime.v1.RuntimeService", {"ExecSync": handler}
        )
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((service,))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        return server


class Cache:
    """What the runtime was seen to hold, and how often somebody had it decoded."""

    def __init__(self):
        self.record = RECORD
        self.decoded = 0

    def raw(self, _uid):
        """The entry as it is written."""
        return repr(self.record).encode()

    def get(self, _uid):
        """The entry."""
        self.decoded += 1
        return Seen(self.record, 1)


def row(state=WorkerState.SYNC):
    """The pod's row."""
    return PodRow(UID, "p", "n", "file", state=state, document=document_of(POD))


def test_a_command_runs_once_at_a_time(tmp_path):
    """Users-pains 32: a second one is refused until the runtime has answered the first."""

    async def main():
        runtime, cache = Runtime(), Cache()
        server = await runtime.serve(tmp_path / "s")
        async with await RuntimeClient.connect(f"unix://{tmp_path}/s") as client:
            book = SimpleNamespace(pods={UID: row()})
            answers = Executing(SimpleNamespace(client=client, cache=cache), book)
            first = asyncio.create_task(answers.answer(asking(), None))
            await runtime.inside.wait()
            assert await answers.answer(asking(), None) == ProbeExecuted(busy=True)
            runtime.go.set()
            assert await first == ProbeExecuted(exit_code=3, output="no")
            assert (await answers.answer(asking(), None)).exit_code == 3
            assert cache.decoded == 1  # nothing has changed in between
            cache.record = PodRecord(UID)
            assert "is not one of the pod's" in (await answers.answer(asking(), None)).error
        await server.stop(None)
        assert runtime.asked == [("c1", ["test", "a $(B)", "", "$(C)", "$(A)"], 7)] * 2

    asyncio.run(main())


@pytest.mark.parametrize("known", [{}, {UID: row(WorkerState.FINISHED)}])
def test_a_pod_that_is_over_has_nothing_run(known):
    """B-6: nor has one that nobody knows."""
    answers = Executing(SimpleNamespace(cache=Cache()), SimpleNamespace(pods=known))
    found = asyncio.run(answers.answer(asking(), None))
    assert found.error == f"pod {UID} is not one that runs here"


def test_what_is_remembered_is_bounded(monkeypatch):
    """Containers come and go; what was found out about them does not stay for ever."""
    monkeypatch.setattr(executing, "_REMEMBERED", 1)
    answers = Executing(SimpleNamespace(cache=Cache()), SimpleNamespace(pods={UID: row()}))
    for request in (asking(), asking("s1", "startup")):
        answers._errand(request)
    assert len(answers._errands) == 1
