"""Writing the files of a volume so that a container sees all of the old or all of the new (L-21).

    ..2026_01_02_03_04_05.abc/   the files
    ..data                       a link to that directory: replacing it is the change
    name                         a link to ..data/name, for each first part of a file's path

A writer may be killed between any two steps. Whoever writes next compares what is there with what
is wanted, and removes what belongs to neither.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Final

from procs.volumes.errors import VolumeError
from procs.volumes.layout import is_path
from procs.volumes.mounts import points
from procs.volumes.removal import remove_tree
from procs.volumes.wants import File

DATA: Final = "..data"
_NEW_DATA: Final = "..data_tmp"
_NEW_NAME: Final = "..name_tmp"
_STAMPED: Final = re.compile(r"\.\.\d{4}(_\d\d){5}\..+")
_OPEN: Final = 0o755  # the files have modes of their own
_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4096
_MODES: Final = 0o7777
_USERS: Final = (1 << 32) - 2  # one more is "leave it" for the kernel

Own = Callable[[], None]  # gives what is in the volume now to whom it belongs


def check(files: Iterable[File]) -> None:
    """Refuse paths that could lead out of the volume or take the writer's own names."""
    taken: set[str] = set()
    above: set[str] = set()
    for file in files:
        _check_path(file.path)
        _check_numbers(file)
        parts = os.path.normpath(file.path).split("/")
        over = {"/".join(parts[:n]) for n in range(1, len(parts))}
        path = "/".join(parts)
        if path in taken:
            raise VolumeError(f"path {file.path!r} is used twice")
        if path in above or over & taken:
            raise VolumeError(f"path {file.path!r} is both a file and a directory")
        taken.add(path)
        above |= over


def _check_path(path: str) -> None:
    parts = path.split("/")
    if not path or path.startswith("/"):
        raise VolumeError(f"path {path!r} must be relative and not empty")
    if not is_path(path) or os.path.normpath(path) == ".":
        raise VolumeError(f"path {path[:80]!r} is not the name of a file")
    if ".." in parts:
        raise VolumeError(f"path {path!r} must not contain '..'")
    if parts[0].startswith(".."):
        raise VolumeError(f"path {path!r} must not start with '..'")
    if len(os.fsencode(path)) > _LONGEST_PATH or any(
        len(os.fsencode(part)) > _LONGEST_NAME for part in parts
    ):
        raise VolumeError(f"path {path[:80]!r} is too long")


def _check_numbers(file: File) -> None:
    if not 0 <= file.mode <= _MODES:
        raise VolumeError(f"path {file.path!r}: {file.mode} is no mode of a file")
    if file.user is not None and not 0 <= file.user <= _USERS:
        raise VolumeError(f"path {file.path!r}: {file.user} is no user")


def write(volume: str, files: tuple[File, ...], own: Own = lambda: None) -> bool:
    """Have a volume hold these files and no others; whether anything had to be changed."""
    check(files)
    current = current_in(volume)
    if current is not None and holds(os.path.join(volume, current), files):
        changed = False
    else:
        _sweep(volume, current)  # what a writer has left may take the room that is needed now
        current = _write_new(volume, files, own)
        changed = True
    changed |= _link_names(volume, {os.path.normpath(f.path).split("/")[0] for f in files})
    _sweep(volume, current)
    return changed


def holds(directory: str, files: tuple[File, ...]) -> bool:
    """Tell whether a directory holds just these files, with content and mode."""
    found = {
        os.path.relpath(os.path.join(place, name), directory)
        for place, _, names in os.walk(directory)
        for name in names
    }
    if found != {os.path.normpath(file.path) for file in files}:
        return False
    return all(_same(os.path.join(directory, file.path), file) for file in files)


def _same(path: str, file: File) -> bool:
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) != file.mode:
        return False
    owner = os.geteuid() if file.user is None else file.user
    if (status.st_size, status.st_uid) != (len(file.data), owner):
        return False
    with open(path, "rb") as there:
        return there.read() == file.data


def current_in(volume: str) -> str | None:
    """Return the name of the directory that counts, if there is one."""
    try:
        target = os.readlink(os.path.join(volume, DATA))
    except OSError:
        return None
    if _STAMPED.fullmatch(target) and os.path.isdir(os.path.join(volume, target)):
        return target
    return None


def _write_new(volume: str, files: tuple[File, ...], own: Own) -> str:
    prefix = time.strftime("..%Y_%m_%d_%H_%M_%S.", time.gmtime())
    directory = tempfile.mkdtemp(prefix=prefix, dir=volume)
    try:
        os.chmod(directory, _OPEN)
        for file in files:
            _write_file(os.path.join(directory, file.path), file)
        own()
    except OSError:  # no room, for one: then what was written must not stay in the way
        remove_tree(directory, points())
        raise
    _replace_link(volume, DATA, _NEW_DATA, os.path.basename(directory))
    return os.path.basename(directory)


def _write_file(path: str, file: File) -> None:
    if "/" in file.path:
        os.makedirs(os.path.dirname(path), mode=_OPEN, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as there:
        there.write(file.data)
        os.fchmod(there.fileno(), file.mode)
        if file.user is not None:
            os.fchown(there.fileno(), file.user, -1)


def _replace_link(volume: str, name: str, new: str, target: str) -> None:
    link = os.path.join(volume, new)
    try:
        os.symlink(target, link)
    except FileExistsError:  # of a writer that was killed
        os.unlink(link)
        os.symlink(target, link)
    os.rename(link, os.path.join(volume, name))


def _link_names(volume: str, names: set[str]) -> bool:
    """Have a link for each name, and none of ours beside; whether any was missing or too much."""
    ours = {name for name in os.listdir(volume) if _is_ours(volume, name)}
    for name in names - ours:
        _replace_link(volume, name, _NEW_NAME, f"{DATA}/{name}")
    for name in ours - names:
        os.unlink(os.path.join(volume, name))
    return ours != names


def _is_ours(volume: str, name: str) -> bool:
    if name.startswith(".."):
        return False
    try:
        return os.readlink(os.path.join(volume, name)) == f"{DATA}/{name}"
    except OSError:
        return False


def _sweep(volume: str, current: str | None) -> None:
    """Remove what earlier writes have left."""
    names = os.listdir(volume)
    for name in {_NEW_DATA, _NEW_NAME}.intersection(names):
        os.unlink(os.path.join(volume, name))
    stale = [name for name in names if _STAMPED.fullmatch(name) and name != current]
    mounted = points() if stale else []
    for name in stale:
        remove_tree(os.path.join(volume, name), mounted)
