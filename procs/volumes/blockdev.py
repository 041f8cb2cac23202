"""Devices as volumes (L-34): a link for the pod, a mount for the node, a lock that keeps both true.

    pods/<uid>/volumeDevices/<plugin>/<volume>      a link to the device, which containers are given
    <the volume's own directory>/<uid>              the device, bind mounted

A loop device on the bind mount keeps the device open. Without it, the device could go and another
one take its name while the pod still holds the link.

``map_device`` and ``unmap_device`` are run in processes of their own, as anything that opens a
device: they import the standard library alone, and so does this module.
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat
import subprocess
from typing import TYPE_CHECKING, Final

from procs.volumes import mounts, mounttable
from procs.volumes.errors import VolumeError, sentence

if TYPE_CHECKING:
    from procs.volumes.operations.runner import Operations

MAP: Final = "procs.volumes.blockdev:map_device"
UNMAP: Final = "procs.volumes.blockdev:unmap_device"
_DIRECTORY_MODE: Final = 0o750
_BACKING: Final = "/sys/block/loop*/loop/backing_file"
_DELETED: Final = "(deleted)"


async def mapped(ops: Operations, device: str, shared: str, uid: str, link: str) -> bool:
    """Let a pod have a device; whether anything had to be done. A VolumeError says why not."""
    arguments = {"device": device, "shared": shared, "uid": uid, "link": link}
    return bool(await ops.child(MAP, arguments, key=link))


async def unmapped(ops: Operations, shared: str, uid: str, link: str) -> None:
    """Take a device from a pod; a VolumeError says what is left."""
    await ops.child(UNMAP, {"shared": shared, "uid": uid, "link": link}, key=link)


def map_device(device: str, shared: str, uid: str, link: str) -> bool:
    """Mount a device for the node, lock it, and make the pod's link to it, in this order.

    The link comes last: where it is and leads to the device, all is done.
    """
    real = os.path.realpath(device)
    number = _number(device, real)
    held = f"{shared}/{uid}"
    done = _bind(real, number, held)
    if not loop_of(held):
        _attach(held)
        done = True
    return _link(real, link) or done


def unmap_device(shared: str, uid: str, link: str) -> None:
    """Undo all that ``map_device`` did, as far as it got."""
    held = f"{shared}/{uid}"
    loop = loop_of(held)
    if loop:
        _detach(loop)
    if os.path.lexists(link):
        if not os.path.islink(link):
            raise VolumeError(f"{link} is not removed: it is not a link")
        os.unlink(link)
    _unbind(held)
    with contextlib.suppress(OSError):  # other pods may have theirs in it
        os.rmdir(shared)


def _number(device: str, real: str) -> int:
    try:
        found = os.stat(real)
    except FileNotFoundError as err:
        raise VolumeError(f'path "{device}" does not exist') from err
    if not stat.S_ISBLK(found.st_mode):
        raise VolumeError(f'path "{device}" is not a block device')
    return found.st_rdev


# The node's mount.


def _bind(real: str, number: int, held: str) -> bool:
    """Have the device at a path of ours; whether it was not there."""
    os.makedirs(os.path.dirname(held), _DIRECTORY_MODE, exist_ok=True)
    if mounttable.at(held) is not None:
        if os.stat(held).st_rdev == number:
            return False
        _unbind(held)  # the volume has become another device
    os.close(os.open(held, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    status, output = _run(["mount", "-o", "bind", real, held])
    if status != 0:
        os.unlink(held)
        raise VolumeError(
            f"failed to bind mount devicePath: {real} to linkPath {held}:"
            f" exit status {status}: {output}"
        )
    return True


def _unbind(held: str) -> None:
    loop = loop_of(held)
    if loop:
        _detach(loop)
    while mounttable.at(held) is not None:
        try:
            mounts.unmount(mounts.real(held))
        except OSError as err:
            raise VolumeError(sentence(f"failed to unmount linkPath {held}", err)) from err
    try:
        if os.lstat(held).st_size == 0:
            os.unlink(held)
    except FileNotFoundError:
        return


def _link(real: str, link: str) -> bool:
    """Make the pod's link; one from before a reboot may lead anywhere."""
    os.makedirs(os.path.dirname(link), _DIRECTORY_MODE, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        if not os.path.islink(link) and os.path.lexists(link):
            raise VolumeError(f"{link} is in the way: it is not a link")
        if os.readlink(link) == real:
            return False
        os.unlink(link)
    os.symlink(real, link)
    return True


# The lock.


def loop_of(held: str) -> str:
    """Return the loop device on a path; "": there is none."""
    real = mounts.real(held)
    for file in glob.glob(_BACKING):
        with contextlib.suppress(OSError), open(file, encoding="utf-8", errors="replace") as found:
            if found.read().strip().removesuffix(_DELETED).strip() == real:
                return f"/dev/{file.split('/')[3]}"
    return ""


def _attach(held: str) -> None:
    status, output = _run(["losetup", "-f", held])
    if status != 0:
        raise VolumeError(f"losetup -f {held} failed: exit status {status}: {output}")


def _detach(loop: str) -> None:
    status, output = _run(["losetup", "-d", loop])
    if status != 0 and os.path.exists(loop):
        raise VolumeError(f"losetup -d {loop} failed: exit status {status}: {output}")


def _run(argv: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as err:
        return 127, sentence(argv[0], err)
    return done.returncode, " ".join(done.stdout.decode(errors="replace").split())
