"""Taking a pod's volumes down: from what is on disk, whoever has put it there (P-34, L-18)."""

from __future__ import annotations

import os
from typing import Final

from procs.volumes import mounts
from procs.volumes.errors import VolumeError, sentence
from procs.volumes.layout import EMPTY_DIR, EPHEMERAL, Layout, escaped
from procs.volumes.removal import remove_empty, remove_tree

_OURS: Final = frozenset(map(escaped, EPHEMERAL))
_FEW: Final = 64  # entries
_SMALL: Final = 1 << 20  # bytes


def is_clean(uid: str, layout: Layout) -> bool:
    """Tell whether nothing is left to be taken down."""
    parts = (layout.volumes(uid), layout.plugins(uid), layout.subpaths(uid))
    return not any(os.path.lexists(path) for path in parts)


def is_quick(uid: str, layout: Layout) -> bool:
    """Tell whether taking down is a matter of a few small files: nothing mounted, nothing large."""
    try:
        return _is_small(layout.pod(uid))
    except OSError:
        return False


def _is_small(top: str) -> bool:
    entries = size = 0
    device = os.lstat(top).st_dev
    for place, directories, files in os.walk(top):
        entries += len(directories) + len(files)
        if entries > _FEW:
            return False
        size += sum(os.lstat(f"{place}/{name}").st_size for name in files)
        if os.lstat(place).st_dev != device or size > _SMALL:
            return False
    return True


def names(uid: str, layout: Layout) -> list[str]:
    """Return the names of the volumes that a pod has on disk."""
    above = layout.volumes(uid)
    found = {name for plugin in _content(above) for name in _content(f"{above}/{plugin}")}
    return sorted(found)


def take_down(uid: str, layout: Layout) -> list[str]:
    """Unmount and remove all volumes of a pod; their names. A VolumeError names what is left.

    The note that a volume is ready goes first, so that one which is half removed is never taken
    for a whole one. The pod's own directory stays: its other content is not ours.
    """
    if is_clean(uid, layout):
        return []
    teardown = _Teardown(uid, layout)
    teardown.run()
    if teardown.problems:
        raise VolumeError("; ".join(teardown.problems))
    return teardown.removed


class _Teardown:
    """One walk through the directories of a pod; what fails is noted and the rest goes on."""

    def __init__(self, uid: str, layout: Layout) -> None:
        self._volumes = layout.volumes(uid)
        self._plugins = layout.plugins(uid)
        self._subpaths = layout.subpaths(uid)
        self._points = mounts.points()
        self.removed: list[str] = []
        self.problems: list[str] = []

    def run(self) -> None:
        """Remove markers, then parts of volumes, then volumes, then what held them."""
        self._remove(f"{self._plugins}/{escaped(EMPTY_DIR)}")
        self._remove_subpaths()
        for plugin in _content(self._volumes):
            self._remove_plugin(plugin)
        for path in (self._volumes, self._plugins, self._subpaths):
            if not remove_empty(path) and not self.problems:
                self.problems.append(f"{path} is not empty: {', '.join(_content(path))}")

    def _remove_subpaths(self) -> None:
        """Unmount what containers had of volumes; what is not empty then belongs to somebody."""
        if not self._unmount(self._subpaths):
            return
        for place, directories, files in os.walk(self._subpaths, topdown=False):
            for name in files:
                _unlink_empty(os.path.join(place, name))
            for name in directories:
                remove_empty(os.path.join(place, name))

    def _remove_plugin(self, plugin: str) -> None:
        above = f"{self._volumes}/{plugin}"
        for name in _content(above):
            path = f"{above}/{name}"
            if plugin not in _OURS:
                self.problems.append(f"{path} is a volume of {plugin}, which is not supported")
            elif self._unmount(path) and self._remove(path):
                self.removed.append(name)
        remove_empty(above)

    def _unmount(self, path: str) -> bool:
        """Unmount everything at and below a path; whether that worked."""
        found = mounts.below(mounts.real(path), self._points)
        try:
            for point in found:
                mounts.unmount(point)
        except OSError as err:
            self.problems.append(sentence(f"could not unmount {err.filename}", err))
        if found:
            self._points = mounts.points()
        return not mounts.below(mounts.real(path), self._points)

    def _remove(self, path: str) -> bool:
        try:
            remove_tree(path, self._points)
        except VolumeError as err:
            self.problems.append(str(err))
            return False
        return True


def _unlink_empty(path: str) -> None:
    """Remove the empty file on which a single file of a volume was mounted."""
    try:
        if os.lstat(path).st_size == 0:
            os.unlink(path)
    except OSError:
        return  # it stays, and is named as what is left


def _content(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:  # what cannot be listed cannot be removed, and is named then
        return []
