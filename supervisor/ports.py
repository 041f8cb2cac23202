"""All listening sockets of the tree: opened, inherited, stored with systemd, tried again."""

from __future__ import annotations

import os
import socket
import time
from typing import Final

from kubelet import logging as klog
from supervisor.listeners import ListenAddress, ListenError, adopt, open_listener
from supervisor.notify import Notifier, take_stored
from supervisor.reload import Legacy

log = klog.get_logger(__name__)

RETRY: Final = 5.0  # seconds until an address in use is tried again (H-3)


class Ports:
    """The sockets by name."""

    def __init__(
        self, addresses: tuple[ListenAddress, ...], notifier: Notifier, legacy: Legacy | None
    ) -> None:
        self._addresses = {address.name: address for address in addresses}
        self._notifier = notifier
        self._sockets: dict[str, socket.socket] = {}
        self._problems: dict[str, str] = {}
        self.retry_at = float("inf")
        inherited = {name: [fd] for name, fd in (legacy.listeners if legacy else {}).items()}
        stored = take_stored(os.environ, os.getpid())
        for name, fds in stored.items():
            inherited.setdefault(name, []).extend(fds)
        self._inherit(inherited)
        self._open_missing()

    def _inherit(self, inherited: dict[str, list[int]]) -> None:
        for name, fds in inherited.items():
            address = self._addresses.get(name)
            for fd in fds:
                taken = None
                if address is not None and name not in self._sockets:
                    taken = adopt(fd, address)
                    if taken is None:
                        self._notifier.forget(name)
                else:
                    os.close(fd)
                if taken is not None:
                    log.info("Listening on an inherited socket", name=name, fd=fd)
                    self._sockets[name] = taken

    def _open_missing(self) -> list[str]:
        kinds = []
        self.retry_at = float("inf")
        for name, address in self._addresses.items():
            if name in self._sockets:
                continue
            try:
                sock = open_listener(address)
            except ListenError as err:
                if str(err) != self._problems.get(name):
                    log.error("Could not listen, will try again", err=err, every=f"{RETRY:.0f}s")
                self._problems[name] = str(err)
                self.retry_at = time.monotonic() + RETRY
                continue
            self._problems.pop(name, None)
            self._sockets[name] = sock
            self._notifier.store(name, sock.fileno())
            log.info("Listening", name=name, address=address.text)
            kinds.append(address.kind)
        return kinds

    def retry(self) -> list[str]:
        """Try again where it is due; the kinds that must be started anew to get their socket."""
        if time.monotonic() < self.retry_at:
            return []
        return self._open_missing()

    def for_kind(self, kind: str) -> dict[str, int]:
        """The descriptors that a process accepts on."""
        return {
            name: sock.fileno()
            for name, sock in self._sockets.items()
            if self._addresses[name].kind == kind
        }

    def descriptors(self) -> dict[str, int]:
        """All descriptors by name."""
        return {name: sock.fileno() for name, sock in self._sockets.items()}

    def problems(self) -> list[str]:
        """What cannot be listened on, in words."""
        return list(self._problems.values())

    def close(self) -> None:
        """Stop listening, for good: an asked stop leaves nothing in systemd's store."""
        for name, sock in self._sockets.items():
            self._notifier.forget(name)
            sock.close()
        self._sockets = {}
