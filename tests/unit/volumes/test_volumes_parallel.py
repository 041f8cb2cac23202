"""Volumes that take long, hang or fail, beside others: each waits for itself alone."""

from __future__ import annotations

import asyncio
import os

import pytest

from kubelet.pods.rows import VolumeState, WorkerState
from procs.volumes import kit, progress
from procs.volumes.errors import FatalError, VolumeError, WaitingError
from procs.volumes.layout import NFS
from procs.volumes.plugin import Done
from tests.unit.volumes.standing import SETTINGS, UID, pod

OTHER = "1b5c1d5e-6a0e-4d0f-9f43-8d0a5f3e2b11"
DATA = {"name": "data", "emptyDir": {}}
FAR = {"name": "far", "nfs": {"server": "s", "path": "/p"}}
FAR_TOO = {"name": "far-too", "nfs": {"server": "s", "path": "/q"}}
MOUNTED, FAILED, PENDING = VolumeState.MOUNTED, VolumeState.FAILED, VolumeState.PENDING


class Server:
    """A plugin whose volumes come and go when the test lets them."""

    def __init__(self, layout):
        self.layout = layout
        self.calls = []
        self.gates = {}  # by volume: what it waits for
        self.errors = {}  # by volume: what it fails with
        self.again = 0.0

    def gate(self, name):
        """Have the next call for a volume wait; what lets it go."""
        self.gates[name] = asyncio.Event()
        return self.gates[name]

    async def set_up(self, want, info, say):
        self.calls.append(("set up", want.name, info.name))
        say("mount -t nfs")
        await self._turn(want.name)
        path = self.layout.volume(info.uid, NFS, want.name)
        os.makedirs(path, exist_ok=True)
        return Done(path, again=self.again)

    async def tear_down(self, volume, say):
        self.calls.append(("tear down", volume.name))
        say("umount")
        await self._turn(volume.name)
        os.rmdir(volume.path)

    async def _turn(self, name):
        if name in self.gates:
            await self.gates[name].wait()
        if name in self.errors:
            raise self.errors[name]


@pytest.fixture
def server(layout):
    """The plugin of nfs volumes."""
    return Server(layout)


@pytest.fixture
def make(started, server):
    """Start a volumes process with that plugin; again, as its successor."""
    return lambda: started(SETTINGS, **{NFS: server})


def states(process, uid=UID):
    """The states of a pod's volumes."""
    row = process.mounts(uid)
    return {volume.name: volume.state for volume in row.volumes} if row is not None else {}


async def until(check):
    """Let the loop run until something holds."""
    async with asyncio.timeout(5):
        while not check():  # noqa: ASYNC110 - a table has no event
            await asyncio.sleep(0.001)


def test_one_that_hangs_keeps_no_other_waiting(process, make, server, monkeypatch):
    """Other volumes of the pod, other pods and their ends go on; the row says what hangs."""
    monkeypatch.setattr(kit, "SHOWN_SECONDS", 0.01)

    async def story():
        make()
        free = server.gate("far")
        process.pod(pod(DATA, FAR, FAR_TOO))
        process.pod(pod(DATA, FAR_TOO, uid=OTHER))
        await until(lambda: process.mounts(OTHER) and process.mounts(OTHER).mounted)
        await until(lambda: states(process).get("far-too") is MOUNTED)
        assert states(process) == {"data": MOUNTED, "far": PENDING, "far-too": MOUNTED}
        await until(lambda: process.mounts().volumes[1].operation)
        far = process.mounts().volumes[1]
        assert far.operation == "mount -t nfs"
        assert far.operation_ns > 0
        process.pod(pod(DATA, FAR_TOO, uid=OTHER), WorkerState.TERMINATED)
        await until(lambda: process.mounts(OTHER) is None)
        free.set()
        await process.settled()
        assert process.mounts().mounted
        assert process.mounts().volumes[1].operation == ""

    asyncio.run(story())


def test_a_pod_that_ends_while_a_mount_hangs_waits_for_that_alone(process, make, server, layout):
    """The rest goes at once; what hung is taken down when it has come back."""

    async def story():
        make()
        free = server.gate("far")
        process.pod(pod(DATA, FAR, FAR_TOO))
        await until(lambda: states(process).get("far-too") is MOUNTED)
        process.pod(pod(DATA, FAR, FAR_TOO), WorkerState.TERMINATED)
        await until(lambda: ("tear down", "far-too") in server.calls)
        await until(lambda: not os.path.exists(layout.volume(UID, NFS, "far-too")))
        assert ("tear down", "far") not in server.calls
        free.set()
        await process.settled()
        assert server.calls[-1] == ("tear down", "far")
        assert process.mounts() is None

    asyncio.run(story())


def test_each_volume_has_a_back_off_of_its_own(process, make, server, monkeypatch):
    """L-11: one that fails is tried again; one that is there is left alone."""
    monkeypatch.setattr(progress, "FIRST_DELAY", 20_000_000)

    async def story():
        make()
        server.errors["far"] = VolumeError("no route to the server")
        process.pod(pod(FAR, FAR_TOO))
        await until(lambda: server.calls.count(("set up", "far", "p")) == 3)
        assert states(process) == {"far": FAILED, "far-too": MOUNTED}
        assert process.mounts().volumes[0].reason == "no route to the server"
        assert server.calls.count(("set up", "far-too", "p")) == 1
        del server.errors["far"]
        await until(lambda: process.mounts().mounted)

    asyncio.run(story())


def test_what_waits_has_not_failed(process, make, server):
    """It is pending, with what it waits for; nothing is said to have gone wrong."""

    async def story():
        make()
        server.errors["far"] = WaitingError("it is not attached yet")
        process.pod(pod(FAR))
        await process.settled()
        (row,) = process.mounts().volumes
        assert (row.state, row.reason) == (PENDING, "it is not attached yet")
        assert row.retry_ns > 0
        assert process.records == []

    asyncio.run(story())


def test_what_can_never_be_had_here_fails_the_pod(process, make, server):
    """L-17: the row has the reason for the pod's status, and it is not tried again."""

    async def story():
        make()
        server.errors["far"] = FatalError("VolumeAttachmentLimitExceeded", "no room")
        process.pod(pod(FAR))
        await process.settled()
        (row,) = process.mounts().volumes
        assert (row.state, row.fatal, row.reason) == (
            FAILED,
            "VolumeAttachmentLimitExceeded",
            "no room",
        )
        assert row.retry_ns == 0

    asyncio.run(story())


def test_what_is_to_be_renewed_is_set_up_again(process, make, server):
    """L-15: it stays mounted meanwhile, also if that fails."""

    async def story():
        make()
        server.again = 0.02
        process.pod(pod(FAR))
        await until(lambda: len(server.calls) == 3)
        assert all(put.mounted for put in process.puts[1:])
        server.errors["far"] = VolumeError("the driver is away")
        await until(lambda: process.mounts().volumes[0].reason)
        assert process.mounts().mounted

    asyncio.run(story())


def test_an_unmount_that_fails_keeps_only_itself(process, make, server, layout, monkeypatch):
    """P-34: the row stays and says which volume is left, until it is gone."""
    monkeypatch.setattr(progress, "FIRST_DELAY", 20_000_000)

    async def story():
        make()
        process.pod(pod(DATA, FAR, FAR_TOO))
        await process.settled()
        server.errors["far"] = VolumeError("target is busy")
        process.pod(pod(DATA, FAR, FAR_TOO), WorkerState.TERMINATED)
        await until(lambda: server.calls.count(("tear down", "far")) == 2)
        assert os.listdir(layout.volumes(UID)) == ["kubernetes.io~nfs"]
        assert os.listdir(f"{layout.volumes(UID)}/kubernetes.io~nfs") == ["far"]
        reasons = {v.name: v.reason for v in process.mounts().volumes}
        assert reasons["far"] == "target is busy"
        assert reasons["far-too"] == ""
        del server.errors["far"]
        await until(lambda: process.mounts() is None)
        await process.settled()

    asyncio.run(story())


def test_a_successor_takes_down_what_it_finds(process, make, layout):
    """From the disk alone: the pod's document is of no use for its end."""

    async def story():
        make()
        process.pod(pod(DATA, FAR))
        await process.settled()
        make()
        process.pod(pod(), WorkerState.TERMINATED)
        await process.settled()
        assert process.mounts() is None
        assert "volumes" not in os.listdir(layout.pod(UID))

    asyncio.run(story())


def test_a_failed_mount_is_no_reason_to_look_at_a_pod_that_ends(process, make, server, monkeypatch):
    """Its back-off is over for good: only the end's own is waited for."""
    monkeypatch.setattr(progress, "FIRST_DELAY", 20_000_000)

    async def story():
        volumes = make()
        process.pod(pod(FAR, FAR_TOO))
        await process.settled()
        server.errors |= {"far": VolumeError("away"), "far-too": VolumeError("away")}
        changed = {"name": "far", "nfs": {"server": "other", "path": "/p"}}
        process.pod(pod(changed, FAR_TOO), version=2)
        await until(lambda: process.mounts().volumes[0].reason)
        monkeypatch.setattr(progress, "FIRST_DELAY", 60 * 10**9)
        process.pod(pod(changed, FAR_TOO), WorkerState.TERMINATED, 2)
        await until(lambda: server.calls.count(("tear down", "far")) == 1)
        await process.settled()
        known = volumes._pods[UID]
        assert known.timer is not None
        assert known.timer.when() > asyncio.get_running_loop().time() + 30

    asyncio.run(story())
