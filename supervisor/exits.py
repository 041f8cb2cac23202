"""The vocabulary of endings: exit codes, and the words for how a process ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """What the exit code of ``kubelet`` and of its processes says."""

    ASKED = 0  # ended because it was asked to
    FAILED = 1  # kubelet: bad flag or configuration, failed start (K-8), second signal (C-18)
    CRASHED = 70  # a process: an error that nobody expected
    RESTART = 75  # a process: it asks for a successor with a clean start
    ORPHANED = 76  # a process: its supervisor was gone before it began


# Deaths that handling a pod can cause. A plain SIGKILL comes from outside and blames nobody.
_FAULT_SIGNALS: Final = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGSYS}
)


@dataclass(frozen=True, slots=True)
class Exit:
    """How one process ended."""

    code: int  # exit code, or -signal
    out_of_memory: bool = False

    @property
    def text(self) -> str:
        """The ending in words."""
        if self.code < 0:
            name = _signal_name(-self.code)
            return f"killed by {name}" + (" (out of memory)" if self.out_of_memory else "")
        try:
            return f"exit {self.code} ({ExitCode(self.code).name.lower()})"
        except ValueError:
            return f"exit {self.code}"

    @property
    def is_fault(self) -> bool:
        """Whether the process's own work ended it."""
        return self.out_of_memory or self.code == ExitCode.CRASHED or -self.code in _FAULT_SIGNALS

    @property
    def is_foreign(self) -> bool:
        """Whether somebody else ended it: a signal that no fault of its own sends."""
        return self.code < 0 and not self.is_fault


def from_wait_status(status: int, *, out_of_memory: bool = False) -> Exit:
    """The ending that ``waitpid`` reported."""
    import os

    return Exit(os.waitstatus_to_exitcode(status), out_of_memory)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
