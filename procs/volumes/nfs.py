"""NFS volumes.

A server that is gone holds whoever looks at its files. So nothing here looks at a mount point: the
kernel's table says what is mounted, and the programs that mount and unmount run by themselves.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
from functools import partial
from typing import TYPE_CHECKING, Final

from procs.volumes import disks, mounttable
from procs.volumes import layout as layouts
from procs.volumes.errors import HangingError, VolumeError, sentence
from procs.volumes.layout import Layout
from procs.volumes.plugin import Done, PodInfo, Say, Standing
from procs.volumes.wants import NfsWant

if TYPE_CHECKING:
    from procs.volumes.operations.runner import Operations

UNMOUNT_SECONDS: Final = 60.0  # after which it is forced
FORCE_SECONDS: Final = 60.0
_MOST_STACKED: Final = 64
_TIME_IS_UP: Final = "did not come back within"  # of Operations.command
# What a mount program says, and what the administrator can do about it.
_ADVICE: Final = (
    ("helper program", "install the NFS client on this node (package nfs-common or nfs-utils)"),
    ("unknown filesystem type", "the kernel of this node has no NFS client: it needs module nfs"),
    ("exit status 127", "this node has no program mount: install util-linux"),
)


class NfsPlugin:
    """Mounts paths of NFS servers for pods."""

    def __init__(
        self, layout: Layout, ops: Operations, unmount_seconds: float = UNMOUNT_SECONDS
    ) -> None:
        self._ops = ops
        self._layout = layout
        self._unmount_seconds = unmount_seconds

    async def set_up(self, want: NfsWant, pod: PodInfo, say: Say) -> Done:
        """Mount it, if it is not; the group of its files is the server's affair."""
        check(want)
        target = self._layout.volume(pod.uid, layouts.NFS, want.of.spec)
        if await self._is_mounted(target):
            return Done(target)
        arguments = mount_arguments(want, target)
        say(f"mounting {source_of(want)}")
        await self._ops.thread(partial(_make, target, self._layout.pod(pod.uid)))
        try:
            await self._ops.command(["mount", *arguments], key=target)
        except HangingError:
            raise  # it may still become a mount
        except VolumeError as err:
            await self._clean(target)
            raise VolumeError(failure(str(err), arguments)) from err
        return Done(target, changed=True)

    async def tear_down(self, volume: Standing, say: Say) -> None:
        """Unmount it, by force if the server does not let it go in time."""
        for _ in range(_MOST_STACKED):
            if not await self._is_mounted(volume.path):
                break
            say("unmounting it")
            await self._unmount(volume.path, say)
        else:
            raise VolumeError(f"{volume.path} is still mounted")
        await self._ops.thread(partial(_remove, volume.path))

    async def _unmount(self, path: str, say: Say) -> None:
        try:
            await self._ops.command(["umount", path], key=path, seconds=self._unmount_seconds)
        except VolumeError as err:
            if not isinstance(err, HangingError) and _TIME_IS_UP not in str(err):
                raise VolumeError(f"could not unmount {path}: {err}") from err
        else:
            return
        if not await self._is_mounted(path):
            return
        say("unmounting it by force: the server does not answer")
        try:
            argv = ["umount", "-f", path]
            await self._ops.command(argv, key=f"{path} by force", seconds=FORCE_SECONDS)
        except VolumeError as err:
            raise VolumeError(f"could not unmount {path} by force: {err}") from err

    async def _clean(self, target: str) -> None:
        """Leave nothing of a mount that failed; why it failed is what matters then."""
        with contextlib.suppress(VolumeError):
            if await self._is_mounted(target):
                argv = ["umount", target]
                await self._ops.command(argv, key=target, seconds=self._unmount_seconds)
            if not await self._is_mounted(target):
                await self._ops.thread(partial(_remove, target))

    async def _is_mounted(self, path: str) -> bool:
        return await self._ops.thread(partial(mounttable.at, path)) is not None


def _make(target: str, pod: str) -> None:
    try:
        disks.make_place(target, pod)
    except OSError as err:
        raise VolumeError(sentence(f"could not make {target}", err)) from err


def _remove(path: str) -> None:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return
    except OSError as err:
        raise VolumeError(sentence(f"could not remove {path}", err)) from err


def source_of(want: NfsWant) -> str:
    """Return what is mounted, as mount programs take it."""
    server = want.server
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(server).version == 6:
            server = f"[{server}]"
    return f"{server}:{want.path}"


def mount_arguments(want: NfsWant, target: str) -> list[str]:
    """Return the arguments of the mount program."""
    options = disks.joined(want.of.options, ["ro"] if want.of.read_only else [])
    chosen = ["-o", ",".join(options)] if options else []
    return ["-t", "nfs", *chosen, source_of(want), target]


def failure(words: str, arguments: list[str]) -> str:
    """Return a program's words, what it was asked for, and what would help."""
    advice = "".join(f"; {help_}" for sign, help_ in _ADVICE if sign in words)
    return f"{words}. Mounting command: mount. Mounting arguments: {' '.join(arguments)}{advice}"


def check(want: NfsWant) -> None:
    """Refuse what no mount program should be given."""
    server = want.server
    if server.startswith("-") or not layouts.is_path(server) or len(server.split()) != 1:
        raise VolumeError(f"nfs.server {server!r} is no name or address of a server")
    if not want.path.startswith("/") or not layouts.is_path(want.path):
        raise VolumeError(f"nfs.path {want.path!r} is not an absolute path")
    if ".." in want.path.split("/"):
        raise VolumeError(f"nfs.path {want.path!r} must not contain '..'")
    if want.of.block:
        raise VolumeError("nfs volumes are file systems: volumeMode Block is not supported")
    if not layouts.is_name(want.of.spec):
        raise VolumeError(f"the persistent volume's name {want.of.spec!r} is no name of a volume")
