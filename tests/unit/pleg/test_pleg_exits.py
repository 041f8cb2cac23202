"""Descriptors of real processes: an end starts a chase, a wrong process is let go."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord
from procs.pleg import exits
from procs.pleg.exits import Exits, in_cgroup_of
from tests.unit.pleg.standing import Runtime, until


@pytest.fixture
def child():
    """A process to watch."""
    made = subprocess.Popen(["sleep", "60"])
    yield made
    made.kill()
    made.wait()


class Scene:
    """Exits over a runtime with one pod."""

    def __init__(self, process):
        self.runtime = Runtime()
        self.runtime.pod("u")
        self.ended = []
        self.looked = []
        self.exits = Exits(process, self._status, self._told, self.looked.append)

    async def _status(self, _uid, id_, *, verbose=False):
        return await self.runtime.container_status(id_, verbose=verbose)

    def _told(self, uid, status):
        self.ended.append((uid, status.id))

    def watch(self, pid, told=None):
        self.runtime.pids["u-c"] = pid if told is None else told
        self.exits.update("u", record(pid))


def record(pid, state=ContainerState.RUNNING):
    return PodRecord("u", containers=(ContainerRecord("u-c", "c", state=state, pid=pid),))


def story(process, work):
    async def main():
        scene = Scene(process)
        try:
            async with asyncio.timeout(10):
                await work(scene)
        finally:
            scene.exits.close()
            for task in list(process.tasks):
                task.cancel()

    asyncio.run(main())


def test_an_end_is_chased_until_the_runtime_knows(process, child):
    """The kernel is first; the runtime's word is what goes into the cache, once."""

    async def work(scene):
        scene.watch(child.pid)
        assert process.row.depths["pidfds"] == 1
        await until(lambda: not process.tasks)  # verified
        child.kill()
        await until(lambda: process.row.counters["pidfd_exits"])
        await until(lambda: scene.runtime.calls["ContainerStatus"] > 4)
        assert scene.ended == []
        scene.runtime.containers["u-c"].state = pb.CONTAINER_EXITED
        await until(lambda: scene.ended)
        assert scene.ended == [("u", "u-c")]
        assert scene.looked == ["u"]
        await until(lambda: not process.tasks)

    story(process, work)


def test_a_chase_ends_when_somebody_else_saw_the_exit(process, child):
    """An event of the runtime was faster."""

    async def work(scene):
        scene.watch(child.pid)
        child.kill()
        await until(lambda: process.row.counters["pidfd_exits"])
        scene.exits.update("u", record(0, ContainerState.EXITED))
        await until(lambda: not process.tasks)
        assert (scene.ended, scene.looked) == ([], [])

    story(process, work)


def test_a_chase_is_given_up_in_the_end(process, child, monkeypatch):
    """The full look has to do; the dead process is not opened again."""
    monkeypatch.setattr(exits, "GIVE_UP", 0.05)

    async def work(scene):
        scene.watch(child.pid)
        child.kill()
        await until(lambda: process.row.counters["chases_given_up"])
        calls = scene.runtime.calls["ContainerStatus"]
        scene.exits.update("u", record(child.pid))
        await asyncio.sleep(0.02)
        assert scene.runtime.calls["ContainerStatus"] == calls

    story(process, work)


def test_a_process_that_is_gone_already_is_chased_at_once(process, child):
    """It ended between the status and the opening."""
    child.kill()
    child.wait()

    async def work(scene):
        scene.runtime.containers["u-c"].state = pb.CONTAINER_EXITED
        scene.watch(child.pid)
        await until(lambda: scene.ended)

    story(process, work)


def test_a_pid_that_is_another_s_by_now_is_let_go(process, child):
    """The runtime, asked after the opening, names another: this one's end means nothing."""

    async def work(scene):
        scene.watch(child.pid, told=1)
        await until(lambda: process.row.counters["pidfd_mistaken"])
        assert scene.looked == ["u"]
        child.kill()
        child.wait()
        await asyncio.sleep(0.02)
        assert process.row.counters["pidfd_exits"] == 0

    story(process, work)


def test_the_descriptor_goes_with_the_container(process, child):
    """Exited, gone, or no longer told: closed."""

    async def work(scene):
        for last in (record(0, ContainerState.EXITED), None, PodRecord("u")):
            scene.watch(child.pid)
            assert process.row.depths["pidfds"] == 1
            scene.exits.update("u", last)
            assert process.row.depths["pidfds"] == 0

    story(process, work)


def test_without_descriptors_left_it_is_said_and_the_full_look_has_to_do(
    process, child, monkeypatch, capfd
):
    """RLIMIT_NOFILE is respected, with a reserve for everything else."""
    monkeypatch.setattr(exits, "_descriptors", lambda: exits.RESERVE)

    async def work(scene):
        scene.watch(child.pid)
        assert process.row.depths["pidfds"] == 0
        assert process.row.counters["pidfd_errors"] == 1

    story(process, work)
    assert "cannot be watched" in capfd.readouterr().err


def test_a_cgroup_named_after_the_container_is_proof(child):
    """As containerd and CRI-O name them; a process that is gone proves nothing."""
    assert not in_cgroup_of(child.pid, "0123456789abcdef")
    assert in_cgroup_of(child.pid, "/")
    assert not in_cgroup_of(1 << 22, "/")
