"""Reload and upgrade in place: the supervisor executes itself again, and its children live on.

The same process id before and after, so systemd and the children see no change; the listeners and
locks go through the exec, and the list of children with them. Before that, the new code and the
new configuration prove themselves in a process of their own: what cannot start refuses the reload
and changes nothing. Afterwards the children are replaced one by one.
"""

from __future__ import annotations

import json
import os
from collections.abc import MutableMapping
from dataclasses import asdict, dataclass, field
from typing import Final, NoReturn

ADOPT: Final = "KUBELET_ADOPT"
TRIAL: Final = "KUBELET_TRIAL"  # set: check the configuration and the code, say what is wrong, end


@dataclass(frozen=True, slots=True)
class Heir:
    """A child that is handed over."""

    name: str
    pid: int
    births: int


@dataclass(frozen=True, slots=True)
class Legacy:
    """What goes through the exec."""

    pid: int
    children: tuple[Heir, ...] = ()
    listeners: dict[str, int] = field(default_factory=dict)
    locks: dict[str, int] = field(default_factory=dict)
    started_ns: int = 0
    started_unix: float = 0.0
    quarantine: tuple[dict[str, object], ...] = ()


def take_legacy(environ: MutableMapping[str, str], pid: int) -> Legacy | None:
    """What this process left to itself; None at a start of the ordinary kind."""
    text = environ.pop(ADOPT, "")
    if not text:
        return None
    data = json.loads(text)
    if data["pid"] != pid:
        return None  # inherited by somebody else's environment
    data["children"] = tuple(Heir(**child) for child in data["children"])
    data["quarantine"] = tuple(data["quarantine"])
    return Legacy(**data)


def execute_again(command: tuple[str, ...], legacy: Legacy) -> NoReturn:
    """Replace this program by itself."""
    for fd in (*legacy.listeners.values(), *legacy.locks.values()):
        os.set_inheritable(fd, True)
    environ = {**os.environ, ADOPT: json.dumps(asdict(legacy))}
    os.execve(command[0], list(command), environ)  # noqa: S606 - that is the point


@dataclass(frozen=True, slots=True)
class Trial:
    """A running proof of the new code and configuration."""

    pid: int
    pidfd: int
    output: int  # a memfd with what it said


def start_trial(command: tuple[str, ...]) -> Trial:
    """Start the new program only to see whether it could start."""
    output = os.memfd_create("trial", os.MFD_CLOEXEC)
    pid = os.posix_spawn(
        command[0],
        list(command),
        {**os.environ, TRIAL: "1"},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ],
    )
    return Trial(pid, os.pidfd_open(pid), output)


def end_trial(trial: Trial) -> str | None:
    """Reap the trial: None when it passed, else all that it said."""
    _, status = os.waitpid(trial.pid, 0)
    said = os.pread(trial.output, 64 * 1024, 0).decode(errors="replace").strip()
    os.close(trial.pidfd)
    os.close(trial.output)
    if os.waitstatus_to_exitcode(status) == 0:
        return None
    return said or f"the new kubelet ended with status {status} and said nothing"
