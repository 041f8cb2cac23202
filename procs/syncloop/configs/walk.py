"""A path inside a volume, followed step by step and never out of it (L-32).

Who writes into a volume may put a link anywhere, and change it at any moment. So no path is ever
given to the kernel as a whole: each component is opened below the descriptor of the one before,
without following links; links are followed here, and one that leads out is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_OPEN: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS: Final = 40  # as the kernel


class EscapeError(OSError):
    """A path leads out of its volume."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(errno.EXDEV, why, path)


def problem(path: str) -> str | None:
    """Say what is wrong with a path inside a volume, before anybody walks it."""
    if path.startswith("/"):
        return "must be a relative path"
    if ".." in path.split("/"):
        return "must not contain '..'"
    return "must not contain a zero byte" if "\0" in path else None


@contextmanager
def opened(root: str, path: str, create: int | None = None) -> Iterator[int]:
    """Open what a path below ``root`` leads to as an O_PATH descriptor, for the time of a block.

    With ``create``, missing components become directories of that mode. EscapeError: the path
    leads out of the root.
    """
    wrong = problem(path)
    if wrong is not None:
        raise EscapeError(path, wrong)
    steps = _Walk(os.path.realpath(root), path)
    try:
        while steps.left:
            steps.step(steps.left.pop(0), create)
        yield steps.stack[-1]
    finally:
        steps.close()


class _Walk:
    """The descriptors from the root to where the walk is; ``..`` goes back along them."""

    def __init__(self, root: str, path: str) -> None:
        self.root = root
        self.path = path
        self.left = _components(path)
        self.stack = [os.open(root, os.O_PATH | os.O_CLOEXEC)]
        self.links = 0

    def close(self) -> None:
        """Close all descriptors."""
        for fd in self.stack:
            os.close(fd)

    def step(self, name: str, create: int | None) -> None:
        """Take one step."""
        if name == "..":
            if len(self.stack) == 1:
                raise EscapeError(self.path, "leads out of the volume")
            os.close(self.stack.pop())
            return
        fd = self._open(name, create)
        if not stat.S_ISLNK(os.fstat(fd).st_mode):
            self.stack.append(fd)
            return
        try:
            target = os.readlink("", dir_fd=fd)
        finally:
            os.close(fd)
        self._follow(target)

    def _open(self, name: str, create: int | None) -> int:
        parent = self.stack[-1]
        try:
            return os.open(name, _OPEN, dir_fd=parent)
        except FileNotFoundError:
            if create is None:
                raise
        made = False
        with suppress(FileExistsError):  # made by another at this moment: it is opened as it is
            os.mkdir(name, create, dir_fd=parent)
            made = True
        fd = os.open(name, _OPEN, dir_fd=parent)
        if made and stat.S_ISDIR(os.fstat(fd).st_mode):
            # The mode that was asked for, whatever our umask; through the descriptor, not the name.
            os.chmod(f"/proc/self/fd/{fd}", create)
        return fd

    def _follow(self, target: str) -> None:
        self.links += 1
        if self.links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self.path)
        if target.startswith("/"):
            target = self._from_the_top(target)
        self.left = _components(target) + self.left

    def _from_the_top(self, target: str) -> str:
        """Begin at the root again for a link that names a place in it in full."""
        inside = os.path.normpath(target)
        if inside != self.root and not inside.startswith(self.root.rstrip("/") + "/"):
            raise EscapeError(self.path, f"a link to {target} leads out of the volume")
        while len(self.stack) > 1:
            os.close(self.stack.pop())
        return inside.removeprefix(self.root)


def _components(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
