"""What local volumes are made of: directories and devices that get mounted for pods.

Every function here is run in a process of its own (``Operations.child``): a path of the host may be
on anything, a disk may be dying.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any, Final

from procs.volumes import mounts, mounttable
from procs.volumes.errors import VolumeError, sentence

DEFAULT_FS: Final = "ext4"
_DIRECTORY_MODE: Final = 0o750
_NOT_FOUND: Final = 127
_UNFORMATTED: Final = 2  # blkid: nothing that it knows is on the device
_CORRECTED: Final = 1  # fsck
_UNCORRECTED: Final = 4
_PARTITIONS: Final = "unknown data, probably partitions"
_FS_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_FORCE: Final = {"ext3": ("-F", "-m0"), "ext4": ("-F", "-m0"), "xfs": ("-f",)}
# What a remount would take away if it were not said again.
_KEPT: Final = frozenset({"ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime"})
_MOST_STACKED: Final = 64


def look(path: str, pods: str) -> dict[str, Any]:
    """Return what is at a path, whose group it is, and which pods have it mounted."""
    try:
        found = os.stat(path)
    except FileNotFoundError as err:
        raise VolumeError(f'path "{path}" does not exist') from err
    except OSError as err:
        raise VolumeError(sentence(f'path "{path}"', err)) from err
    if stat.S_ISDIR(found.st_mode):
        kind = "directory"
    elif stat.S_ISBLK(found.st_mode):
        kind = "device"
    else:
        raise VolumeError(f'path "{path}": only directory and block device are supported')
    real = os.path.realpath(path)
    below = os.path.realpath(pods) + "/"
    users = [point for point in mounttable.same(real, mounttable.read()) if point.startswith(below)]
    return {"kind": kind, "real": real, "group": found.st_gid, "users": users}


# Devices.


def mount_device(
    device: str, place: str, fs_type: str, options: Sequence[str], read_only: bool
) -> bool:
    """Mount the file system of a device, and make one if there is none; whether it was not yet."""
    if mounttable.at(place) is not None:
        return False
    fs_type = fs_type or DEFAULT_FS
    if not _FS_TYPE.fullmatch(fs_type):
        raise VolumeError(f"fsType {fs_type!r} is no name of a file system")
    os.makedirs(place, _DIRECTORY_MODE, exist_ok=True)
    chosen = joined(options, ["ro"] if read_only else [])
    found = fs_type
    try:
        found = _prepare(device, fs_type, "ro" in chosen)
        _mount(["-t", fs_type, "-o", ",".join([*chosen, "defaults"]), device, place])
    except VolumeError as err:
        _remove_directory(place)
        carries = f" (it carries {found})" if found != fs_type else ""
        raise VolumeError(
            f"local: failed to mount device {device} at {place} (fstype: {fs_type}),"
            f" error {err}{carries}"
        ) from err
    return True


def _prepare(device: str, fs_type: str, read_only: bool) -> str:
    """See to it that a device carries a file system; which.

    The device is held by a lock that programs of ours inherit: a successor of a process that died
    does not begin to format what is still being formatted.
    """
    fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise VolumeError(f"{device} is being formatted or checked at the moment") from err
        os.pread(fd, 4096, 0)  # a device that cannot be read would look empty to blkid
        return _formatted(device, fs_type, read_only, fd)
    except OSError as err:
        raise VolumeError(sentence(device, err)) from err
    finally:
        os.close(fd)


def _formatted(device: str, fs_type: str, read_only: bool, fd: int) -> str:
    found = format_of(device)
    if not found:
        _format(device, fs_type, read_only, fd)
    elif not read_only:
        _check(device, fd)
    return found or fs_type


def format_of(device: str) -> str:
    """Return what is on a device; "": nothing. A VolumeError: that cannot be said."""
    status, output = _run(
        ["blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device], joined_output=False
    )
    if status == _UNFORMATTED:
        return ""
    if status != 0:
        raise VolumeError(
            f"failed to get disk format of disk {device}: blkid: exit status {status} {output}"
        )
    values = dict(line.partition("=")[::2] for line in output.splitlines() if "=" in line)
    if values.get("PTTYPE"):
        return _PARTITIONS
    if not values.get("TYPE"):
        raise VolumeError(f"blkid returns invalid output for {device}: {output!r}")
    return values["TYPE"]


def _format(device: str, fs_type: str, read_only: bool, fd: int) -> None:
    if read_only:
        raise VolumeError(
            f"cannot mount unformatted disk {device} as we are manipulating it in read-only mode"
        )
    program = f"mkfs.{fs_type}"
    status, output = _run([program, *_FORCE.get(fs_type, ()), device], (fd,))
    if status != 0:
        raise VolumeError(
            f'format of disk "{device}" failed: type:("{fs_type}") errcode:(exit status {status})'
            f" output:({output})"
        )


def _check(device: str, fd: int) -> None:
    """Have a file system repaired; only what cannot be is an error."""
    status, output = _run(["fsck", "-a", device], (fd,))
    if status == _UNCORRECTED:
        raise VolumeError(
            f"'fsck' found errors on device {device} but could not correct them: {output}"
        )


# Mounting for a pod.


def bind(source: str, target: str, pod: str, read_only: bool, options: Sequence[str]) -> bool:
    """Mount a directory for a pod; whether anything had to be done. It is all, or nothing."""
    mount = mounttable.at(target)
    if mount is not None and (mount.read_only or not read_only):
        return False
    if mount is None:
        make_place(target, pod)
    try:
        if mount is None:
            _mount(["-o", "bind", source, target])
        _remount(source, target, joined(options, ["ro"] if read_only else []))
    except VolumeError:
        if mount is None:
            take_down(target)
        raise
    return True


def _remount(source: str, target: str, options: list[str]) -> None:
    """Give a bind mount its options; those that it has from its source stay."""
    if not options:
        return
    mount = mounttable.at(target)
    kept = [o for o in (mount.options if mount is not None else ()) if o in _KEPT]
    _mount(["-o", ",".join(["bind", "remount", *joined(options, kept)]), source, target])


def make_place(path: str, pod: str) -> None:
    """Make the directory of a volume and those above it, as closed as the kubelet keeps them."""
    plugin = os.path.dirname(path)
    os.makedirs(pod, _DIRECTORY_MODE, exist_ok=True)
    for directory, mode in (
        (os.path.dirname(plugin), _DIRECTORY_MODE),
        (plugin, 0o755),
        (path, _DIRECTORY_MODE),
    ):
        try:
            os.mkdir(directory, mode)
        except FileExistsError as err:
            if not stat.S_ISDIR(os.lstat(directory).st_mode):
                raise VolumeError(f"{directory} is in the way: it is not a directory") from err


# Taking down.


def take_down(path: str, place: str = "", pods: str = "") -> None:
    """Unmount what is on a path and remove its directory, which must be empty.

    ``place`` is where the device behind it is mounted, if it has one: that goes with the last of
    the mounts below ``pods``.
    """
    _unmount(path)
    _remove_directory(path, must=True)
    if place and not _users(place, pods):
        _unmount(place)
        _remove_directory(place, must=True)


def _users(place: str, pods: str) -> bool:
    """Tell whether the device that is mounted at a place is also mounted for a pod."""
    mount = mounttable.at(place)
    below = os.path.realpath(pods) + "/"
    return mount is not None and any(
        other.device == mount.device and other.point.startswith(below)
        for other in mounttable.read()
    )


def _unmount(path: str) -> None:
    for _ in range(_MOST_STACKED):
        if mounttable.at(path) is None:
            return
        try:
            mounts.unmount(mounts.real(path))
        except OSError as err:
            raise VolumeError(sentence(f"could not unmount {path}", err)) from err
    raise VolumeError(f"{path} is still mounted")


def _remove_directory(path: str, *, must: bool = False) -> None:
    """Remove a directory that nothing is mounted on, if it is empty."""
    if mounttable.at(path) is not None:
        return
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return
    except OSError as err:
        if must:
            raise VolumeError(sentence(f"could not remove {path}", err)) from err


# Programs.


def joined(options: Iterable[str], more: Iterable[str]) -> list[str]:
    """Return options of a mount, each once, in an order that does not depend on whose they are."""
    return sorted({option for option in (*options, *more) if option})


def _mount(arguments: list[str]) -> None:
    status, output = _run(["mount", *arguments])
    if status != 0:
        raise VolumeError(
            f"mount failed: exit status {status}. Mounting command: mount."
            f" Mounting arguments: {' '.join(arguments)}. Output: {output}"
        )


def _run(
    argv: list[str], descriptors: tuple[int, ...] = (), *, joined_output: bool = True
) -> tuple[int, str]:
    """Run a program to its end; its status and what it said."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if joined_output else subprocess.PIPE,
            pass_fds=descriptors,
            check=False,
        )
    except OSError as err:
        return _NOT_FOUND, sentence(argv[0], err)
    said = done.stdout if joined_output or done.returncode == 0 else done.stdout + done.stderr
    text = said.decode(errors="replace").strip()
    return done.returncode, text if not joined_output else " ".join(text.split())
