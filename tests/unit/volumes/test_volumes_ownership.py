"""Giving volumes to groups while they are used, and saying that it takes long (L-33)."""

from __future__ import annotations

import asyncio
import os
import resource
import stat

import pytest

from procs.volumes import ownership, ownership_events
from procs.volumes.operations.runner import Operations
from procs.volumes.plugin import PodInfo
from procs.volumes.removal import remove_tree
from tests.unit.volumes.standing import UID

GROUP = 4711
POD = PodInfo(UID, "p", "ns")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")


@pytest.fixture(autouse=True)
def _limits():
    """Give this process its limits back: walks raise theirs."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Events:
    """A process whose requests to the node process are kept."""

    def __init__(self):
        self.channels, self.told, self.heard = self, [], asyncio.Event()

    async def ask(self, kind, message):
        """Keep an event."""
        assert kind == "node"
        self.told.append(message)
        self.heard.set()


@needs_root
def test_a_tree_of_any_depth_is_given(tmp_path):
    """What is kept grows with the depth, and that may be larger than any path can be long."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deeper", dir_fd=here)
        below = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    try:
        assert ownership.give_volume(str(tmp_path), GROUP, False, "Always")
        found = os.fstat(here)
    finally:
        os.close(here)
        remove_tree(f"{tmp_path}/deeper", [])
    assert (found.st_gid, bool(found.st_mode & stat.S_ISGID)) == (GROUP, True)


@needs_root
def test_bits_that_a_change_of_group_takes_away_are_put_back(tmp_path):
    """A program that is set-uid still is one afterwards."""
    file = tmp_path / "f"
    file.write_text("")
    file.chmod(0o4755)
    ownership.give_volume(str(tmp_path), GROUP, False, "Always")
    assert stat.S_IMODE(file.stat().st_mode) == 0o4775


@needs_root
def test_files_that_come_and_go_disturb_nobody(tmp_path, monkeypatch):
    """A file that vanishes between two steps is not missed."""
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    (tmp_path / "d").mkdir()
    real = os.stat

    def vanishing(path, **more):
        if path == "a":
            (tmp_path / "a").unlink(missing_ok=True)
        return real(path, **more)

    monkeypatch.setattr(os, "stat", vanishing)
    assert ownership.give_volume(str(tmp_path), GROUP, False, "Always")
    assert (tmp_path / "b").stat().st_gid == GROUP


@needs_root
def test_a_link_that_takes_the_place_of_a_file_is_not_followed(tmp_path, monkeypatch):
    """A container may try to have a file of the host opened to its group."""
    host = tmp_path / "host"
    host.write_text("")
    host.chmod(0o600)
    volume = tmp_path / "v"
    volume.mkdir()
    (volume / "f").write_text("")
    real = os.open

    def swapping(path, flags, *args, **more):
        if path == "f":
            (volume / "f").unlink(missing_ok=True)
            (volume / "f").symlink_to(host)
        return real(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", swapping)
    ownership.give_volume(str(volume), GROUP, False, "Always")
    assert (host.stat().st_gid, stat.S_IMODE(host.stat().st_mode)) == (0, 0o600)


@needs_root
def test_a_file_that_cannot_be_given_is_counted(tmp_path, monkeypatch):
    """As in Go it does not keep the pod from its volume; nor is it kept quiet."""
    (tmp_path / "f").write_text("")
    said = []
    real = os.chown

    def refusing(path, user, group, **more):
        if group == GROUP and not said:
            said.append(path)
            raise PermissionError(1, "Operation not permitted")
        real(path, user, group, **more)

    monkeypatch.setattr(os, "chown", refusing)
    reports = []
    assert ownership.give_volume(str(tmp_path), GROUP, False, "Always", reports.append)
    assert reports[-1]["failed"] == 1
    assert "f: Operation not permitted" in reports[-1]["error"]


@needs_root
def test_progress_is_reported(tmp_path, monkeypatch):
    """About each second, so that whoever waits learns how far it is."""
    (tmp_path / "f").write_text("")
    monkeypatch.setattr(ownership, "_REPORT_NS", 0)
    reports = []
    ownership.give_volume(str(tmp_path), GROUP, False, "Always", reports.append)
    assert reports == [{"done": 1}, {"done": 2}]


@needs_root
def test_a_volume_is_given_by_a_process_of_its_own(tmp_path):
    """Root mismatch is all that counts if the pod says so; a quick walk tells nobody anything."""
    volume = tmp_path / "v"
    volume.mkdir()

    async def twice():
        ops, events = Operations(str(tmp_path / "locks")), Events()
        try:
            done = []
            for _ in range(2):
                policy = ownership.Policy.ON_ROOT_MISMATCH
                done.append(
                    await ownership_events.give(
                        ops, events, POD, str(volume), GROUP, False, policy, "k"
                    )
                )
        finally:
            ops.close()
        return done, events.told

    assert asyncio.run(twice()) == ([True, False], [])
    assert volume.stat().st_gid == GROUP


class Walk:
    """An operation that ends when it is told to."""

    def __init__(self):
        self.ended = asyncio.Event()

    async def child(self, call, arguments, *, key, progress):
        """Be far, then wait."""
        assert (call, key, arguments["group"]) == (ownership_events.GIVE, "k", GROUP)
        progress({"done": 12})
        await self.ended.wait()
        return True


def test_a_walk_that_takes_long_says_so_in_events():
    """L-33: after 30 s, and then each 60 s with the number of files, in Go's words."""

    async def told():
        walk, events, pauses = Walk(), Events(), asyncio.Queue()
        go_on = asyncio.Semaphore(2)

        async def pause(seconds):
            pauses.put_nowait(seconds)
            await go_on.acquire()

        path = f"/k/pods/{UID}/volumes/x"
        giving = asyncio.create_task(
            ownership_events.give(
                walk, events, POD, path, GROUP, False, ownership.Policy.ALWAYS, "k", pause=pause
            )
        )
        seconds = [await pauses.get() for _ in range(3)]
        walk.ended.set()
        assert await giving
        return seconds, events.told

    seconds, (first, second) = asyncio.run(told())
    assert seconds == [30.0, 60.0, 60.0]
    assert (first.type, first.reason) == ("Warning", "VolumePermissionChangeInProgress")
    assert (first.kind, first.namespace, first.name, first.uid) == ("Pod", "ns", "p", UID)
    begin = f"Setting volume ownership for {UID}/volumes/x is taking longer than expected"
    assert first.message.startswith(begin)
    assert second.message == f"Setting volume ownership for {UID}/volumes/x, processed 12 files."
