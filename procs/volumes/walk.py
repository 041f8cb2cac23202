"""A path inside a volume, followed to its end and never out of it (L-32).

Who writes into a volume may put a link anywhere, and change it at any moment. Where the kernel can,
it is asked to resolve the whole path below the volume, in one step that nobody can interfere with.
What it refuses is walked here: each component is opened below the descriptor of the one before,
without following links; links are followed here, and one that leads out is refused. The kernel
knows no link that names a place inside the volume in full, and makes no directories.

Only the standard library: it runs in processes of single operations.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_OPEN: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS: Final = 40  # as the kernel
_MAX_PATH: Final = 4096  # PATH_MAX

_OPENAT2: Final = 437  # the same number on every architecture
_NO_MAGICLINKS: Final = 0x02  # linux/openat2.h
_BENEATH: Final = 0x08

_libc: Final = ctypes.CDLL(None, use_errno=True)


class EscapeError(OSError):
    """A path leads out of its volume."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(errno.EXDEV, why, path)


class _How(ctypes.Structure):
    """``struct open_how`` of linux/openat2.h."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def problem(path: str) -> str | None:
    """Say what is wrong with a path inside a volume, before anybody walks it."""
    if path.startswith("/"):
        return "must be a relative path"
    if ".." in path.split("/"):
        return "must not contain '..'"
    if "\0" in path:
        return "must not contain a zero byte"
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        return "must be valid UTF-8"
    return f"must have less than {_MAX_PATH} bytes" if size >= _MAX_PATH else None


@contextmanager
def opened(
    root: str, path: str, create: int | None = None, *, at_once: bool = True
) -> Iterator[int]:
    """Open what a path below ``root`` leads to as an O_PATH descriptor, for the time of a block.

    With ``create``, missing components become directories of that mode. Without ``at_once`` the
    kernel is not asked to resolve it as a whole. EscapeError: the path leads out of the root.
    """
    wrong = problem(path)
    if wrong is not None:
        raise EscapeError(path, wrong)
    steps = _Walk(os.path.realpath(root), path)
    try:
        found = beneath(steps.stack[0], path) if at_once else None
        if found is not None:
            steps.stack.append(found)
        else:
            steps.run(create)
        yield steps.stack[-1]
    finally:
        steps.close()


def beneath(root: int, path: str) -> int | None:
    """Have the kernel open a path below a directory; None: it does not, for whatever reason."""
    how = _How(os.O_PATH | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGICLINKS)
    name = os.fsencode(path) or b"."
    found = _libc.syscall(
        ctypes.c_long(_OPENAT2),
        ctypes.c_int(root),
        ctypes.c_char_p(name),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    return int(found) if found >= 0 else None


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

    def run(self, create: int | None) -> None:
        """Go on to the end."""
        while self.left:
            self.step(self.left.pop(0), create)

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
