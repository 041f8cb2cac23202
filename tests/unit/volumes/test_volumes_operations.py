"""Operations in processes of their own: their results, their failures, and those that hang."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys

import pytest

from procs.volumes.errors import HangingError, VolumeError
from procs.volumes.operations import runner
from procs.volumes.operations.locks import Holder, Locks
from procs.volumes.operations.runner import Operations

CHECK = "procs.volumes.hostpath:check"


@pytest.fixture
def directory(tmp_path):
    """Where locks are."""
    return str(tmp_path / "operations")


def story(directory, act):
    """Run a story with operations; none of their locks is left."""

    async def tell():
        ops = Operations(directory)
        try:
            return await act(ops)
        finally:
            ops.close()

    return asyncio.run(tell())


def test_a_function_of_ours_answers(directory, tmp_path):
    """Its result is the answer, its work is done, and its lock is gone."""
    path = tmp_path / "made"
    given = {"name": "v", "path": str(path), "wanted": "DirectoryOrCreate"}

    async def act(ops):
        return await ops.child(CHECK, given, key="k")

    assert story(directory, act) is True
    assert path.is_dir()
    assert os.listdir(directory) == []


def test_what_goes_wrong_in_it_is_a_sentence(directory, tmp_path):
    """A VolumeError of the function and the kernel's word arrive alike."""
    wrong = {"name": "v", "path": str(tmp_path), "wanted": "File"}
    refused = {"name": "v", "path": "/proc/none/x", "wanted": "DirectoryOrCreate"}

    async def act(ops):
        with pytest.raises(VolumeError, match="is not a file"):
            await ops.child(CHECK, wrong, key="k")
        with pytest.raises(VolumeError, match="/proc/none"):
            await ops.child(CHECK, refused, key="k")

    story(directory, act)


def test_only_operations_on_volumes_are_run(directory):
    """Another module is no operation, and the words say so."""

    async def act(ops):
        with pytest.raises(VolumeError, match="os:system is no operation"):
            await ops.child("os:system", {"command": "true"}, key="k")

    story(directory, act)


def test_a_program_says_what_went_wrong(directory):
    """The exit status and the words of the program, and of one that is not there."""

    async def act(ops):
        assert await ops.command(["echo", "well", "done"], key="k") == "well done"
        with pytest.raises(VolumeError, match=r"ls failed with exit status 2: .*No such file"):
            await ops.command(["ls", "/none-such"], key="k")
        with pytest.raises(VolumeError, match="none-such failed with exit status 127"):
            await ops.command(["none-such"], key="k")

    story(directory, act)


def test_progress_is_told_as_it_comes(directory, tmp_path):
    """What a function reports arrives while it works, in its order."""
    told = []

    async def act(ops):
        call = "procs.volumes.ownership:give_volume"
        given = {
            "path": str(tmp_path),
            "group": os.getgid(),
            "read_only": False,
            "policy": "Always",
        }
        await ops.child(call, given, key="k", progress=told.append)

    (tmp_path / "f").write_text("x")
    story(directory, act)
    assert all(isinstance(one, dict) for one in told)


def test_two_under_one_key_are_never_under_way_together(directory):
    """The second is refused at once, with what the first is and its age; another key is free."""

    async def act(ops):
        first = asyncio.create_task(ops.command(["sleep", "30"], key="k", seconds=5))
        while "k" not in ops._running:  # noqa: ASYNC110 - it begins within a turn of the loop
            await asyncio.sleep(0)
        with pytest.raises(HangingError, match=r"sleep, begun 0 s ago, has not come back"):
            await ops.command(["true"], key="k")
        assert await ops.command(["echo", "free"], key="other") == "free"
        os.killpg(ops._running["k"].process.pid, signal.SIGKILL)
        with pytest.raises(VolumeError, match="was ended by signal 9"):
            await first
        assert await ops.command(["echo", "again"], key="k") == "again"

    story(directory, act)


def test_what_takes_too_long_is_ended(directory):
    """With everything that it started."""

    async def act(ops):
        with pytest.raises(VolumeError, match=r"sh did not come back within 0.2 s and was ended"):
            await ops.command(["sh", "-c", "sleep 60 & wait"], key="k", seconds=0.2)
        last = asyncio.Event()
        ops.when_free("k", act, last.set)  # what it started may take a moment longer
        await asyncio.wait_for(last.wait(), 30)
        assert os.listdir(directory) == []

    story(directory, act)


def test_what_cannot_be_ended_is_left_behind(directory, monkeypatch):
    """A process that the kernel keeps: who asked is told, and nothing is begun under its key.

    A process that is stopped by a tracer stands in for it: SIGKILL is what this test keeps away.
    """
    monkeypatch.setattr(runner, "KILL_SECONDS", 0.05)
    kept = []
    monkeypatch.setattr(runner.os, "killpg", lambda pid, _signal: kept.append(pid))

    async def act(ops):
        with pytest.raises(HangingError, match=r"did not come back within 0.2 s and cannot be"):
            await ops.command(["sleep", "60"], key="k", seconds=0.2)
        with pytest.raises(HangingError, match="has not come back yet"):
            await ops.command(["true"], key="k")
        running = ops._running["k"]
        os.kill(kept[0], signal.SIGKILL)
        await running.ended.wait()
        assert await ops.command(["echo", "free"], key="k") == "free"

    story(directory, act)


def test_the_lock_of_a_dead_process_is_held_by_what_it_left(directory):
    """A successor sees that an operation of its predecessor is still under way, and what it is."""
    locks = Locks(directory)
    fd = locks.take("k", Holder("mount", 1))
    left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[fd])
    os.close(fd)  # as the death of who took it does

    async def act(ops):
        with pytest.raises(HangingError, match=r"mount, begun .* s ago, has not come back yet"):
            await ops.command(["true"], key="k")
        left.kill()
        left.communicate()
        assert await ops.command(["echo", "free"], key="k") == "free"

    story(directory, act)


def test_an_operation_ends_with_its_process(directory):
    """Nothing that can be killed outlives who began it."""
    program = (
        "import asyncio, os, sys\n"
        "from procs.volumes.operations.runner import Operations\n"
        "async def main():\n"
        f"    ops = Operations({directory!r})\n"
        "    told = ['sh', '-c', 'echo $$; exec sleep 60']\n"
        "    task = asyncio.create_task(ops.command(told, key='k'))\n"
        "    while 'k' not in ops._running or not ops._running['k'].text:\n"
        "        await asyncio.sleep(0.01)\n"
        "    print(ops._running['k'].process.pid, flush=True)\n"
        "    await task\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    pidfd = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    assert select.select([pidfd], [], [], 10)[0]
    os.close(pidfd)
