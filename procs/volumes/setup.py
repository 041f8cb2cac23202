"""Setting volumes up, one step after another; each can be done again from any state (8.4)."""

from __future__ import annotations

import os
import stat
from typing import Final

from procs.volumes import atomic, hostpath, mounts, ownership
from procs.volumes.errors import VolumeError, WaitingError, sentence
from procs.volumes.kinds import NOSWAP
from procs.volumes.layout import Layout
from procs.volumes.plugin import Done
from procs.volumes.wants import (
    CsiWant,
    EmptyDirWant,
    FilesWant,
    HostPathWant,
    ImageWant,
    Lacking,
    LocalWant,
    NfsWant,
    Refused,
    Waiting,
    Want,
)

READY: Final = "ready"
_POD_MODE: Final = 0o750  # P-55
_PLUGIN_MODE: Final = 0o755
_SOURCES: Final = {"tmpfs": "tmpfs", "hugetlbfs": "nodev"}


def set_up(want: Want, uid: str, layout: Layout) -> Done:
    """Set a volume up that is made by this process itself; a VolumeError says why it cannot be."""
    try:
        match want:
            case EmptyDirWant():
                return empty_dir(want, uid, layout)
            case HostPathWant():
                return host_path(want)
            case FilesWant():
                return files(want, uid, layout)
            case ImageWant():
                return Done("")
            case Waiting() if want.waiting:
                raise WaitingError(want.reason)
            case Lacking() | Waiting() | Refused():
                raise VolumeError(want.reason)
            case LocalWant() | NfsWant() | CsiWant():
                raise AssertionError(f"{want.name} is set up by its plugin")
    except OSError as err:
        where = f" {err.filename}" if err.filename else ""
        raise VolumeError(sentence(f'volume "{want.name}":{where}', err)) from err


def in_place(want: Want, uid: str, layout: Layout) -> bool:
    """Tell whether a volume is set up, as far as a few looks can tell."""
    match want:
        case EmptyDirWant():
            path = layout.volume(uid, want.plugin, want.name)
            if not (mounts.is_point(path) if want.fs_type else os.path.isdir(path)):
                return False
            if want.wrapped:  # a note beside it would cost more than all of it
                return atomic.current_in(path) is not None
            return os.path.exists(f"{layout.marker(uid, want.name)}/{READY}")
        case HostPathWant():
            return not want.type
        case _:
            return False


def written(want: Lacking, uid: str, layout: Layout) -> str:
    """Return where a volume is that was set up and whose files were written once; "" if not."""
    path = layout.volume(uid, want.base.plugin, want.name)
    return path if in_place(want.base, uid, layout) else ""


# emptyDir (L-30).


def empty_dir(want: EmptyDirWant, uid: str, layout: Layout) -> Done:
    """Make the directory, mount what it is made of, give it to the group, note that it is done.

    The note comes last: without it, everything is done again. With it, nothing is, so that what
    the pod has changed since stays as it is. Files that are written next are a note of their own.
    """
    path = layout.volume(uid, want.plugin, want.name)
    if in_place(want, uid, layout):
        return Done(path)
    make_above(path, layout.pod(uid))
    if not mounts.is_point(path):
        _make(path, want.mode)
        if want.fs_type:
            _mount(path, want)
    if want.fs_group is not None:
        ownership.give(path, want.fs_group)
    if not want.wrapped:
        _mark(layout.marker(uid, want.name), layout.pod(uid))
    return Done(path, changed=True)


def make_above(path: str, pod: str) -> None:
    """Make the directories above a volume's, as closed as the kubelet keeps them (P-55)."""
    plugin = os.path.dirname(path)
    for directory, mode in (
        (pod, _POD_MODE),
        (os.path.dirname(plugin), _POD_MODE),
        (plugin, _PLUGIN_MODE),
    ):
        _make_once(directory, mode)


def _make_once(path: str, mode: int) -> None:
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        return
    except FileNotFoundError:  # the first of all pods
        os.makedirs(os.path.dirname(path), mode, exist_ok=True)
        os.mkdir(path, mode)


def _make(path: str, mode: int) -> None:
    """Make a directory with this mode, whatever the umask."""
    _make_once(path, mode)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise VolumeError(f"{path} is in the way: it is not a directory")
    if stat.S_IMODE(found.st_mode) != mode:
        os.chmod(path, mode)


def _mount(path: str, want: EmptyDirWant) -> None:
    try:
        mounts.mount(_SOURCES[want.fs_type], path, want.fs_type, want.options)
    except OSError:
        if NOSWAP not in want.options:
            raise
        # A kernel that knows the option may refuse it, in a user namespace for one.
        options = [option for option in want.options if option != NOSWAP]
        mounts.mount(_SOURCES[want.fs_type], path, want.fs_type, options)


def _mark(marker: str, pod: str) -> None:
    make_above(marker, pod)
    _make_once(marker, _POD_MODE)
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    os.close(os.open(f"{marker}/{READY}", flags, 0o644))


# hostPath (L-31).


def host_path(want: HostPathWant) -> Done:
    """Check that a path is of its type, or make it."""
    return Done(want.path, changed=hostpath.check(want.name, want.path, want.type))


# Volumes of files (L-20, L-21).


def files(want: FilesWant, uid: str, layout: Layout) -> Done:
    """Write the files of a volume, if they are not what they should be."""
    base = empty_dir(want.base, uid, layout)
    path = base.path
    for nested in want.nested:
        os.makedirs(f"{path}/{nested}", mode=0o755, exist_ok=True)
    group = want.base.fs_group

    def own() -> None:
        if group is not None:
            ownership.give(path, group, read_only=True)

    try:
        changed = atomic.write(path, want.files, own)
    except VolumeError as err:
        raise VolumeError(f'volume "{want.name}": {err}') from None
    return Done(path, changed=base.changed or changed)
