"""An NFS server that takes connections and never says a word, until it is to say that it has none.

What mounts a path of an NFS server asks it first for the port of its service (RFC 1833, program
100000). Whoever has asked waits, with his connection open. `refuse` answers all of them, and each
who asks from then on: that service is not registered here.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import threading
from pathlib import Path
from typing import Final

HOST: Final = "127.111.20.49"  # of loopback, and nobody else's
PORTS: Final = (111, 2049)
# Read by mount.nfs, and only for this server. Its own choice is version 4, for which it leaves the
# talking to the kernel; of version 3 it asks the server itself, for as long as it takes.
SETTINGS: Final = Path("/etc/nfsmount.conf.d/kubelet-tests.conf")
_SETTINGS: Final = f'[ Server "{HOST}" ]\nNfsvers=3\nLock=False\n'
_XID: Final = 4  # bytes
_MARK: Final = 4  # of a record on a stream
# A reply that is accepted, without a verifier, and with port 0: there is no such service.
_NOT_HERE: Final = struct.pack(">6I", 1, 0, 0, 0, 0, 0)


class SilentServer:
    """The server, in a thread; and the settings without which nobody would ask it."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._lock = threading.Lock()
        self._refuses = False
        self._waiting: list[tuple[socket.socket, bytes, tuple[str, int] | None]] = []
        self._selector = selectors.DefaultSelector()
        self._sockets: list[socket.socket] = []
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        for port in PORTS:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                self._listen(port, kind)
        self._made = not SETTINGS.parent.exists()
        SETTINGS.parent.mkdir(exist_ok=True)
        SETTINGS.write_text(_SETTINGS)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def refuse(self) -> None:
        """Say to everybody that there is nothing here."""
        with self._lock:
            self._refuses = True
            for asked in self._waiting:
                _answer(*asked)
            self._waiting = []

    def close(self) -> None:
        """End, and take the settings away."""
        self._wake.close()
        self._thread.join()
        self._selector.close()
        for one in (*self._sockets, self._woken):
            one.close()
        SETTINGS.unlink(missing_ok=True)
        if self._made:
            with contextlib.suppress(OSError):
                os.rmdir(SETTINGS.parent)

    def _listen(self, port: int, kind: socket.SocketKind) -> None:
        made = socket.socket(socket.AF_INET, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((HOST, port))
        if kind is socket.SOCK_STREAM:
            made.listen()
        self._add(made)

    def _add(self, one: socket.socket) -> None:
        one.setblocking(False)
        self._sockets.append(one)
        self._selector.register(one, selectors.EVENT_READ)

    def _serve(self) -> None:
        while True:
            ready = [key.fileobj for key, _ in self._selector.select()]
            if self._woken in ready:
                return
            for one in ready:
                assert isinstance(one, socket.socket)
                if one.type is socket.SOCK_STREAM and one.getsockopt(
                    socket.SOL_SOCKET, socket.SO_ACCEPTCONN
                ):
                    self._add(one.accept()[0])
                else:
                    self._hear(one)

    def _hear(self, one: socket.socket) -> None:
        try:
            data, sender = one.recvfrom(1 << 16)
        except OSError:
            data, sender = b"", None
        if not data:
            self._selector.unregister(one)
            return
        with self._lock:
            if self._refuses:
                _answer(one, data, sender)
            else:
                self._waiting.append((one, data, sender))
        self.asked.set()


def _answer(one: socket.socket, data: bytes, sender: tuple[str, int] | None) -> None:
    """Answer one request; who asked may be gone."""
    with contextlib.suppress(OSError):
        if one.type is socket.SOCK_STREAM:
            reply = data[_MARK : _MARK + _XID] + _NOT_HERE
            one.sendall(struct.pack(">I", 1 << 31 | len(reply)) + reply)
        elif sender is not None:
            one.sendto(data[:_XID] + _NOT_HERE, sender)
