"""Local persistent volumes: a directory or a device of this node (kubernetes.io/local-volume)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from procs.volumes import blockdev, mounttable, ownership_events
from procs.volumes import layout as layouts
from procs.volumes.errors import VolumeError
from procs.volumes.layout import Layout
from procs.volumes.plugin import Done, PodInfo, Say, Standing
from procs.volumes.wants import LocalWant

if TYPE_CHECKING:
    from kubelet.process.process import Process
    from procs.volumes.operations.runner import Operations

_LOOK: Final = "procs.volumes.disks:look"
_MOUNT_DEVICE: Final = "procs.volumes.disks:mount_device"
_BIND: Final = "procs.volumes.disks:bind"
_TAKE_DOWN: Final = "procs.volumes.disks:take_down"
_ALREADY_MOUNTED: Final = "AlreadyMountedVolume"


class LocalPlugin:
    """Sets local volumes up and takes them down, one thing at a time for each volume.

    A device is mounted once, and its mount bound for each pod. Everything that is done to the
    volume itself comes before it is bound: where the pod's mount is, all is done.
    """

    def __init__(self, process: Process, layout: Layout, ops: Operations) -> None:
        self._ops = ops
        self._layout = layout
        self._process = process
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def set_up(self, want: LocalWant, pod: PodInfo, say: Say) -> Done:
        """Have the volume where the pod's containers find it."""
        check(want)
        async with self._lock(want.of.spec):
            if want.of.block:
                return await self._map(want, pod, say)
            target = self._layout.volume(pod.uid, layouts.LOCAL, want.of.spec)
            found = await self._ops.thread(partial(mounttable.at, target))
            if found is not None and (found.read_only or not want.of.read_only):
                return Done(target)
            source = await self._source(want, pod, target, say)
            say("mounting it for the pod")
            return Done(target, changed=await self._bind(want, pod, source, target))

    async def tear_down(self, volume: Standing, say: Say) -> None:
        """Unmount it for the pod; a device is unmounted with its last pod."""
        async with self._lock(volume.name):
            if volume.block:
                say("giving the device back")
                shared = self._shared(volume.name)
                await blockdev.unmapped(self._ops, shared, volume.uid, volume.path)
                return
            say("unmounting it")
            arguments = {
                "path": volume.path,
                "place": self._place(volume.name),
                "pods": self._layout.pods,
            }
            await self._ops.child(_TAKE_DOWN, arguments, key=volume.path)

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    def _place(self, name: str) -> str:
        """Where the file system of a device is mounted for the node."""
        return f"{self._layout.shared(layouts.LOCAL)}/mounts/{name}"

    def _shared(self, name: str) -> str:
        """Where a device is mounted for the node; only here is the plugin's name escaped."""
        return f"{self._layout.root}/plugins/{layouts.escaped(layouts.LOCAL)}/volumeDevices/{name}"

    async def _map(self, want: LocalWant, pod: PodInfo, say: Say) -> Done:
        say("mapping the device")
        link = self._layout.device(pod.uid, layouts.LOCAL, want.of.spec)
        shared = self._shared(want.of.spec)
        changed = await blockdev.mapped(self._ops, want.path, shared, pod.uid, link)
        return Done(link, changed=changed)

    async def _source(self, want: LocalWant, pod: PodInfo, target: str, say: Say) -> str:
        """Return the directory that is to be bound: mounted, if it is a device's, and given."""
        say(f"looking at {want.path}")
        source = want.path
        seen = await self._look(source, target)
        if seen["kind"] == "device":
            source = self._place(want.of.spec)
            say(f"mounting {want.path}")
            await self._mount_device(want, source)
            seen = await self._look(source, target)
        if want.of.fs_group is not None and not want.of.read_only:
            await self._give(want, pod, seen, target, say)
        return source

    async def _look(self, path: str, target: str) -> dict[str, Any]:
        arguments = {"path": path, "pods": self._layout.pods}
        seen: dict[str, Any] = await self._ops.child(_LOOK, arguments, key=target)
        return seen

    async def _mount_device(self, want: LocalWant, place: str) -> None:
        arguments = {
            "device": want.path,
            "place": place,
            "fs_type": want.fs_type,
            "options": list(want.of.options),
            "read_only": want.of.read_only,
        }
        await self._ops.child(_MOUNT_DEVICE, arguments, key=place)

    async def _give(
        self, want: LocalWant, pod: PodInfo, seen: dict[str, Any], target: str, say: Say
    ) -> None:
        """Give the volume to the pod's group, unless another pod uses it."""
        group = want.of.fs_group
        assert group is not None
        if not seen["users"]:
            say(f"giving its files to group {group}")
            await ownership_events.give(
                self._ops,
                self._process,
                pod,
                seen["real"],
                group,
                False,
                want.of.policy,
                target,
                shown=target,
            )
        elif seen["group"] != group:
            message = (
                f"The requested fsGroup is {group}, but the volume {want.of.spec} has GID"
                f" {seen['group']}. The volume may not be shareable."
            )
            await ownership_events.emit(self._process, pod, "Warning", _ALREADY_MOUNTED, message)

    async def _bind(self, want: LocalWant, pod: PodInfo, source: str, target: str) -> bool:
        arguments = {
            "source": source,
            "target": target,
            "pod": self._layout.pod(pod.uid),
            "read_only": want.of.read_only,
            "options": list(want.of.options),
        }
        return bool(await self._ops.child(_BIND, arguments, key=target))


def check(want: LocalWant) -> None:
    """Refuse what is no path of a volume, or no name of one."""
    if not want.path:
        raise VolumeError("local volume source is nil or local path is not set")
    if not want.path.startswith("/") or not layouts.is_path(want.path):
        raise VolumeError(f"local.path {want.path!r} is not an absolute path")
    if ".." in want.path.split("/"):
        raise VolumeError(f"invalid path: {want.path} must not contain '..'")
    if not layouts.is_name(want.of.spec):
        raise VolumeError(f"the persistent volume's name {want.of.spec!r} is no name of a volume")
