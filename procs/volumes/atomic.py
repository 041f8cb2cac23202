"""Writing the files of a volume so that a container sees all of the old or all of the new (L-21).

    ..2026_01_02_03_04_05.abc/   the files
    ..data                       a link to that directory: replacing it is the change
    name                         a link to ..data/name, for each first part of a file's path

A writer may be killed between any two steps. Whoever writes next compares what is there with what
is wanted, and removes what belongs to neither.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Final

from procs.volumes.errors import VolumeError
from procs.volumes.mounts import points
from procs.volumes.removal import remove_tree
from procs.volumes.wants import File

DATA: Final = "..data"
_NEW_DATA: Final = "..data_tmp"
_STAMPED: Final = re.compile(r"\.\.\d{4}(_\d\d){5}\..+")
_OPEN: Final = 0o755  # the files have modes of their own
_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4096

Own = Callable[[], None]  # gives what is in the volume now to whom it belongs


def check(files: Iterable[File]) -> None:
    """Refuse paths that could lead out of the volume or take the writer's own names."""
    taken: set[str] = set()
    for file in files:
        parts = file.path.split("/")
        if not file.path or file.path.startswith("/"):
            raise VolumeError(f"path {file.path!r} must be relative and not empty")
        if ".." in parts:
            raise VolumeError(f"path {file.path!r} must not contain '..'")
        if parts[0].startswith(".."):
            raise VolumeError(f"path {file.path!r} must not start with '..'")
        if len(file.path.encode()) > _LONGEST_PATH or any(
            len(part.encode()) > _LONGEST_NAME for part in parts
        ):
            raise VolumeError(f"path {file.path[:80]!r} is too long")
        if file.path in taken:
            raise VolumeError(f"path {file.path!r} is used twice")
        taken.add(file.path)


def write(volume: str, files: tuple[File, ...], own: Own = lambda: None) -> bool:
    """Have a volume hold these files and no others; whether anything had to be changed."""
    check(files)
    current = _current(volume)
    if current is not None and holds(os.path.join(volume, current), files):
        changed = False
    else:
        current = _write_new(volume, files, own)
        changed = True
    changed |= _link_names(volume, {file.path.split("/")[0] for file in files})
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
    if status.st_size != len(file.data):
        return False
    with open(path, "rb") as there:
        return there.read() == file.data


def _current(volume: str) -> str | None:
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
    os.chmod(directory, _OPEN)
    for file in files:
        _write_file(os.path.join(directory, file.path), file)
    own()
    _replace_link(volume, DATA, _NEW_DATA, os.path.basename(directory))
    return os.path.basename(directory)


def _write_file(path: str, file: File) -> None:
    above = os.path.dirname(path)
    os.makedirs(above, mode=_OPEN, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as there:
        there.write(file.data)
        os.fchmod(there.fileno(), file.mode)


def _replace_link(volume: str, name: str, new: str, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(volume, new))
    os.symlink(target, os.path.join(volume, new))
    os.rename(os.path.join(volume, new), os.path.join(volume, name))


def _link_names(volume: str, names: set[str]) -> bool:
    """Have a link for each name, and none of ours beside; whether any was missing or too much."""
    ours = {name for name in os.listdir(volume) if _is_ours(volume, name)}
    for name in names - ours:
        _replace_link(volume, name, f"..{name[:200]}_tmp", f"{DATA}/{name}")
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


def _sweep(volume: str, current: str) -> None:
    """Remove what earlier writes have left."""
    stale = [name for name in os.listdir(volume) if _STAMPED.fullmatch(name) and name != current]
    mounted = points() if stale else []
    for name in stale:
        remove_tree(os.path.join(volume, name), mounted)
