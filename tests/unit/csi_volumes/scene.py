"""What the CSI plugin stands on in tests: a real driver, a real disk, and a node that answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from dataclasses import replace

from kubelet.channels.messages import (
    Attachment,
    ClaimNoted,
    EventNoted,
    GetAttachment,
    NoteClaimResize,
    RecordEvent,
)
from kubelet.cluster.rows import CsiDriverRow
from procs.volumes import mounts
from procs.volumes.csi.driver import Driver
from procs.volumes.csi.drivers import Drivers
from procs.volumes.csi.plugin import CsiPlugin
from procs.volumes.errors import VolumeError
from procs.volumes.layout import CSI, Layout
from procs.volumes.operations.runner import Operations
from procs.volumes.plugin import PodInfo, Standing
from procs.volumes.wants import CsiWant, Persistent

DRIVER = "mounts.csi.test"
NODE = "n1"
PODS = (
    PodInfo("0b5c1d5e-6a0e-4d0f-9f43-8d0a5f3e2b11", "p1", "ns", "account"),
    PodInfo("0b5c1d5e-6a0e-4d0f-9f43-8d0a5f3e2b22", "p2", "ns", "account"),
)
POD = PODS[0]
NO_ATTACH = CsiDriverRow(DRIVER, attach_required=False)
WANT = CsiWant("data", DRIVER, "vol-1", Persistent("pv1", "ns/claim"), info=NO_ATTACH)
BLOCK = replace(WANT, of=replace(WANT.of, block=True))
INLINE = CsiWant(
    "data",
    DRIVER,
    "csi-1234",
    Persistent("data"),
    ephemeral=True,
    info=replace(NO_ATTACH, lifecycle_modes=("Ephemeral",), pod_info_on_mount=True),
)


class Node:
    """The node process: it answers what it is asked, and remembers it."""

    def __init__(self):
        self.attachment = Attachment(found=False)
        self.note_errors = {}  # by step
        self.asked = []

    async def ask(self, kind, message, timeout=5.0):  # noqa: ASYNC109 - as a channel has it
        assert kind == "node"
        assert timeout > 0
        self.asked.append(message)
        match message:
            case GetAttachment():
                return self.attachment
            case NoteClaimResize():
                return ClaimNoted(self.note_errors.get(message.step, ""))
            case RecordEvent():
                return EventNoted()
        raise AssertionError(message)

    def events(self, kind="Pod"):
        """The reasons of the events of such objects."""
        return [e.reason for e in self.asked if isinstance(e, RecordEvent) and e.kind == kind]

    def notes(self):
        """What claims were told."""
        return [n.step for n in self.asked if isinstance(n, NoteClaimResize)]


class Process:
    """As much of a process as the plugin needs."""

    def __init__(self, node):
        self.channels = node


class Scene:
    """A plugin over a disk that outlives it."""

    def __init__(self, root, driver):
        self.layout = Layout(str(root))
        self.driver = driver
        self.node = Node()
        self.drivers = Drivers()
        self.said = []
        self._ops = Operations(f"{root}.operations")
        self._seen = 0
        self.register()
        self.restart()

    def register(self):
        """Have the driver registered."""
        self.drivers.put(Driver(DRIVER, self.driver.endpoint))

    def restart(self):
        """Be the successor of a killed process: only the disk and the kernel are left."""
        made = {"node": NODE, "api_server": True}
        self.plugin = CsiPlugin(Process(self.node), self.layout, self._ops, self.drivers, **made)

    async def up(self, want=WANT, pod=POD):
        """Set a volume up."""
        return await self.plugin.set_up(want, pod, self.said.append)

    async def fails(self, want=WANT, pod=POD):
        """Fail to set a volume up, and return the error."""
        try:
            done = await self.up(want, pod)
        except VolumeError as err:
            return err
        raise AssertionError(done)

    async def down(self, want=WANT, pod=POD):
        """Take down what is on disk of a volume."""
        path = self.standing(want, pod)
        found = Standing(pod.uid, CSI, want.of.spec, path, block=want.of.block)
        await self.plugin.tear_down(found, self.said.append)

    def standing(self, want=WANT, pod=POD):
        """Where a volume is found."""
        if want.of.block:
            return self.layout.device(pod.uid, CSI, want.of.spec)
        return self.layout.volume(pod.uid, CSI, want.of.spec)

    def data(self, want=WANT, pod=POD):
        """What is written down of a volume."""
        with open(f"{self.standing(want, pod)}/vol_data.json", encoding="utf-8") as file:
            return json.load(file)

    def new_calls(self):
        """The calls of volumes since this was asked last, without their common beginning."""
        names = self.driver.methods("Node")
        fresh, self._seen = names[self._seen :], len(names)
        skipped = ("NodeGetCapabilities", "NodeGetInfo")
        return [name.removeprefix("Node") for name in fresh if name not in skipped]

    def last(self, method):
        """The last request of a method."""
        return self.driver.calls(method)[-1]["request"]

    def mounted(self):
        """What is mounted below the root directory."""
        return mounts.below(self.layout.root, mounts.points())

    def left(self):
        """Whatever is left on disk that is not an empty directory of the layout."""
        found = []
        for here, directories, files in os.walk(self.layout.root):
            found += [f"{here}/{name}" for name in files]
            found += [f"{here}/{d}" for d in directories if os.path.islink(f"{here}/{d}")]
        return found

    def close(self):
        """Let go of everything."""
        self.drivers.close()
        self._ops.close()


def write(path, text):
    """Put a text where a record is."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def story(root, driver, act):
    """Run a story in a scene."""

    async def tell():
        scene = Scene(root, driver)
        try:
            return await act(scene)
        finally:
            scene.close()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)

    return asyncio.run(tell())
