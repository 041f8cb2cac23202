"""The control socket: one JSON object per line, one JSON line in answer.

For what must work when every child is stuck: ``kubeletctl restart``, ``reload`` and ``release``.
Only root and the supervisor's own user are heard. Nothing here ever blocks: the sockets are
non-blocking, a line has a limit, and a client that does not read its answer is dropped.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from kubelet import logging as klog

log = klog.get_logger(__name__)

_LINE_LIMIT: Final = 64 * 1024
_CLIENT_LIMIT: Final = 32
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid

Answer = dict[str, Any]
Reply = Callable[[Answer], None]
Handler = Callable[[dict[str, Any], Reply], None]


class ControlSocket:
    """Listens on the control socket inside the supervisor's loop."""

    def __init__(
        self,
        path: str,
        watch: Callable[[int, Callable[[], None]], None],
        unwatch: Callable[[int], None],
        handler: Handler,
    ) -> None:
        self._path = path
        self._watch = watch
        self._unwatch = unwatch
        self._handler = handler
        self._clients: dict[int, tuple[socket.socket, bytearray]] = {}
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        flags = socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._listener = socket.socket(socket.AF_UNIX, flags)
        self._listener.bind(path)
        os.chmod(path, 0o600)
        self._listener.listen(16)
        watch(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        for fd in list(self._clients):
            self._drop(fd)
        self._unwatch(self._listener.fileno())
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        client.setblocking(False)
        _, uid, _ = _CREDENTIALS.unpack(
            client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if uid not in (0, os.geteuid()) or len(self._clients) >= _CLIENT_LIMIT:
            client.close()
            return
        self._clients[client.fileno()] = (client, bytearray())
        fd = client.fileno()
        self._watch(fd, lambda: self._read(fd))

    def _drop(self, fd: int) -> None:
        found = self._clients.pop(fd, None)
        if found is not None:
            self._unwatch(fd)
            found[0].close()

    def _read(self, fd: int) -> None:
        client, buffer = self._clients[fd]
        try:
            data = client.recv(_LINE_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        buffer += data
        if not data or len(buffer) > _LINE_LIMIT:
            self._drop(fd)
            return
        while b"\n" in buffer and fd in self._clients:
            line, _, rest = bytes(buffer).partition(b"\n")
            buffer[:] = rest
            self._handle(client, line)

    def _handle(self, client: socket.socket, line: bytes) -> None:
        def reply(answer: Answer) -> None:
            self._reply(client, answer)

        try:
            request = json.loads(line)
        except ValueError as err:
            reply({"ok": False, "error": f"not JSON: {err}"})
            return
        if not isinstance(request, dict) or not isinstance(request.get("do"), str):
            reply({"ok": False, "error": 'an object with a text "do" is expected'})
            return
        self._handler(request, reply)

    def _reply(self, client: socket.socket, answer: Answer) -> None:
        fd = client.fileno()
        if fd < 0:
            return  # gone in the meantime
        try:
            client.send(json.dumps(answer).encode() + b"\n")
        except OSError:
            self._drop(fd)
