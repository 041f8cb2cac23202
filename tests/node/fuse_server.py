"""A file system that stops answering when it is told to: a FUSE server of the kernel's protocol.

It holds a directory with a small file and a directory with another one, which nobody can change:

    file            "of the server"
    part/file       "of a part"

Run as a program it serves a directory until it is killed. A line on its standard input tells it
``hang`` or ``go``; while it hangs it takes every request and answers none, as a dead file server
does, and the kernel lets go of nobody who waits. It tells what it does on its standard output.

Nothing is kept by the kernel: each look at a file is a request. Sizes and numbers are those of
linux/fuse.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

_DEVICE: Final = "/dev/fuse"
_LARGEST: Final = 1 << 20  # bytes of a request: more than the kernel sends
_MNT_DETACH: Final = 2
_ROOT: Final = 1

_IN: Final = struct.Struct("<IIQQIIIHH")  # len, opcode, unique, nodeid, uid, gid, pid, ...
_OUT: Final = struct.Struct("<IiQ")  # len, error, unique
_INIT_OUT: Final = struct.Struct("<IIIIHHIIHHII24x")
_ATTR: Final = struct.Struct("<6Q10I")
_ENTRY: Final = struct.Struct("<4Q2I")
_VALID: Final = struct.Struct("<QII")
_OPENED: Final = struct.Struct("<QII")
_READ: Final = struct.Struct("<QQI")
_DIRENT: Final = struct.Struct("<QQII")
_STATFS: Final = struct.Struct("<5Q4I24x")

_UNANSWERED: Final = frozenset({2, 36, 42})  # FORGET, INTERRUPT, BATCH_FORGET
_MINOR: Final = 31  # of the protocol: new enough, and without its latest options

# By number: the name, the directory it is in, and what it holds (None: it is a directory).
_NODES: Final[dict[int, tuple[str, int, bytes | None]]] = {
    _ROOT: ("", _ROOT, None),
    2: ("file", _ROOT, b"of the server\n"),
    3: ("part", _ROOT, None),
    4: ("file", 3, b"of a part\n"),
}


class FuseServer:
    """A server in a process of its own, and what it serves, mounted on a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.node.fuse_server", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._await("serving")

    def hang(self) -> None:
        """Answer nobody from now on."""
        self._tell("hang", "hanging")

    def go(self) -> None:
        """Answer again, those first who have waited."""
        self._tell("go", "serving")

    def _tell(self, word: str, answer: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        self._await(answer)

    def _await(self, answer: str) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        assert said == answer, f"the file system's server says {said!r}"

    def die(self) -> None:
        """End the server: whoever waits gets an error."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def close(self) -> None:
        """End the server, and unmount what it served."""
        self.die()
        libc = ctypes.CDLL(None, use_errno=True)
        libc.umount2(os.fsencode(self.directory), _MNT_DETACH)


def main(directory: str) -> int:
    """Serve a directory until standard input ends."""
    device = os.open(_DEVICE, os.O_RDWR)
    _mount(device, directory)
    _Server(device).run()
    return 0


def _mount(device: int, directory: str) -> None:
    options = f"fd={device},rootmode={stat.S_IFDIR:o},user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    place = os.fsencode(directory)
    if libc.mount(b"kubelet-test", place, b"fuse", ctypes.c_ulong(0), options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), directory)


class _Server:
    """Takes requests, and answers them or keeps them."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._hangs = False
        self._kept: list[bytes] = []

    def run(self) -> None:
        """Serve until standard input ends."""
        self._take()  # the kernel's first word: who asks before its answer can still be killed
        self._say()
        poll = select.poll()
        poll.register(self._device, select.POLLIN)
        poll.register(sys.stdin.fileno(), select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if sys.stdin.fileno() in ready and not self._heard():
                return
            if self._device in ready and not self._take():
                return

    def _heard(self) -> bool:
        word = os.read(sys.stdin.fileno(), 100).decode().strip()
        self._hangs = word == "hang"
        if not self._hangs:
            kept, self._kept = self._kept, []
            for request in kept:
                self._answer(request)
        if word:
            self._say()
        return bool(word)

    def _say(self) -> None:
        print("hanging" if self._hangs else "serving", flush=True)

    def _take(self) -> bool:
        """Take one request; whether anything is mounted still."""
        try:
            request = os.read(self._device, _LARGEST)
        except InterruptedError:
            return True
        except OSError as err:
            # ENOENT: who asked was gone before; ENODEV: it was unmounted.
            return err.errno in (errno.ENOENT, errno.EAGAIN)
        if self._hangs:
            self._kept.append(request)
        else:
            self._answer(request)
        return True

    def _answer(self, request: bytes) -> None:
        _, opcode, unique, node, *_ = _IN.unpack_from(request)
        if opcode in _UNANSWERED:
            return
        found = _reply(opcode, node, request[_IN.size :])
        error, data = (-found, b"") if isinstance(found, int) else (0, found)
        try:
            os.write(self._device, _OUT.pack(_OUT.size + len(data), error, unique) + data)
        except OSError as err:
            if err.errno not in (errno.ENOENT, errno.ENODEV):  # nobody waits for it any more
                raise


def _reply(opcode: int, node: int, body: bytes) -> bytes | int:
    """Return an answer, or the number of an error."""
    match opcode:
        case 26:  # INIT
            reply: bytes | int = _INIT_OUT.pack(7, _MINOR, 0, 0, 16, 12, 1 << 16, 1, 0, 0, 0, 0)
        case 1:  # LOOKUP
            reply = _looked_up(node, body.split(b"\0")[0].decode())
        case 3:  # GETATTR
            reply = _VALID.pack(0, 0, 0) + _attributes(node)
        case 14 | 27:  # OPEN, OPENDIR
            reply = _OPENED.pack(0, 0, 0)
        case 15:  # READ
            _, offset, size = _READ.unpack_from(body)
            reply = (_NODES[node][2] or b"")[offset : offset + size]
        case 28:  # READDIR
            reply = _listed(node, _READ.unpack_from(body)[1])
        case 17:  # STATFS
            reply = _STATFS.pack(1000, 500, 500, len(_NODES), 0, 4096, 255, 4096, 0)
        case 18 | 25 | 29 | 34 | 38:  # RELEASE, FLUSH, RELEASEDIR, ACCESS, DESTROY
            reply = b""
        case _:
            reply = errno.ENOSYS
    return reply


def _attributes(node: int) -> bytes:
    content = _NODES[node][2]
    size = len(content or b"")
    mode = stat.S_IFDIR | 0o755 if content is None else stat.S_IFREG | 0o644
    return _ATTR.pack(node, size, 1, 0, 0, 0, 0, 0, 0, mode, 2, 0, 0, 0, 4096, 0)


def _looked_up(node: int, name: str) -> bytes | int:
    for number, (known, above, _) in _NODES.items():
        if above == node and known == name:
            return _ENTRY.pack(number, 0, 0, 0, 0, 0) + _attributes(number)
    return errno.ENOENT


def _listed(node: int, offset: int) -> bytes:
    inside = [(n, name) for n, (name, above, _) in _NODES.items() if above == node and name]
    found = b""
    for at, (number, name) in enumerate(inside[offset:], start=offset + 1):
        kind = stat.S_IFDIR if _NODES[number][2] is None else stat.S_IFREG
        entry = _DIRENT.pack(number, at, len(name), kind >> 12) + name.encode()
        found += entry + bytes(-len(entry) % 8)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
