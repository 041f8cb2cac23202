"""What is said to systemd, and what it hands over: sd_notify, the watchdog, stored descriptors."""

from __future__ import annotations

import array
import os
import socket
import time
from collections.abc import Mapping, MutableMapping

from kubelet import logging as klog

log = klog.get_logger(__name__)

_FIRST_FD = 3
_PATIENCE = 0.5  # seconds


class Notifier:
    """Speaks to ``NOTIFY_SOCKET``; silent when there is none."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._last_status = ""
        self._deaf = False  # nobody listened the last time; said once

    @property
    def connected(self) -> bool:
        """Whether anybody listens."""
        return bool(self._address)

    def ready(self) -> None:
        """The whole tree is up."""
        self._send("READY=1")

    def status(self, text: str) -> None:
        """One line for ``systemctl status``."""
        if text != self._last_status:
            self._last_status = text
            self._send(f"STATUS={text}")

    def watchdog(self) -> None:
        """Still alive."""
        self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """A reload has begun; READY ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The stop has begun."""
        self._send("STOPPING=1")

    def store(self, name: str, fd: int) -> None:
        """Keep a descriptor for the next supervisor."""
        self._send(f"FDSTORE=1\nFDNAME={name}", fd)

    def forget(self, name: str) -> None:
        """Drop a kept descriptor."""
        self._send(f"FDSTOREREMOVE=1\nFDNAME={name}")

    def _send(self, text: str, *fds: int) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        # A state that systemd waits for may wait for room in its queue; a line of text may not.
        patience = 0.0 if text.startswith(("STATUS=", "WATCHDOG=")) else _PATIENCE
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(patience)
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
                sender.sendmsg([text.encode()], rights if fds else [], 0, address)
        except OSError as err:
            if not self._deaf:
                log.warning("Could not notify systemd", text=text.partition("\n")[0], err=err)
            self._deaf = True
        else:
            self._deaf = False


def watchdog_period(environ: Mapping[str, str], pid: int) -> float | None:
    """Seconds between two WATCHDOG=1, half of what systemd allows; None without a watchdog.

    A watchdog of a second or less is an error (K-1): it could not tell slow from dead.
    """
    text = environ.get("WATCHDOG_USEC", "")
    wanted = environ.get("WATCHDOG_PID", "")
    if not text or (wanted and wanted != str(pid)):
        return None
    if not text.isdigit() or int(text) <= 1_000_000:
        raise ValueError(f"WATCHDOG_USEC: {text}: WatchdogSec must be longer than 1 s")
    return int(text) / 2 / 1_000_000


def take_stored(environ: MutableMapping[str, str], pid: int) -> dict[str, list[int]]:
    """The descriptors that systemd kept or opened for us, by name."""
    count = environ.pop("LISTEN_FDS", "")
    owner = environ.pop("LISTEN_PID", "")
    names = environ.pop("LISTEN_FDNAMES", "").split(":")
    if not count.isdigit() or owner != str(pid):
        return {}
    stored: dict[str, list[int]] = {}
    for index in range(int(count)):
        fd = _FIRST_FD + index
        os.set_inheritable(fd, False)
        stored.setdefault(names[index] if index < len(names) else "", []).append(fd)
    return stored
