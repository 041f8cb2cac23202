"""Taking a pod's volumes down: from what is on disk, whoever has put it there (P-34, L-18)."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Final

from procs.volumes import mounts
from procs.volumes.errors import VolumeError, sentence
from procs.volumes.layout import EMPTY_DIR, EPHEMERAL, Layout, escaped
from procs.volumes.plugin import Standing
from procs.volumes.removal import remove_empty, remove_tree

_OURS: Final = frozenset(map(escaped, EPHEMERAL))
_FEW: Final = 64  # entries
_SMALL: Final = 1 << 20  # bytes


def is_clean(uid: str, layout: Layout) -> bool:
    """Tell whether nothing is left to be taken down."""
    return not any(os.path.lexists(path) for path in _places(uid, layout))


def _places(uid: str, layout: Layout) -> tuple[str, ...]:
    return layout.volumes(uid), layout.devices(uid), layout.plugins(uid), layout.subpaths(uid)


def is_quick(uid: str, layout: Layout) -> bool:
    """Tell whether taking down is a matter of a few small files: nothing mounted, nothing large.

    Only what this process made itself is looked into: other file systems may hang.
    """
    if has_parts(uid, layout) or os.path.lexists(layout.devices(uid)):
        return False
    if not _OURS.issuperset(_content(layout.volumes(uid))):
        return False
    try:
        return _is_small(layout.pod(uid))
    except OSError:
        return False


def has_parts(uid: str, layout: Layout) -> bool:
    """Tell whether there is anything where parts of volumes are mounted for containers."""
    return os.path.lexists(layout.subpaths(uid))


def standing(uid: str, layout: Layout, plugins: Collection[str]) -> list[Standing]:
    """Return the volumes of a pod that these plugins have set up."""
    found = []
    for above, block in ((layout.volumes(uid), False), (layout.devices(uid), True)):
        for plugin in sorted(plugins):
            place = f"{above}/{escaped(plugin)}"
            names_there = _content(place)
            found += [Standing(uid, plugin, n, f"{place}/{n}", block) for n in names_there]
    return found


def has_own(uid: str, layout: Layout, skipped: Collection[str]) -> bool:
    """Tell whether anything is there that is not a volume of a plugin."""
    theirs = set(map(escaped, skipped))
    if os.path.lexists(layout.plugins(uid)):
        return True
    return bool(set(_content(layout.volumes(uid))) - theirs)


def release_parts(root: str, uid: str) -> None:
    """Unmount what containers had of volumes, and remove the places; a VolumeError: not all of it.

    What is not empty then belongs to somebody, and stays.
    """
    teardown = _Teardown(uid, Layout(root))
    teardown.release_parts()
    if teardown.problems:
        raise VolumeError("; ".join(teardown.problems))


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
    found: set[str] = set()
    for above in (layout.volumes(uid), layout.devices(uid)):
        found.update(name for plugin in _content(above) for name in _content(f"{above}/{plugin}"))
    return sorted(found)


def take_down(uid: str, layout: Layout, skipped: Collection[str] = ()) -> list[str]:
    """Unmount and remove all volumes of a pod; their names. A VolumeError names what is left.

    The note that a volume is ready goes first, so that one which is half removed is never taken
    for a whole one. The pod's own directory stays: its other content is not ours. Volumes of the
    plugins that are to be skipped stay, with the directories that hold them.
    """
    if is_clean(uid, layout):
        return []
    teardown = _Teardown(uid, layout, skipped)
    teardown.run()
    if teardown.problems:
        raise VolumeError("; ".join(teardown.problems))
    return teardown.removed


class _Teardown:
    """One walk through the directories of a pod; what fails is noted and the rest goes on."""

    def __init__(self, uid: str, layout: Layout, skipped: Collection[str] = ()) -> None:
        self._skipped = frozenset(map(escaped, skipped))
        self._volumes = layout.volumes(uid)
        self._devices = layout.devices(uid)
        self._plugins = layout.plugins(uid)
        self._subpaths = layout.subpaths(uid)
        self._points = mounts.points()
        self.removed: list[str] = []
        self.problems: list[str] = []

    def run(self) -> None:
        """Remove markers, then parts of volumes, then volumes, then what held them."""
        self._remove(f"{self._plugins}/{escaped(EMPTY_DIR)}")
        self.release_parts()
        for place in (self._volumes, self._devices):
            for plugin in _content(place):
                self._remove_plugin(place, plugin)
        for path in (self._volumes, self._devices, self._plugins):
            others = path != self._plugins and self._holds_others(path)
            if not remove_empty(path) and not self.problems and not others:
                self.problems.append(f"{path} is not empty: {', '.join(_content(path))}")

    def release_parts(self) -> None:
        """Remove parts of volumes and their places."""
        self._remove_subpaths()
        if not remove_empty(self._subpaths) and not self.problems:
            self.problems.append(
                f"{self._subpaths} is not empty: {', '.join(_content(self._subpaths))}"
            )

    def _holds_others(self, path: str) -> bool:
        return self._skipped.issuperset(_content(path))

    def _remove_subpaths(self) -> None:
        """Unmount what containers had of volumes; what is not empty then belongs to somebody."""
        if not self._unmount(self._subpaths):
            return
        for place, directories, files in os.walk(self._subpaths, topdown=False):
            for name in files:
                _unlink_empty(os.path.join(place, name))
            for name in directories:
                remove_empty(os.path.join(place, name))

    def _remove_plugin(self, place: str, plugin: str) -> None:
        above = f"{place}/{plugin}"
        for name in _content(above) if plugin not in self._skipped else ():
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
