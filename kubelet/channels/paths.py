"""Where the sockets are, and whether the kernel can address them. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kubelet.channels.errors import SocketPathTooLong

HINTS: Final = "hints"
REQUESTS: Final = "requests"
# sockaddr_un.sun_path holds 108 bytes, the last of which is the terminating NUL.
PATH_LIMIT: Final = 107


def socket_path(run_dir: Path, kind: str, role: str) -> Path:
    """Name the socket that ``kind`` binds for ``role`` (HINTS or REQUESTS)."""
    path = Path(run_dir) / "channels" / kind / role
    if len(str(path).encode()) > PATH_LIMIT:
        raise SocketPathTooLong(str(path), PATH_LIMIT)
    return path


def check_socket_paths(run_dir: Path, kinds: Iterable[str]) -> None:
    """Raise SocketPathTooLong, with the longest path, if one of the sockets cannot be bound."""
    for kind in sorted(kinds, key=lambda name: len(name.encode()), reverse=True):
        for role in (REQUESTS, HINTS):
            socket_path(run_dir, kind, role)
