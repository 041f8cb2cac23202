"""The listening sockets. They belong to the supervisor, so a dying server refuses no connection."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from kubelet import logging as klog

log = klog.get_logger(__name__)

_BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen, and under which name the descriptor is handed on."""

    name: str
    host: str
    port: int
    kind: str  # the process that accepts on it

    @property
    def text(self) -> str:
        """Host and port as a person writes them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class ListenError(Exception):
    """An address that cannot be listened on; the text names it."""


def open_listener(address: ListenAddress) -> socket.socket:
    """Listen on an address."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and address.host == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((address.host, address.port))
        sock.listen(_BACKLOG)
    except OSError as err:
        sock.close()
        raise ListenError(
            f"{address.name}: cannot listen on {address.text}: {err.strerror}"
        ) from err
    return sock


def adopt(fd: int, address: ListenAddress) -> socket.socket | None:
    """Take over a descriptor from a predecessor if it listens where it should; close it if not."""
    try:
        sock = socket.socket(fileno=fd)
    except OSError:
        return None
    try:
        matches = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        matches = matches and sock.getsockname()[:2] == (address.host, address.port)
    except OSError:
        matches = False
    if not matches:
        sock.close()
        return None
    sock.setblocking(False)
    os.set_inheritable(fd, False)
    return sock
