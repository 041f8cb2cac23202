"""What is asked at the start: the cgroup driver; and what verbose answers tell."""

from __future__ import annotations

import asyncio
import json

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.cri.core import grpc
from kubelet.cri.driver import Source, cgroup_driver
from kubelet.cri.errors import BadReply, Unavailable
from kubelet.cri.info import init_pid
from tests.unit.cri.runtime import Refusal, pair

DOWN = Refusal(grpc.StatusCode.UNAVAILABLE, "starting")


def config(driver):
    return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=driver))


def ask(sockets, answers, configured="cgroupfs"):
    """Ask with one answer after the other; the result and the pauses between."""
    pauses = []

    async def main():
        async with pair(sockets) as (runtime, client, _images):
            remaining = iter(answers)

            def turn():
                runtime.answers = {"RuntimeConfig": answer} if (answer := next(remaining)) else {}

            async def sleep(seconds):
                pauses.append(seconds)
                turn()

            turn()
            return await cgroup_driver(client, configured, sleep)

    return asyncio.run(main()), pauses


@pytest.mark.parametrize(
    ("answers", "result", "pauses"),
    [
        ([config(pb.SYSTEMD)], ("systemd", Source.RUNTIME), []),
        ([config(pb.CGROUPFS)], ("cgroupfs", Source.RUNTIME), []),
        ([DOWN, DOWN, config(pb.SYSTEMD)], ("systemd", Source.RUNTIME), [2.0, 2.0]),
        ([None], ("cgroupfs", Source.FALLBACK), []),
        ([DOWN, None], ("cgroupfs", Source.FALLBACK), [2.0]),
        ([pb.RuntimeConfigResponse()], ("cgroupfs", Source.CONFIG), []),
    ],
)
def test_cgroup_driver(sockets, answers, result, pauses):
    """C-10: the runtime decides, three attempts two seconds apart; without the call, the file."""
    assert ask(sockets, answers) == (result, pauses)


def test_a_runtime_that_does_not_answer_decides_nothing(sockets):
    """The third failure is raised: a guess could put pods under the wrong cgroup."""
    with pytest.raises(Unavailable):
        ask(sockets, [DOWN] * 3)


def test_a_driver_that_nobody_knows(sockets):
    """Neither is an unknown one guessed, nor asked for again."""
    with pytest.raises(BadReply, match="cgroup driver 7 is unknown"):
        ask(sockets, [config(7)])


def containerd(pid, **more):
    """The verbose status as containerd 1.6 and 2.x give it."""
    value = {
        "sandboxID": "s-1",
        "pid": pid,
        "removing": False,
        "snapshotKey": "c-1",
        "snapshotter": "overlayfs",
        "runtimeType": "io.containerd.runc.v2",
        "runtimeOptions": {"systemd_cgroup": False},
        "config": {"metadata": {"name": "x"}, "envs": [{"key": "pid", "value": "1"}]},
        "runtimeSpec": {"process": {"pid": 1, "args": ["/pause"]}},
        **more,
    }
    return {"info": json.dumps(value)}


def crio(pid):
    """And as CRI-O does."""
    value = {"checkpointedAt": "0001-01-01T00:00:00Z", "pid": pid, "sandboxID": "s-1"}
    return {"info": json.dumps({**value, "runtimeSpec": {}, "privileged": False})}


def status(info, state=pb.CONTAINER_RUNNING):
    return pb.ContainerStatusResponse(status=pb.ContainerStatus(id="c-1", state=state), info=info)


def sandbox(info, state=pb.SANDBOX_READY):
    shell = pb.PodSandboxStatus(id="s-1", state=state)
    return pb.PodSandboxStatusResponse(status=shell, info=info)


@pytest.mark.parametrize(
    ("answer", "pid"),
    [
        (status(containerd(4321)), 4321),
        (status(containerd(4321, createdAt="2026", exitedAt="")), 4321),
        (status(crio(77)), 77),
        (status({"pid": "77"}), 77),
        (status({"info": '{"pid": "77"}'}), 77),
        (sandbox({"info": json.dumps({"pid": 9, "processStatus": "running"})}), 9),
        (sandbox({"info": json.dumps({"image": "pause", "pid": 9})}), 9),
        (sandbox(containerd(9), pb.SANDBOX_NOTREADY), None),
        (pb.PodSandboxStatusResponse(info=containerd(9)), None),
        (status(containerd(4321), pb.CONTAINER_EXITED), None),
        (status(containerd(4321), pb.CONTAINER_CREATED), None),
        (status(containerd(4321), 17), None),
        (status(containerd(0)), None),
        (status(containerd(-1)), None),
        (status(containerd(1 << 40)), None),
        (status(containerd(True)), None),
        (status(containerd(12.5)), None),
        (status(containerd(None)), None),
        (status(containerd({"pid": 3})), None),
        (status({}), None),
        (status({"info": ""}), None),
        (status({"info": "[1]"}), None),
        (status({"info": "{"}), None),
        (status({"info": "[" * 100_000}), None),
        (status({"pid": "9" * 5000}), None),
        (status({"pid": "\N{SUPERSCRIPT TWO}"}), None),
    ],
)
def test_init_pid(answer, pid):
    """The pid of what runs, in each runtime's form; nothing for what ended or makes no sense."""
    assert init_pid(answer) == pid
