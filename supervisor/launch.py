"""The first things that a forked child does, before any code of its kind runs.

In order: forget the supervisor's signal handlers and descriptors, wait for the supervisor's go
(its cgroup, its OOM score and its line in the state file come first), take a name, then hand over
to the frame, which opens what needs root, calls ``seal`` and only then starts to work.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import random
import signal
import socket
import sys
from dataclasses import dataclass
from typing import NoReturn

from kubelet import logging as klog
from supervisor import linux, privileges
from supervisor.exits import ExitCode
from supervisor.kinds import Kind
from supervisor.settings import Settings

log = klog.get_logger(__name__)

GO = b"g"
ALIVE = b"a"


@dataclass(frozen=True, slots=True)
class Launch:
    """What a child is given."""

    kind: Kind
    settings: Settings
    supervisor_pid: int
    link: socket.socket  # to the supervisor: its go, our first heartbeat
    listeners: dict[str, int]  # name -> descriptor
    quarantined: tuple[str, ...]  # pods to leave alone

    def seal(self) -> None:
        """Give up every privilege that the kind does not need, and die with the supervisor."""
        privileges.drop(self.kind, self.settings.identity)
        # After the change of user, which clears it.
        linux.set_parent_death_signal(signal.SIGKILL)
        if os.getppid() != self.supervisor_pid:
            os._exit(ExitCode.ORPHANED)

    def first_heartbeat(self) -> None:
        """Tell the supervisor at once, so that nobody waits for its next look at the board."""
        with contextlib.suppress(OSError):
            self.link.send(ALIVE)
        self.link.close()


def run_child(launch: Launch) -> NoReturn:
    """Become the child. Never returns: the supervisor's frames below must not unwind here."""
    code: int = ExitCode.CRASHED
    try:
        _forget_parent(launch)
        klog.set_process(launch.kind.name)
        linux.set_parent_death_signal(signal.SIGKILL)
        if launch.link.recv(1) != GO:
            os._exit(ExitCode.ORPHANED)
        linux.set_title(f"kubelet: {launch.kind.name}")
        random.seed()
        module, _, function = launch.settings.frame.partition(":")
        code = getattr(importlib.import_module(module), function)(launch)
    except BaseException as err:  # noqa: BLE001 - nothing may unwind into the supervisor's frames
        log.bug("Process failed before it could start", err)
    finally:
        _leave(code)


def _leave(code: int) -> NoReturn:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _forget_parent(launch: Launch) -> None:
    signal.set_wakeup_fd(-1)
    faulthandler.unregister(signal.SIGUSR2)  # or the frame's own would be taken for this one
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the supervisor's to handle
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.setsid()
    os.environ.pop("NOTIFY_SOCKET", None)
    keep = {0, 1, 2, launch.link.fileno(), *launch.listeners.values()}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))
